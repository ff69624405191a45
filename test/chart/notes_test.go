package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the notes send the reader to must be there, and be about what they say: "codec mode: see docs/install.md" was not.
func TestTheNotesNameDocumentsOfTheirSubject(t *testing.T) {
	notes, err := os.ReadFile(filepath.Join(chart(), "templates", "NOTES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(KMS|codec mode): see (docs/\S+\.md)`).FindAllStringSubmatch(string(notes), -1)
	if len(named) != 2 {
		t.Fatalf("the notes name %d documents, want one on KMS and one on codec mode", len(named))
	}
	for _, n := range named {
		subject, file := n[1], n[2]
		text, err := os.ReadFile(filepath.Join(chart(), "..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), subject) {
			t.Errorf("%s does not say %q", file, subject)
		}
	}
}
