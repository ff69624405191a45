package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/age"
)

func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

// documents parses what init printed, strictly. The Secret may be absent.
func documents(t *testing.T, out string) (*corev1.Secret, *v1alpha1.RequestStateKey) {
	t.Helper()
	docs := strings.Split(out, "\n---\n")
	var secret *corev1.Secret
	if len(docs) == 2 {
		secret = &corev1.Secret{}
		if err := yaml.UnmarshalStrict([]byte(docs[0]), secret); err != nil {
			t.Fatal(err)
		}
		docs = docs[1:]
	}
	if len(docs) != 1 {
		t.Fatalf("%d documents", len(docs))
	}
	key := &v1alpha1.RequestStateKey{}
	if err := yaml.UnmarshalStrict([]byte(docs[0]), key); err != nil {
		t.Fatal(err)
	}
	if key.APIVersion != "requeststate.dev/v1alpha1" || key.Kind != "RequestStateKey" {
		t.Errorf("a %s %s", key.APIVersion, key.Kind)
	}
	return secret, key
}

// openRing unwraps every key of the ring and seals with it, as a sidecar does.
func openRing(t *testing.T, key *v1alpha1.RequestStateKey, identityFile []byte) {
	t.Helper()
	ids, err := age.ParseIdentities(identityFile)
	if err != nil {
		t.Fatal(err)
	}
	ring := key.Status.Keyring
	if ring == nil {
		t.Fatal("no ring")
	}
	c := envelope.Config{
		Audience:  ring.Settings.Audience,
		TTL:       ring.Settings.TTL.Duration,
		ClockSkew: ring.Settings.ClockSkew.Duration,
		Keys:      map[envelope.KeyID]envelope.DataKey{},
	}
	if c.Minting, err = envelope.ParseKeyID(ring.MintingKeyID); err != nil {
		t.Fatal(err)
	}
	for _, k := range ring.Keys {
		w, err := age.New(k.KMS.Age.Recipients, ids)
		if err != nil {
			t.Fatal(err)
		}
		id, err := envelope.ParseKeyID(k.ID)
		if err != nil {
			t.Fatal(err)
		}
		ec := kms.EncryptionContext{Namespace: key.Namespace, Name: key.Name, KeyID: k.ID}
		if c.Keys[id], err = w.Unwrap(t.Context(), kms.Wrapped{Blob: k.WrappedKey}, ec); err != nil {
			t.Fatal(err)
		}
	}
	r, err := envelope.NewKeyring(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SelfTest(time.Now()); err != nil {
		t.Error(err)
	}
}

// wantDefaults checks that the spec says in full what the CRD's defaults are.
func wantDefaults(t *testing.T, key *v1alpha1.RequestStateKey) {
	t.Helper()
	if key.Spec.Audience != nil || key.Spec.TTL.Duration != 10*time.Minute || key.Spec.ClockSkew.Duration != time.Minute ||
		key.Spec.Rotation.Interval.Duration != 720*time.Hour || key.Spec.Rotation.StallAfter.Duration != 15*time.Minute ||
		key.Spec.Principal.Source != v1alpha1.PrincipalNone {
		t.Errorf("spec %+v", key.Spec)
	}
}

// wantMatching checks that the identities open what is wrapped for the recipients.
func wantMatching(t *testing.T, recipients []string, identities string) {
	t.Helper()
	wrapper, err := age.New(recipients, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := age.ParseIdentities([]byte(identities))
	if err != nil {
		t.Fatal(err)
	}
	ec := kms.EncryptionContext{Namespace: "prod", Name: "deployer", KeyID: "0102030405060708"}
	wrapped, err := wrapper.GenerateWrapped(t.Context(), ec)
	if err != nil {
		t.Fatal(err)
	}
	opener, err := age.New(nil, ids)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opener.Unwrap(t.Context(), wrapped, ec); err != nil {
		t.Error(err)
	}
}

func TestInitForACluster(t *testing.T) {
	code, out, errs := call(t, "init", "deployer", "--namespace", "prod")
	if code != exitOK || !strings.Contains(errs, "identity in clear") {
		t.Fatalf("code %d, %s", code, errs)
	}
	secret, key := documents(t, out)
	if strings.Contains(out, "status") || strings.Contains(out, "creationTimestamp") || key.Status.Keyring != nil {
		t.Errorf("a status, without --with-ring:\n%s", out)
	}
	if secret.Kind != "Secret" || secret.APIVersion != "v1" || secret.Type != corev1.SecretTypeOpaque || secret.Namespace != "prod" || key.Namespace != "prod" {
		t.Errorf("secret %+v", secret.ObjectMeta)
	}
	ref := key.Spec.KMS.Age.IdentitySecret
	content, ok := secret.StringData[ref.Key]
	if ref.Name != secret.Name || !ok || ref.Key != "identity.txt" {
		t.Errorf("the key refers to %+v, the secret is %s", ref, secret.Name)
	}
	wantDefaults(t, key)
	wantMatching(t, key.Spec.KMS.Age.Recipients, content)

	if _, out, _ := call(t, "init", "deployer"); strings.Contains(out, "namespace") {
		t.Errorf("a namespace that nobody named:\n%s", out)
	}
}

// A Secret of an earlier run stays when kubectl create refuses it, and the key of
// this run is made beside it. Of one name, the pods would get an identity that
// opens nothing.
func TestTheSecretOfOneRunIsNeverTakenForThatOfAnother(t *testing.T) {
	name := strings.Repeat("a", 63) // the longest
	_, out, _ := call(t, "init", name)
	one, oneKey := documents(t, out)
	_, out, _ = call(t, "init", name)
	two, twoKey := documents(t, out)
	if one.Name == two.Name {
		t.Errorf("two identities in Secrets of one name, %s", one.Name)
	}
	for secret, key := range map[*corev1.Secret]*v1alpha1.RequestStateKey{one: oneKey, two: twoKey} {
		if ref := key.Spec.KMS.Age.IdentitySecret.Name; ref != secret.Name {
			t.Errorf("the key refers to %s, the secret is %s", ref, secret.Name)
		}
		if problems := validation.IsDNS1123Subdomain(secret.Name); len(problems) > 0 {
			t.Errorf("%s: %v", secret.Name, problems)
		}
	}

	// The same recipient has the same Secret, also where the identity is not printed.
	recipient := oneKey.Spec.KMS.Age.Recipients[0]
	_, out, _ = call(t, "init", name, "--recipient", recipient)
	if _, key := documents(t, out); key.Spec.KMS.Age.IdentitySecret.Name != one.Name || !strings.Contains(out, "in the Secret "+one.Name+".") {
		t.Errorf("the identity of %s is said to be elsewhere than in %s:\n%s", recipient, one.Name, out)
	}
	path := filepath.Join(t.TempDir(), "identity.txt")
	_, out, _ = call(t, "init", name, "--identity-out", path)
	if _, key := documents(t, out); !strings.Contains(out, "create secret generic "+key.Spec.KMS.Age.IdentitySecret.Name+" ") {
		t.Errorf("the command makes another Secret than the key refers to:\n%s", out)
	}
}

func TestTheSecretsNameIsTheKeysAndTheFirstRecipients(t *testing.T) {
	// printf %s RECIPIENT | sha256sum
	const recipient, want = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p", "deployer-age-cf7e5682"
	if got := secretName("deployer", []string{recipient, "age1x"}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestInitWithRing(t *testing.T) {
	for name, c := range map[string]struct {
		args                []string
		namespace, audience string
		recipient           string
	}{
		"plain":        {nil, "default", "default/deployer", "age1"},
		"namespace":    {[]string{"-n", "prod"}, "prod", "prod/deployer", "age1"},
		"audience":     {[]string{"-n", "prod", "--audience", "dep"}, "prod", "dep", "age1"},
		"post-quantum": {[]string{"--post-quantum"}, "default", "default/deployer", "age1pq1"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t, append([]string{"init", "--with-ring", "deployer"}, c.args...)...)
			if code != exitOK {
				t.Fatal(errs)
			}
			secret, key := documents(t, out)
			ring := key.Status.Keyring
			if key.Namespace != c.namespace || ring.Settings.Audience != c.audience || !strings.HasPrefix(key.Spec.KMS.Age.Recipients[0], c.recipient) {
				t.Errorf("namespace %q, audience %q", key.Namespace, ring.Settings.Audience)
			}
			if (key.Spec.Audience != nil) != (name == "audience") {
				t.Errorf("spec.audience %v", key.Spec.Audience)
			}
			if _, err := envelope.ParseKeyID(ring.Epoch); err != nil || ring.Format != 1 || ring.Generation != 1 || len(ring.Keys) != 1 || ring.Epoch == ring.MintingKeyID {
				t.Errorf("ring %+v", ring)
			}
			k := ring.Keys[0]
			if k.ID != ring.MintingKeyID || k.CreatedAt.IsZero() || k.MintingSince.IsZero() || k.MaxTTL.Duration != 10*time.Minute || k.MaxClockSkew.Duration != time.Minute {
				t.Errorf("key %+v", k)
			}
			openRing(t, key, []byte(secret.StringData["identity.txt"]))
		})
	}
}

func TestIdentityOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.txt")
	code, out, errs := call(t, "init", "deployer", "--with-ring", "--identity-out", path)
	if code != exitOK || errs != "" {
		t.Fatalf("code %d, %s", code, errs)
	}
	if strings.Contains(out, "AGE-SECRET-KEY") {
		t.Error("the identity is printed all the same")
	}
	secret, key := documents(t, out)
	if secret != nil {
		t.Error("a Secret is printed all the same")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	openRing(t, key, content)

	code, out, errs = call(t, "init", "deployer", "--identity-out", path)
	again, err := os.ReadFile(path)
	if code != exitFailed || out != "" || !strings.Contains(errs, "never overwritten") || err != nil || !bytes.Equal(content, again) {
		t.Errorf("code %d, %s", code, errs)
	}
}

func TestRecipients(t *testing.T) {
	_, out, _ := call(t, "init", "one")
	_, one := documents(t, out)
	_, out, _ = call(t, "init", "two")
	secret, two := documents(t, out)
	a, b := one.Spec.KMS.Age.Recipients[0], two.Spec.KMS.Age.Recipients[0]
	code, out, errs := call(t, "init", "deployer", "--with-ring", "--recipient", a, "--recipient", b)
	if code != exitOK || strings.Contains(out, "AGE-SECRET-KEY") {
		t.Fatalf("code %d, %s", code, errs)
	}
	none, key := documents(t, out)
	if none != nil || len(key.Spec.KMS.Age.Recipients) != 2 {
		t.Errorf("recipients %v", key.Spec.KMS.Age.Recipients)
	}
	openRing(t, key, []byte(secret.StringData["identity.txt"]))
}

func TestUsageErrors(t *testing.T) {
	for says, args := range map[string][]string{
		"a command is missing":      {},
		"unknown command":           {"create", "deployer"},
		"needs the NAME":            {"init"},
		"is too many":               {"init", "a", "b"},
		"unknown flag":              {"init", "a", "--nope"},
		"flag needs an argument":    {"init", "a", "--namespace"},
		"at most 63":                {"init", strings.Repeat("a", 64)},
		"\"Deployer\" cannot be":    {"init", "Deployer"},
		"\"a_b\" cannot be used":    {"init", "a_b"},
		"\"-a.b\" cannot be":        {"init", "--", "-a.b"},
		"\"\" cannot be used":       {"init", ""},
		"\"a/b\" cannot be used":    {"init", "a/b"},
		"\"a\\nb\" cannot be":       {"init", "a\nb"},
		"--namespace \"a.b\"":       {"init", "a", "--namespace", "a.b"},
		"--audience is empty":       {"init", "a", "--audience", ""},
		"--audience is longer":      {"init", "a", "--audience", strings.Repeat("a", 254)},
		"--post-quantum says":       {"init", "a", "--post-quantum", "--recipient", "age1x"},
		"--identity-out names":      {"init", "a", "--identity-out", "x", "--recipient", "age1x"},
		"recipients[0] is an ssh":   {"init", "a", "--recipient", "ssh-ed25519 AAAA"},
		"recipients[0] is a secret": {"init", "a", "--recipient", "AGE-SECRET-KEY-1QQQQ"},
	} {
		code, out, errs := call(t, args...)
		if code != exitUsage || out != "" || !strings.Contains(errs, says) {
			t.Errorf("%q: code %d, %s, want one that says %q", args, code, errs, says)
		}
		if strings.Contains(errs, "1QQQQ") {
			t.Error("the error repeats a secret")
		}
	}
	for _, name := range []string{"a", strings.Repeat("a", 63), "a.b-c.d0"} {
		if code, _, errs := call(t, "init", name); code != exitOK {
			t.Errorf("%q: %s", name, errs)
		}
	}
	if code, out, _ := call(t, "--help"); code != exitOK || !strings.Contains(out, "--with-ring") || !strings.Contains(out, "identitySecret.name") {
		t.Errorf("help: code %d", code)
	}
}
