package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Every pod pulls it. The image holds nothing else.
func TestTheSidecarTakesNoMoreThan25MB(t *testing.T) {
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 25e6 {
		t.Errorf("%d bytes: see which packages came in with go tool nm -size -sort size, on a build without -s", info.Size())
	}
}

// Either would add 10 MB by what it registers, whether it is used or not.
func TestTheSidecarBringsNoneOfKubernetesOwnTypes(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		if strings.HasPrefix(path, "k8s.io/api/") || strings.HasPrefix(path, "sigs.k8s.io/controller-runtime/") {
			t.Errorf("the binary holds %s", strings.TrimSpace(path))
		}
	}
}
