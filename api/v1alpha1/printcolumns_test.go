package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// table returns what kubectl get prints: the columns without -o wide, and the cells of the first row under them.
func table(t *testing.T, namespace, resource string) (columns []string, cells []any) {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("%s/apis/%s/namespaces/%s/%s", strings.TrimSuffix(env.Config.Host, "/"), v1alpha1.GroupVersion, namespace, resource)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, response.Status)
	}
	var got metav1.Table
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 1 {
		t.Fatalf("%d rows, want 1", len(got.Rows))
	}
	for i, column := range got.ColumnDefinitions {
		if column.Priority == 0 {
			columns, cells = append(columns, column.Name), append(cells, got.Rows[0].Cells[i])
		}
	}
	return columns, cells
}

func TestKubectlGetRequestStateKeys(t *testing.T) {
	ctx, ns := t.Context(), env.Namespace(t)
	created := keyFromYAML(t, ns.Name, "shop", kmsAge)
	if err := env.Client.Create(ctx, created); err != nil {
		t.Fatal(err)
	}
	key := &v1alpha1.RequestStateKey{}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(created), key); err != nil {
		t.Fatal(err)
	}
	next := time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)
	key.Status = v1alpha1.RequestStateKeyStatus{
		Phase:            v1alpha1.PhaseMintNew,
		NextRotationTime: &metav1.Time{Time: next},
		Consumers:        &v1alpha1.Consumers{Summary: "2/3", Registered: 3, Current: 2},
		Conditions:       []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRingAvailable, LastTransitionTime: metav1.Now()}},
		Keyring: &v1alpha1.Keyring{
			Format: v1alpha1.KeyringFormat, Epoch: "0123456789abcdef", Generation: 1, MintingKeyID: "0011223344556677",
			Settings: v1alpha1.KeyringSettings{Audience: "a", Principal: key.Spec.Principal}, Keys: []v1alpha1.KeyringKey{},
		},
	}
	if err := env.Client.Status().Update(ctx, key); err != nil {
		t.Fatal(err)
	}

	columns, cells := table(t, ns.Name, "requeststatekeys")
	if want := []string{"Name", "Phase", "Minting Key", "Consumers", "Ready", "Next Rotation", "Age"}; !reflect.DeepEqual(columns, want) {
		t.Fatalf("columns %q, want %q", columns, want)
	}
	// A time to come must not print as a negative or invalid age.
	if want := []any{"shop", "MintNew", "0011223344556677", "2/3", "True", next.Format(time.RFC3339)}; !reflect.DeepEqual(cells[:len(want)], want) {
		t.Errorf("row %v, want %v", cells, want)
	}
}

func TestKubectlGetKeyringReports(t *testing.T) {
	ctx, ns := t.Context(), env.Namespace(t)
	report := newReport(ns.Name, "shop", "mcp-0", podUID)
	report.Spec.Error = &v1alpha1.ReportError{Reason: v1alpha1.ReportKMSDenied}
	report.Spec.ReportedAt = &metav1.Time{Time: time.Now().Add(-time.Hour)}
	if err := reportWriter(t, "mcp-0", podUID).Create(ctx, report); err != nil {
		t.Fatal(err)
	}
	columns, cells := table(t, ns.Name, "keyringreports")
	if want := []string{"Name", "Key", "Pod", "Generation", "Minting Key", "Error", "Reported"}; !reflect.DeepEqual(columns, want) {
		t.Fatalf("columns %q, want %q", columns, want)
	}
	if want := []any{"shop." + podUID, "shop", "mcp-0", float64(1), "0011223344556677", "KMSDenied"}; !reflect.DeepEqual(cells[:len(want)], want) {
		t.Errorf("row %v, want %v", cells, want)
	}
}
