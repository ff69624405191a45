package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// write writes the archive. A file that is there is replaced in one step, so nobody reads half of one.
func write(image v1.Image, tag, out string) (err error) {
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("-tag: %w", err)
	}
	// One that is left out would become latest, which nobody asked for.
	if !strings.HasSuffix(tag, ":"+ref.TagStr()) {
		return fmt.Errorf("-tag %s: want NAME:TAG", tag)
	}
	f, err := os.CreateTemp(filepath.Dir(out), ".image-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = f.Close(), os.Remove(f.Name())
		}
	}()
	if err := tarball.Write(ref, image, f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), out)
}
