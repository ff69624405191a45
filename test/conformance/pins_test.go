package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// pins is the folder of the packages that make conformance downloads.
const pins = "../../hack/tools/conformance/"

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}

// A package without a hash could be another one tomorrow, and one with an address would be fetched from the registry of whoever wrote the file.
func TestEveryPackageIsPinnedByItsHashAndNoneByAnAddress(t *testing.T) {
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	readJSON(t, pins+"package-lock.json", &lock)
	if len(lock.Packages) < 100 {
		t.Fatalf("%d packages", len(lock.Packages))
	}
	for path, p := range lock.Packages {
		if p.Resolved != "" {
			t.Errorf("%s has an address", path)
		}
		if path != "" && (p.Version == "" || !strings.HasPrefix(p.Integrity, "sha512-")) {
			t.Errorf("%s is not pinned", path)
		}
	}
}

func TestWhatIsAskedForIsOneVersionEach(t *testing.T) {
	var manifest struct{ Dependencies, OptionalDependencies map[string]string }
	readJSON(t, pins+"package.json", &manifest)
	exact := regexp.MustCompile(`^\d+\.\d+\.\d+(-[a-z]+\.\d+)?$`)
	for _, group := range []map[string]string{manifest.Dependencies, manifest.OptionalDependencies} {
		if len(group) == 0 {
			t.Error("nothing is asked for")
		}
		for name, version := range group {
			if !exact.MatchString(version) {
				t.Errorf("%s %s may be several versions", name, version)
			}
		}
	}
}
