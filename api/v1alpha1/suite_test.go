package v1alpha1_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env) }

// Recipients whose checksums hold, so that the samples and these tests could be used for real.
const (
	recipient1 = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
	recipient2 = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg"
)

// hybridRecipient has the form and length of a post-quantum recipient; the schema checks no more.
var hybridRecipient = "age1pq1" + strings.Repeat("q", 1952)

// kmsAge is a kms stanza for specs whose subject is something else.
const kmsAge = "kms: {age: {recipients: [" + recipient1 + "]}}\n"

// keyFromYAML returns a RequestStateKey with the given spec as a user's YAML says it: without the zero values that Go's types would add.
func keyFromYAML(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	manifest := "apiVersion: requeststate.dev/v1alpha1\nkind: RequestStateKey\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ")
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// strict refuses unknown fields, as kubectl does.
func strict(c client.Client) client.Client {
	return client.WithFieldValidation(c, metav1.FieldValidationStrict)
}

// wantRefusal asserts that err is the API server's refusal of exactly the field, with a message that ends in message.
func wantRefusal(t *testing.T, err error, field, message string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want a refusal of %s: %s", field, message)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Field == field && strings.HasSuffix(cause.Message, message) {
				return
			}
		}
	}
	t.Errorf("refused with\n  %v\nwant, for field %s,\n  %s", err, field, message)
}
