package v1alpha1_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
)

// Texts that the formats of OpenAPI admit, or may, and Go's types do not parse.
var (
	oddTimes     = []any{"2026-01-01t00:00:00z", "2026-01-01T00:00:00+99:99", "2026-01-01T00:00:00x5Z", "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00+00:00", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:60Z", "0000-01-01T00:00:00Z", "2026-01-01 00:00:00Z", ""}
	oddDurations = []any{"9999999h", "999999h999999h999999h", "10 m", "1d", "", "-5m", "1.5h", "10M"}
	oddNumbers   = []any{float64(1e30), int64(9223372036854775807), float64(1.5), int64(-1), float64(3)}
	oddBase64    = []any{"A", "AB", "AB=", "AA_-", "AAAA====", "A\nAA", "AB==AB==", "QQ=="}
)

// TestWhatTheAPIServerStoresCanBeRead writes values that are close to right into every field whose Go type parses text or numbers. Whatever the API server
// accepts must decode: an object that does not would end the manager's list of all objects of its kind, and so its work on every key.
func TestWhatTheAPIServerStoresCanBeRead(t *testing.T) {
	ns := env.Namespace(t)
	ns.AllowConsumer("victim")
	pod := ns.Pod("consumer", "victim")
	ns.SetSidecar(pod, testenv.Running)
	admin, own := env.Client, ns.Client(ns.PodConfig(pod))

	key := keyFromYAML(t, ns.Name, "victim", "kms: {age: {recipients: ["+recipient1+"]}}\nprincipal: {source: JWT, jwt: {issuer: 'https://i.example', audiences: [a]}}\n")
	if err := admin.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	ringKey := map[string]any{"id": "000000000000000a", "wrappedKey": "QQ==", "kms": map[string]any{}, "createdAt": "2026-01-01T00:00:00Z", "maxTTL": "10m0s", "maxClockSkew": "1m0s"}
	status := map[string]any{
		"keyring": map[string]any{
			"format": int64(1), "epoch": "00000000000000e1", "generation": int64(1), "mintingKeyID": "000000000000000a",
			"settings": map[string]any{"audience": "a", "ttl": "10m0s", "clockSkew": "1m0s", "principal": map[string]any{}},
			"keys":     []any{ringKey},
		},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
		"rotation":   map[string]any{}, "history": []any{map[string]any{"keyID": "000000000000000a"}},
	}
	if err := unstructured.SetNestedMap(key.Object, status, "status"); err != nil {
		t.Fatal(err)
	}
	if err := admin.Status().Update(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	report := &unstructured.Unstructured{}
	report.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("KeyringReport"))
	report.SetNamespace(ns.Name)
	report.SetName(v1alpha1.ReportName("victim", string(pod.UID)))
	report.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}})
	report.Object["spec"] = map[string]any{"keyName": "victim", "keyUID": "u", "podName": pod.Name, "podUID": string(pod.UID), "generation": int64(1)}
	if err := own.Create(t.Context(), report); err != nil {
		t.Fatal(err)
	}

	statusWrite := func(o *unstructured.Unstructured) error { return admin.Status().Update(t.Context(), o) }
	for _, field := range []struct {
		object *unstructured.Unstructured
		write  func(*unstructured.Unstructured) error
		typed  client.Object
		values []any
		path   []string
	}{
		{report, func(o *unstructured.Unstructured) error { return own.Update(t.Context(), o) }, &v1alpha1.KeyringReport{}, oddTimes, []string{"spec", "reportedAt"}},
		{report, func(o *unstructured.Unstructured) error { return own.Update(t.Context(), o) }, &v1alpha1.KeyringReport{}, oddNumbers, []string{"spec", "generation"}},
		{key, func(o *unstructured.Unstructured) error { return admin.Update(t.Context(), o) }, &v1alpha1.RequestStateKey{}, oddBase64, []string{"spec", "principal", "jwt", "caBundle"}},
		{key, func(o *unstructured.Unstructured) error { return admin.Update(t.Context(), o) }, &v1alpha1.RequestStateKey{}, oddDurations, []string{"spec", "ttl"}},
		{key, func(o *unstructured.Unstructured) error { return admin.Update(t.Context(), o) }, &v1alpha1.RequestStateKey{}, oddDurations, []string{"spec", "clockSkew"}},
		{key, func(o *unstructured.Unstructured) error { return admin.Update(t.Context(), o) }, &v1alpha1.RequestStateKey{}, oddDurations, []string{"spec", "rotation", "interval"}},
		{key, func(o *unstructured.Unstructured) error { return admin.Update(t.Context(), o) }, &v1alpha1.RequestStateKey{}, oddDurations, []string{"spec", "rotation", "stallAfter"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddNumbers, []string{"status", "observedGeneration"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "lastRotationTime"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "nextRotationTime"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddNumbers, []string{"status", "keyring", "generation"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddNumbers, []string{"status", "keyring", "format"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddDurations, []string{"status", "keyring", "settings", "ttl"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddDurations, []string{"status", "keyring", "settings", "clockSkew"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddBase64, []string{"status", "keyring", "keys", "wrappedKey"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddDurations, []string{"status", "keyring", "keys", "maxTTL"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddDurations, []string{"status", "keyring", "keys", "maxClockSkew"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "keyring", "keys", "createdAt"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "keyring", "keys", "mintingSince"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "keyring", "keys", "ackedAt"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "keyring", "keys", "retireAt"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "conditions", "lastTransitionTime"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "rotation", "startedAt"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "rotation", "phaseStartedAt"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "history", "startedAt"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "history", "mintingAt"}},
		{key, statusWrite, &v1alpha1.RequestStateKey{}, oddTimes, []string{"status", "history", "retiredAt"}},
	} {
		for _, value := range field.values {
			current := field.object.DeepCopy()
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(current), current); err != nil {
				t.Fatal(err)
			}
			set(t, current.Object, value, field.path)
			if field.write(current) != nil {
				continue // refused, which is as good
			}
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(current), field.typed); err != nil {
				t.Errorf("%v = %q is stored and cannot be read: %v", field.path, value, err)
				// Mend it, so that the next value is judged for itself.
				mend := field.object.DeepCopy()
				mend.SetResourceVersion(current.GetResourceVersion())
				if err := field.write(mend); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// set puts a value at a path, which goes into the first element of lists.
func set(t *testing.T, object map[string]any, value any, path []string) {
	t.Helper()
	if len(path) == 1 {
		object[path[0]] = value
		return
	}
	switch next := object[path[0]].(type) {
	case map[string]any:
		set(t, next, value, path[1:])
	case []any:
		set(t, next[0].(map[string]any), value, path[1:])
	default:
		t.Fatalf("no %s", path[0])
	}
}
