package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const tag = "requeststate-hello:test"

// hello builds a program and returns the path of the binary.
func hello(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "hello.go"), filepath.Join(dir, "hello")
	put(t, source, []byte("package main\n\nfunc main() { println(\"hello\") }\n"))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// The places in an ELF file of 64 bits, little-endian, and what may stand there.
const (
	machineAt, arm64, riscv = 18, 183, 243
	firstSegmentAt, interp  = 64, 3 // a C compiler would be needed for a binary that really asks for a loader
)

// altered returns the path of a copy of a binary with another byte.
func altered(t *testing.T, binary string, at int, value byte) string {
	t.Helper()
	content := read(t, binary)
	content[at] = value
	return put(t, filepath.Join(t.TempDir(), "hello"), content)
}

func put(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// archive makes an archive of a binary, and returns its path.
func archive(t *testing.T, binary string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := run(append([]string{"-binary", binary, "-tag", tag, "-out", out}, flags...), io.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

func open(t *testing.T, path string) (v1.Image, *v1.ConfigFile) {
	t.Helper()
	ref, err := name.NewTag(tag)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(path, &ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return image, config
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestTheImageHoldsTheBinaryAlone(t *testing.T) {
	binary := hello(t)
	image, _ := open(t, archive(t, binary))
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(content)
	header, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "hello" || header.Typeflag != tar.TypeReg || header.Mode != 0o555 || header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(time.Unix(0, 0)) {
		t.Errorf("entry %+v", header)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, read(t, binary)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if header, err := r.Next(); err != io.EOF {
		t.Errorf("another entry %+v, %v", header, err)
	}
}

func TestTheImageRunsTheBinaryAndNotAsRoot(t *testing.T) {
	_, config := open(t, archive(t, hello(t)))
	c := config.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/hello"}) || len(c.Cmd) > 0 || c.WorkingDir != "/" || config.OS != "linux" {
		t.Errorf("config %+v", config)
	}
}

func TestTheArchitectureIsTheBinarys(t *testing.T) {
	binary := hello(t)
	for arch, path := range map[string]string{"amd64": binary, "arm64": altered(t, binary, machineAt, arm64)} {
		if _, config := open(t, archive(t, path)); config.Architecture != arch {
			t.Errorf("%s: the config says %s", arch, config.Architecture)
		}
	}
}

func TestLabelsAreKeptAndOneOfThemIsTheTime(t *testing.T) {
	_, config := open(t, archive(t, hello(t), "-label", "description=x = y, z", "-label", createdLabel+"=2026-07-28T12:00:00Z"))
	if l := config.Config.Labels; len(l) != 2 || l["description"] != "x = y, z" || l[createdLabel] != "2026-07-28T12:00:00Z" {
		t.Errorf("labels %v", l)
	}
	if want := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC); !config.Created.Equal(want) || !config.History[0].Created.Equal(want) {
		t.Errorf("created %v, %v", config.Created, config.History[0].Created)
	}
	if _, config := open(t, archive(t, hello(t))); !config.Created.Equal(time.Unix(0, 0)) {
		t.Errorf("without the label, created %v", config.Created)
	}
}

func TestTheSameBinaryMakesTheSameBytes(t *testing.T) {
	binary := hello(t)
	labels := []string{"-label", "a=1", "-label", "b=2", "-label", "c=3"}
	first := read(t, archive(t, binary, labels...))
	// Another file of the same content: other times, other permissions.
	copied := put(t, filepath.Join(t.TempDir(), "hello"), read(t, binary))
	for _, again := range []string{binary, copied} {
		if !bytes.Equal(read(t, archive(t, again, labels...)), first) {
			t.Error("another archive")
		}
	}
}

func TestAnImageThatIsTooLargeIsRefused(t *testing.T) {
	binary := hello(t)
	size := len(read(t, binary))
	// A tar is a little larger than what it holds.
	archive(t, binary, "-max-bytes", strconv.Itoa(size+4096))
	expectRefused(t, "uncompressed", "-binary", binary, "-tag", tag, "-max-bytes", strconv.Itoa(size))
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	binary := hello(t)
	text := put(t, filepath.Join(t.TempDir(), "text"), []byte("#!/bin/sh\n"))
	expectRefused(t, "ELF", "-binary", text, "-tag", tag)
	expectRefused(t, "CGO_ENABLED=0", "-binary", altered(t, binary, firstSegmentAt, interp), "-tag", tag)
	expectRefused(t, "amd64 and arm64", "-binary", altered(t, binary, machineAt, riscv), "-tag", tag)
	expectRefused(t, "no such file", "-binary", text+"x", "-tag", tag)
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	binary := hello(t)
	expectRefused(t, "-tag", "-binary", binary)
	expectRefused(t, "NAME:TAG", "-binary", binary, "-tag", "requeststate-hello")
	expectRefused(t, "NAME:TAG", "-binary", binary, "-tag", "localhost:5000/requeststate-hello")
	expectRefused(t, "-tag", "-binary", binary, "-tag", "Hello:test")
	expectRefused(t, "KEY=VALUE", "-binary", binary, "-tag", tag, "-label", "x")
	expectRefused(t, createdLabel, "-binary", binary, "-tag", tag, "-label", createdLabel+"=yesterday")
	expectRefused(t, "no arguments", "-binary", binary, "-tag", tag, "more")
}

func TestADescriptionTellsWhatAnImageDoesAndHolds(t *testing.T) {
	binary := hello(t)
	path := archive(t, binary, "-label", "b=2", "-label", "a=1")
	var got strings.Builder
	if err := run([]string{"-describe", path}, &got); err != nil {
		t.Fatal(err)
	}
	content := read(t, binary)
	want := fmt.Sprintf(`platform linux/amd64
user 65532:65532
entrypoint ["/hello"], cmd [], working directory /
ports map[], volumes map[], environment ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
label a=1
label b=2
file /hello type 0 mode 0555 owner 0:0, %d bytes, sha256 %x
`, len(content), sha256.Sum256(content))
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	expectRefused(t, "-describe alone", "-describe", path)
	if err := run([]string{"-describe", binary}, io.Discard); err == nil {
		t.Error("a binary was described as an archive")
	}
}

// expectRefused asserts that run fails, says why, and leaves nothing behind.
func expectRefused(t *testing.T, why string, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	err := run(append([]string{"-out", filepath.Join(dir, "image.tar")}, flags...), io.Discard)
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%v: %v, want %q", flags, err, why)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v: left %v, %v", flags, left, err)
	}
}
