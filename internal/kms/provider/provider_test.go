package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	libage "filippo.io/age"
	libaws "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/aws"
)

const (
	keyARN   = "arn:aws:kms:eu-west-1:111122223333:key/bc436485-5092-42b8-92a3-0aa8b93536dc"
	otherARN = "arn:aws:kms:eu-west-1:111122223333:key/00000000-5092-42b8-92a3-0aa8b93536dc"
)

var testContext = kms.EncryptionContext{Namespace: "prod", Name: "deployer", KeyID: "0102030405060708"}

func offlineAWS() *aws.Clients {
	return &aws.Clients{Load: func(context.Context) (libaws.Config, error) { return libaws.Config{Region: "us-east-1"}, nil }}
}

func TestExactlyOneProvider(t *testing.T) {
	for _, stanza := range []v1alpha1.KMSSpec{{}, {AWS: &v1alpha1.AWSKMSSpec{}, Age: &v1alpha1.AgeKMSSpec{}}} {
		w, err := New(t.Context(), stanza, "", Options{})
		if w != nil || kms.CodeOf(err) != kms.CodeInvalidSpec || kms.ClassOf(err) != kms.Alert {
			t.Errorf("%v, %v", w, err)
		}
	}
}

func TestAge(t *testing.T) {
	id, err := libage.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "identity.txt")
	if err := os.WriteFile(file, []byte(id.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	stanza := v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{Recipients: []string{id.Recipient().String()}}}
	controller, err := New(t.Context(), stanza, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := controller.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	sidecar, err := New(t.Context(), stanza, "", Options{AgeIdentityFile: file})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sidecar.Unwrap(t.Context(), wrapped, testContext); err != nil {
		t.Error(err)
	}
	w, err := New(t.Context(), stanza, "", Options{AgeIdentityFile: file + "-absent"})
	if w != nil || kms.CodeOf(err) != kms.CodeInvalidIdentity {
		t.Errorf("%v, %v", w, err)
	}
	stanza.Age.Recipients = []string{"ssh-ed25519 x"}
	w, err = New(t.Context(), stanza, "", Options{})
	if w != nil || kms.CodeOf(err) != kms.CodeInvalidRecipient {
		t.Errorf("%v, %v", w, err)
	}
	// The identity file is no concern of AWS.
	stanza = v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: keyARN}}
	if _, err := New(t.Context(), stanza, "", Options{AgeIdentityFile: "absent", AWS: offlineAWS()}); err != nil {
		t.Error(err)
	}
}

func TestAWSUnwrapsWithTheARNWhateverTheStanzaSays(t *testing.T) {
	clients := offlineAWS()
	stanza := v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: "alias/rsk", Region: "eu-north-1"}}
	byAlias, err := New(t.Context(), stanza, "", Options{AWS: clients})
	if err != nil {
		t.Fatal(err)
	}
	byARN, err := New(t.Context(), stanza, keyARN, Options{AWS: clients})
	if err != nil {
		t.Fatal(err)
	}
	want, err := clients.Wrapper(t.Context(), keyARN, "")
	if err != nil {
		t.Fatal(err)
	}
	if byARN != kms.Wrapper(want) || byAlias == byARN {
		t.Error("not the client of the ARN")
	}
	stanza.AWS.Region = "eu-west-2"
	stanza.AWS.KeyID = keyARN
	if w, err := New(t.Context(), stanza, "", Options{AWS: clients}); w != nil || kms.CodeOf(err) != kms.CodeInvalidSpec {
		t.Errorf("%v, %v", w, err)
	}
}

