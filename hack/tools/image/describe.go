package main

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// describe prints what an archive's image does and holds, in lines: two images of the same lines run alike, whoever made them. Times are left out, since an
// engine copies those of the files.
func describe(path string, w io.Writer) error {
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	c := config.Config
	lines := []string{
		fmt.Sprintf("platform %s/%s", config.OS, config.Architecture),
		fmt.Sprintf("user %s", c.User),
		fmt.Sprintf("entrypoint %q, cmd %q, working directory %s", c.Entrypoint, c.Cmd, c.WorkingDir),
		fmt.Sprintf("ports %v, volumes %v, environment %q", c.ExposedPorts, c.Volumes, c.Env),
	}
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		lines = append(lines, fmt.Sprintf("label %s=%s", key, c.Labels[key]))
	}
	files, err := files(image)
	if err != nil {
		return err
	}
	for _, line := range append(lines, files...) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// files returns a line for each file of the image as a container sees it.
func files(image v1.Image) (lines []string, err error) {
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }() // only read
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		digest := sha256.New()
		if _, err := io.Copy(digest, r); err != nil { //nolint:gosec // an archive that was made here, for whoever asks on the command line
			return nil, err
		}
		mode := header.Mode & 0o7777 // some write the type there, too
		lines = append(lines, fmt.Sprintf("file /%s type %c mode %04o owner %d:%d, %d bytes, sha256 %x",
			header.Name, header.Typeflag, mode, header.Uid, header.Gid, header.Size, digest.Sum(nil)))
	}
}
