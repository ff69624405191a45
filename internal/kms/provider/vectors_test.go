package provider

import (
	"encoding/json"
	"os"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
)

// The ring that the clients' tests run a sidecar on holds the keys of the
// token vectors.
func TestTheVectorsRingHoldsTheVectorsKeys(t *testing.T) {
	const dir = "../../envelope/testdata/"
	b, err := os.ReadFile(dir + "vectors-key.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var key v1alpha1.RequestStateKey
	if err := yaml.UnmarshalStrict(b, &key); err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(dir + "tokens.json"); err != nil {
		t.Fatal(err)
	}
	var tokens struct {
		Keys []struct{ KeyID, CheckValue string }
	}
	if err := json.Unmarshal(b, &tokens); err != nil {
		t.Fatal(err)
	}
	ring := key.Status.Keyring
	if len(ring.Keys) != 2 || len(tokens.Keys) != 2 || ring.MintingKeyID != tokens.Keys[0].KeyID || ring.Settings.Audience != "vectors/vectors" {
		t.Fatalf("ring of %d keys, minting %s", len(ring.Keys), ring.MintingKeyID)
	}
	for i, k := range ring.Keys {
		w, err := New(t.Context(), k.KMS, k.ResolvedARN, Options{AgeIdentityFile: dir + "vectors-identity.txt"})
		if err != nil {
			t.Fatal(err)
		}
		ec := kms.EncryptionContext{Namespace: key.Namespace, Name: key.Name, KeyID: k.ID}
		dataKey, err := w.Unwrap(t.Context(), kms.Wrapped{Blob: k.WrappedKey}, ec)
		if err != nil || k.ID != tokens.Keys[i].KeyID || dataKey.CheckValue() != tokens.Keys[i].CheckValue {
			t.Errorf("key %s: %v", k.ID, err)
		}
	}
}
