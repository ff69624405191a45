package keyfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
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
	return decode(document)
}

// decode reads a key in which nothing is misspelt: a field that is not known here might have been one that keeps somebody out.
func decode(document []byte) (*v1alpha1.RequestStateKey, error) {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, fmt.Errorf("a field of the %s occurs twice", kind)
	}
	key := &v1alpha1.RequestStateKey{}
	unknown, err := kjson.UnmarshalStrict(text, key)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType) && isFieldPath(wrongType.Field):
		return nil, fmt.Errorf("it is not a %s: %s has the wrong type", kind, wrongType.Field)
	case err != nil:
		return nil, fmt.Errorf("it is not a %s: a field has the wrong type", kind)
	case len(unknown) > 0:
		return nil, fmt.Errorf("it has a field that this version does not know%s: correct its name, or remove it", quoted(unknown[0]))
	}
	return key, nil
}

// quoted returns the path of a field that an error is about, if it looks like one.
func quoted(err error) string {
	_, path, found := strings.Cut(err.Error(), `"`)
	if path = strings.TrimSuffix(path, `"`); !found || !isFieldPath(path) {
		return ""
	}
	return ", " + path
}

// isFieldPath keeps out of errors what is no field's name.
func isFieldPath(path string) bool {
	return len(path) <= 100 && fieldPath.MatchString(path)
}

var fieldPath = regexp.MustCompile(`^[A-Za-z0-9]+(\[[0-9]+\]|\.[A-Za-z0-9]+)*$`)

func check(key *v1alpha1.RequestStateKey) error {
	switch {
	case key.Name == "" || key.Namespace == "":
		return errors.New("metadata.name and metadata.namespace must be set: wrapped keys are bound to them")
	case key.Status.Keyring == nil:
		return errors.New("it has no ring in status.keyring: write a file that has one with kubectl requeststate init NAME --with-ring")
	}
	if fault := rotation.CheckRing(key.Status.Keyring); fault != nil {
		return fmt.Errorf("%w. Or write a new file with kubectl requeststate init NAME --with-ring", fault)
	}
	if err := checkPrincipal(&key.Status.Keyring.Settings.Principal); err != nil {
		return err
	}
	return checkSettings(key)
}

// checkPrincipal checks what the API server would have.
func checkPrincipal(p *v1alpha1.PrincipalSpec) error {
	if (p.JWT != nil) != (p.Source == v1alpha1.PrincipalJWT) || (p.Header != nil) != (p.Source == v1alpha1.PrincipalHeader) {
		return errors.New("status.keyring.settings.principal: jwt is set exactly if source is JWT, and header exactly if source is Header")
	}
	return nil
}

// checkSettings compares what the spec says with what the ring does, which sidecars obey. In a cluster the controller copies the one to the other; here somebody
// who changed the spec alone would believe it to be in force.
func checkSettings(key *v1alpha1.RequestStateKey) error {
	spec, obeyed := &key.Spec, &key.Status.Keyring.Settings
	wanted := rotation.SettingsOf(key)
	for _, field := range []struct {
		name    string
		differs bool
	}{
		{"ttl", spec.TTL != nil && wanted.TTL != obeyed.TTL},
		{"clockSkew", spec.ClockSkew != nil && wanted.ClockSkew != obeyed.ClockSkew},
		{"audience", wanted.Audience != obeyed.Audience && spec.Audience != nil},
		{"principal", spec.Principal.Source != "" && !samePrincipal(spec.Principal, obeyed.Principal)},
	} {
		if field.differs {
			return fmt.Errorf("spec.%[1]s differs from status.keyring.settings.%[1]s, and sidecars obey the latter: change both", field.name)
		}
	}
	return nil
}

// samePrincipal compares two settings of principals with the defaults filled in.
func samePrincipal(a, b v1alpha1.PrincipalSpec) bool {
	for _, p := range []*v1alpha1.PrincipalSpec{&a, &b} {
		if p.Source == "" {
			p.Source = v1alpha1.PrincipalNone
		}
		required := p.Required == nil || *p.Required || p.Source == v1alpha1.PrincipalNone
		p.Required = &required
		if p.JWT != nil && p.JWT.Claims == nil {
			jwt := *p.JWT
			jwt.Claims = []string{"iss", "sub", "client_id"}
			p.JWT = &jwt
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}
