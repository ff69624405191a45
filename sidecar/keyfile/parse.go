package keyfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// MaxBytes is the largest file that is read: a ring as large as the API allows, and room for its managed fields.
const MaxBytes = 2 << 20

// maxDocuments bounds the YAML documents of a file.
const maxDocuments = 64

const kind = "RequestStateKey"

// Parse returns the one RequestStateKey in YAML or JSON, whose ring has been checked. Documents of other kinds, such as the Secret that init prints before the
// key, are passed over. The error says what to do, and holds nothing of the text but the names of fields and ids of keys.
func Parse(text []byte) (*v1alpha1.RequestStateKey, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxBytes)
	}
	var key *v1alpha1.RequestStateKey
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || n > maxDocuments {
			return nil, fmt.Errorf("it is not one to %d documents of YAML", maxDocuments)
		}
		found, err := parseDocument(document)
		switch {
		case err != nil:
			return nil, fmt.Errorf("document %d: %w", n, err)
		case found != nil && key != nil:
			return nil, fmt.Errorf("it holds more than one %s: leave the one that this sidecar serves", kind)
		case found != nil:
			key = found
		}
	}
	if key == nil {
		return nil, fmt.Errorf("it holds no %s of %s: write one with kubectl requeststate init NAME --with-ring", kind, v1alpha1.GroupVersion)
	}
	return key, check(key)
}

// parseDocument returns the key in one document, nil if it is of another kind. The parsers' own errors are not passed on: they quote the text.
func parseDocument(document []byte) (*v1alpha1.RequestStateKey, error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return nil, nil
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return nil, errors.New("it is not YAML, or cut off")
	}
	switch {
	case head.Kind == "List" || head.Kind == kind+"List":
		return nil, fmt.Errorf("it is a list: get the one key by its name, kubectl get requeststatekey NAME -o yaml")
	case head.Kind != kind:
		return nil, nil
	case head.APIVersion != v1alpha1.GroupVersion.String():
		return nil, fmt.Errorf("its apiVersion is not %s, the one that this version knows", v1alpha1.GroupVersion)
	}
	key := &v1alpha1.RequestStateKey{}
	if err := yaml.Unmarshal(document, key); err != nil {
		return nil, fmt.Errorf("it is not a %s: a field has the wrong type", kind)
	}
	return key, nil
}

func check(key *v1alpha1.RequestStateKey) error {
	switch {
	case key.Name == "" || key.Namespace == "":
		return errors.New("metadata.name and metadata.namespace must be set: wrapped keys are bound to them")
	case key.Status.Keyring == nil:
		return errors.New("it has no ring in status.keyring: write a file that has one with kubectl requeststate init NAME --with-ring")
	}
	if fault := rotation.CheckRing(key.Status.Keyring); fault != nil {
		return fault
	}
	return nil
}
