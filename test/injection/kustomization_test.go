package injection_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/internal/testenv"
)

// What is not listed is not installed, and nobody would notice.
func TestTheKustomizationListsEveryPolicy(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"injection", "policy"} {
		text, err := os.ReadFile(filepath.Join(root, "config", folder, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var k struct{ Resources []string }
		if err := yaml.Unmarshal(text, &k); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(root, "config", folder, "*.yaml"))
		if err != nil || len(files) < 3 {
			t.Fatalf("%v, %v", files, err)
		}
		for _, file := range files {
			if name := filepath.Base(file); name != "kustomization.yaml" && !slices.Contains(k.Resources, name) {
				t.Errorf("config/%s/kustomization.yaml does not list %s", folder, name)
			}
		}
	}
}
