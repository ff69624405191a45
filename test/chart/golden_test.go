package chart_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestTheChartRendersAsBefore(t *testing.T) {
	for _, r := range releases {
		t.Run(r.values, func(t *testing.T) {
			is := withoutCRDs(r.text(t))
			file := filepath.Join("testdata", r.values+".golden.yaml")
			if *update {
				if err := os.WriteFile(file, []byte(is), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			should, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if is == string(should) {
				return
			}
			old, now := strings.Split(string(should), "\n"), strings.Split(is, "\n")
			for i := 0; i < len(old) && i < len(now); i++ {
				if old[i] != now[i] {
					t.Fatalf("%s:%d:\n- %s\n+ %s\nIf that is meant: go test ./chart -run RendersAsBefore -update", file, i+1, old[i], now[i])
				}
			}
			t.Fatalf("%s has %d lines, and %d are rendered", file, len(old), len(now))
		})
	}
}

// withoutCRDs leaves the metadata of each CRD. The rest is compared with config/, whose files are generated.
func withoutCRDs(text string) string {
	docs := strings.Split(text, "\n---\n")
	for i, doc := range docs {
		if strings.Contains(doc, "\nkind: CustomResourceDefinition\n") {
			docs[i], _, _ = strings.Cut(doc, "\nspec:\n")
		}
	}
	return strings.Join(docs, "\n---\n")
}