func TestAllowRules(t *testing.T) {
	for _, bad := range []string{"", "prod", "prod=", "=arn:x", "pr*=arn:aws:kms:*", "prod=alias/x", "prod=arn:aws:kms:eu-west-1:1:alias/x", "prod=key/*"} {
		if _, err := ParseRule(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	var allow Allow
	for _, s := range []string{"prod=" + keyARN, "dev=arn:aws:kms:*:111122223333:key/*", "*=arn:aws:kms:*:key/00000000-*-0aa8b93536dc"} {
		r, err := ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		allow = append(allow, r)
	}
	for _, c := range []struct {
		namespace, arn string
		want           bool
	}{
		{"prod", keyARN, true},
		{"prod", keyARN + "0", false},
		{"prod", "x" + keyARN, false},
		{"prod", keyARN[:len(keyARN)-1], false},
		{"prod2", keyARN, false},
		{"dev", keyARN, true},
		{"dev", strings.Replace(keyARN, "1111", "9999", 1), false},
		{"any", otherARN, true},
		{"any", keyARN, false},
		{"any", "", false},
	} {
		if got := allow.Allows(c.namespace, c.arn); got != c.want {
			t.Errorf("%s may use %s: %v", c.namespace, c.arn, got)
		}
	}
	if !(Allow{}).Allows("any", keyARN) {
		t.Error("an empty list is no limit")
	}
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"a*", "a", true}, {"a*a", "a", false}, {"a*a", "aa", true}, {"*b*", "abc", true},
		{"a*b*c", "axbxbxc", true}, {"a*b*c", "axc", false}, {"**", "x", true}, {"ab", "a", false}, {"a", "ab", false},
	} {
		if glob(c.pattern, c.s) != c.want {
			t.Errorf("glob(%q, %q) is not %v", c.pattern, c.s, c.want)
		}
	}
}

type fake struct {
	kms.Wrapper
	arn   string
	calls int
}

func (f *fake) GenerateWrapped(context.Context, kms.EncryptionContext) (kms.Wrapped, error) {
	f.calls++
	return kms.Wrapped{Blob: []byte("x"), ResolvedARN: f.arn}, nil
}

func (f *fake) Unwrap(context.Context, kms.Wrapped, kms.EncryptionContext) (envelope.DataKey, error) {
	f.calls++
	return envelope.GenerateDataKey(), nil
}

func TestAllowHoldsForAliasesToo(t *testing.T) {
	allow := Allow{{Namespace: "prod", ARN: keyARN}}
	for _, c := range []struct {
		keyID, resolved string
		calls           int
		ok              bool
	}{
		{keyARN, keyARN, 1, true},
		{otherARN, otherARN, 0, false},
		{"alias/rsk", keyARN, 1, true},
		{"alias/rsk", otherARN, 1, false},
		{"arn:aws:kms:eu-west-1:111122223333:alias/rsk", otherARN, 1, false},
	} {
		f := &fake{arn: c.resolved}
		l := &limited{Wrapper: f, allow: allow, keyID: c.keyID}
		w, err := l.GenerateWrapped(t.Context(), testContext)
		if (err == nil) != c.ok || f.calls != c.calls || (err != nil && (w.Blob != nil || kms.CodeOf(err) != kms.CodeNotAllowed)) {
			t.Errorf("%+v: %v after %d calls", c, err, f.calls)
		}
		f.calls = 0
		_, err = l.Unwrap(t.Context(), kms.Wrapped{Blob: []byte("x"), ResolvedARN: c.resolved}, testContext)
		if (err == nil) != (c.resolved == keyARN) || (err != nil && f.calls != 0) {
			t.Errorf("%+v: unwrap: %v", c, err)
		}
	}
	w, err := New(t.Context(), v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: otherARN}}, "", Options{Allow: allow, AWS: offlineAWS()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.GenerateWrapped(t.Context(), testContext); kms.CodeOf(err) != kms.CodeNotAllowed {
		t.Errorf("New does not apply Allow: %v", err)
	}
}

