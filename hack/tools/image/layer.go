package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// architecture returns GOARCH of a binary. It refuses one that asks for a loader, since the image has none: the kernel would say of it that it does not exist.
func architecture(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s as an ELF binary: %w", path, err)
	}
	defer func() { _ = f.Close() }() // only read
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s is not static: build it with CGO_ENABLED=0", path)
		}
	}
	switch {
	case f.Machine == elf.EM_X86_64:
		return "amd64", nil
	case f.Machine == elf.EM_AARCH64 && f.Data == elf.ELFDATA2LSB:
		return "arm64", nil
	default:
		return "", fmt.Errorf("%s is for %s: amd64 and arm64 are supported", path, f.Machine)
	}
}

// newLayer returns a layer of one file that anybody may read and run and nobody change, and its size in bytes, uncompressed. Its digest depends on the
// binary alone, so a release that leaves the binary as it was shares the layer.
func newLayer(binary, path string) (v1.Layer, int64, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, 0, err
	}
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o555, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	}
	if err := w.WriteHeader(header); err != nil {
		return nil, 0, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, 0, err
	}
	if err := w.Close(); err != nil {
		return nil, 0, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil })
	return layer, int64(text.Len()), err
}
