package aws

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/requeststate/operator/internal/kms"
)

// What the code calls, what it was seen to call, and what the documents name.
func TestTheDocumentsNameTheOperationsThatTheCodeCalls(t *testing.T) {
	inCode := map[string]bool{}
	for _, file := range sources(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(s.X) == "awskms" {
				if op, ok := strings.CutSuffix(s.Sel.Name, "Input"); ok {
					inCode["kms:"+op] = true
				}
			}
			return true
		})
	}
	seen := map[string]bool{}
	for _, r := range captured(t, docsARN) {
		seen[r.action] = true
	}
	named, denied, ofKey := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range slices.Concat(readPolicy(t, "controller-policy.json"), readPolicy(t, "pod-policy.json")) {
		for _, a := range s.actions {
			named[a] = true
		}
	}
	for _, s := range readPolicy(t, "key-policy.json") {
		for _, a := range s.actions {
			denied[a] = denied[a] || s.effect == "Deny"
			if slices.Contains(s.principals, managerRole) || slices.Contains(s.principals, podRole) {
				ofKey[a] = true
			}
		}
	}
	for name, set := range map[string]map[string]bool{"the Wrapper's requests": seen, "the roles' policies": named, "the key policy": ofKey} {
		if !maps.Equal(set, inCode) {
			t.Errorf("%s have %v, the code has %v", name, set, inCode)
		}
	}
	for a := range inCode {
		if a != "kms:DescribeKey" && !denied[a] { // which has no encryption context
			t.Errorf("%s is not denied without the encryption context", a)
		}
	}
}

// No other package may call AWS KMS unseen.
func TestOnlyThisPackageCallsAWSKMS(t *testing.T) {
	for _, dir := range []string{"api", "cmd", "controllers", "internal", "sidecar"} {
		err := filepath.WalkDir(repository+dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() || strings.HasSuffix(path, "internal/kms/aws") {
				return err
			}
			for _, file := range sources(t, path) {
				for _, i := range file.Imports {
					if i.Path.Value == `"github.com/aws/aws-sdk-go-v2/service/kms"` {
						t.Errorf("%s imports %s", path, i.Path.Value)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sources parses the Go files of a folder that are no tests.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

func TestEveryIAMDocumentIsReadAndLinked(t *testing.T) {
	guide, err := os.ReadFile(repository + "docs/kms/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(iamDir + "*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d documents, %v", len(paths), err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		readPolicy(t, name)
		if !bytes.Contains(guide, []byte("(iam/"+name+")")) {
			t.Errorf("docs/kms/aws.md has no link to %s", name)
		}
	}
}

// The guide's table says of each code that is known here what class it has.
func TestTheGuideNamesEveryErrorCode(t *testing.T) {
	guide, err := os.ReadFile(repository + "docs/kms/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	classes := map[string]kms.Class{"retry": kms.Retry, "alert": kms.Alert, "that key only": kms.KeyOnly}
	for code, v := range verdicts {
		found := false
		for line := range strings.Lines(string(guide)) {
			cells := strings.Split(line, "|")
			if len(cells) < 4 || !strings.Contains(cells[1], "`"+code+"`") {
				continue
			}
			found = true
			if class := classes[strings.TrimSpace(cells[2])]; class != v.class {
				t.Errorf("%s is of class %s, and the guide says %q", code, v.class, cells[2])
			}
		}
		if !found {
			t.Errorf("docs/kms/aws.md does not name %s", code)
		}
	}
}