func TestALookAtAKeyIsForWhoMayUseIt(t *testing.T) {
	const arn = "arn:aws:kms:eu-west-1:111122223333:key/a"
	allow := Allow{{Namespace: "prod", ARN: arn}}
	aws := func(keyID string) *v1alpha1.KMSSpec {
		return &v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: keyID}}
	}
	for _, c := range []struct {
		namespace string
		stanza    *v1alpha1.KMSSpec
		want      bool
	}{
		{"prod", aws(arn), true}, {"test", aws(arn), false}, {"prod", aws("alias/a"), false}, {"prod", aws(strings.Replace(arn, "key/", "alias/", 1)), false},
		{"test", &v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{}}, true},
	} {
		if got := allow.AllowsLook(c.namespace, c.stanza); got != c.want {
			t.Errorf("%s, %+v: %t", c.namespace, c.stanza.AWS, got)
		}
	}
	if !(Allow)(nil).AllowsLook("test", aws("alias/a")) {
		t.Error("without a limit anybody may look")
	}
}

func TestAKeyNamedByItsARNIsRefusedWithoutAskingAWS(t *testing.T) {
	allow := Allow{{Namespace: "prod", ARN: keyARN}}
	for _, c := range []struct {
		namespace, keyID string
		refused          bool
	}{
		{"prod", keyARN, false}, {"prod", otherARN, true}, {"test", keyARN, true},
		{"test", "alias/rsk", false}, {"test", strings.Replace(keyARN, "key/", "alias/", 1), false}, {"test", "bc436485-5092-42b8-92a3-0aa8b93536dc", false},
	} {
		err := allow.Refuses(c.namespace, &v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: c.keyID}})
		if (err != nil) != c.refused {
			t.Errorf("%s, %s: %v", c.namespace, c.keyID, err)
		}
		if err != nil && (kms.CodeOf(err) != kms.CodeNotAllowed || !strings.Contains(err.Error(), "--kms-allow (kmsAllow in the chart)")) {
			t.Errorf("%v", err)
		}
	}
	if err := allow.Refuses("test", &v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{}}); err != nil {
		t.Error(err)
	}
	if err := Allow(nil).Refuses("test", &v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: keyARN}}); err != nil {
		t.Error(err)
	}
}

func TestAReplicaUnwrapsWhatThePrimaryWrapped(t *testing.T) {
	const primary, replica = "arn:aws:kms:eu-west-1:111122223333:key/mrk-1", "arn:aws:kms:eu-central-1:111122223333:key/mrk-1"
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ KeyId string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		asked = append(asked, in.KeyId+" in "+strings.Split(r.Header.Get("Authorization"), "/")[2])
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": in.KeyId, "Plaintext": bytes.Repeat([]byte{7}, 32)})
	}))
	t.Cleanup(server.Close)
	clients := &aws.Clients{Load: func(context.Context) (libaws.Config, error) {
		return libaws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: libaws.CredentialsProviderFunc(func(context.Context) (libaws.Credentials, error) {
			return libaws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		})}, nil
	}}
	ec := kms.EncryptionContext{Namespace: "prod", Name: "deployer", KeyID: "0102030405060708"}
	for _, c := range []struct{ arn, region, want string }{
		{primary, "", primary + " in eu-west-1"}, {primary, "eu-central-1", replica + " in eu-central-1"}, {primary, "eu-west-1", primary + " in eu-west-1"},
		{"arn:aws:kms:eu-west-1:111122223333:key/1", "eu-central-1", "arn:aws:kms:eu-west-1:111122223333:key/1 in eu-west-1"},
	} {
		asked = nil
		w, err := New(t.Context(), v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: "alias/x"}}, c.arn, Options{AWS: clients, ReplicaRegion: c.region})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Unwrap(t.Context(), kms.Wrapped{Blob: []byte("x"), ResolvedARN: c.arn}, ec); err != nil || len(asked) != 1 || asked[0] != c.want {
			t.Errorf("%s in %q: asked for %q, want %q, %v", c.arn, c.region, asked, c.want, err)
		}
	}
}
