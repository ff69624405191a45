// Package kms runs the AWS provider through the real SDK against two stand-ins
// for AWS KMS: local-kms, served in this process, and moto_server. How they
// differ from AWS KMS is in suite_test.go, as data.
package kms

import (
	"context"
	"testing"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/aws"
	"github.com/requeststate/operator/internal/kms/provider"
)

var testContext = kms.EncryptionContext{Namespace: "prod", Name: "deployer", KeyID: "0102030405060708"}

// serve starts local-kms and points the SDK's configuration at it the way a
// deployment does, by environment.
func serve(t *testing.T) *awskms.Client {
	t.Helper()
	t.Setenv("AWS_ENDPOINT_URL_KMS", serveLocalKMS(t))
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	cfg, err := awsconfig.LoadDefaultConfig(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return awskms.NewFromConfig(cfg, func(o *awskms.Options) { o.Region = region })
}

func createKey(t *testing.T, admin *awskms.Client) (arn string) {
	t.Helper()
	out, err := admin.CreateKey(t.Context(), &awskms.CreateKeyInput{})
	if err != nil {
		t.Fatal(err)
	}
	return *out.KeyMetadata.Arn
}

func wrapper(t *testing.T, keyID, resolvedARN string) kms.Wrapper {
	t.Helper()
	stanza := v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: keyID, Region: region}}
	w, err := provider.New(t.Context(), stanza, resolvedARN, provider.Options{AWS: &aws.Clients{}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wantError(t *testing.T, err error, class kms.Class, code string) {
	t.Helper()
	if err == nil || kms.ClassOf(err) != class || kms.CodeOf(err) != code {
		t.Errorf("error %v of class %s, want class %s and code %s", err, kms.ClassOf(err), class, code)
	}
}

func TestRoundTripThroughTheSDK(t *testing.T) {
	admin := serve(t)
	arn, other := createKey(t, admin), createKey(t, admin)
	alias := "alias/rsk"
	if _, err := admin.CreateAlias(t.Context(), &awskms.CreateAliasInput{AliasName: &alias, TargetKeyId: &arn}); err != nil {
		t.Fatal(err)
	}

	controller := wrapper(t, alias, "")
	status, err := controller.Status(t.Context())
	if err != nil || !status.Available {
		t.Fatalf("status %+v, %v", status, err)
	}
	wrapped, err := controller.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	if wrapped.ResolvedARN != arn {
		t.Errorf("resolved to %s, want %s", wrapped.ResolvedARN, arn)
	}

	// The alias moves on; what it stood for is still the key that opens.
	if _, err := admin.UpdateAlias(t.Context(), &awskms.UpdateAliasInput{AliasName: &alias, TargetKeyId: &other}); err != nil {
		t.Fatal(err)
	}
	sidecar := wrapper(t, alias, wrapped.ResolvedARN)
	key, err := sidecar.Unwrap(t.Context(), wrapped, testContext)
	if err != nil {
		t.Fatal(err)
	}
	again, err := sidecar.Unwrap(t.Context(), wrapped, testContext)
	if err != nil || key.CheckValue() == "" || again.CheckValue() != key.CheckValue() {
		t.Errorf("check values %s and %s, %v", key.CheckValue(), again.CheckValue(), err)
	}

	for _, ec := range []kms.EncryptionContext{
		{Namespace: "dev", Name: "deployer", KeyID: "0102030405060708"},
		{Namespace: "prod", Name: "deployer2", KeyID: "0102030405060708"},
		{Namespace: "prod", Name: "deployer", KeyID: "0102030405060709"},
	} {
		_, err := sidecar.Unwrap(t.Context(), wrapped, ec)
		wantError(t, err, kms.KeyOnly, "InvalidCiphertext")
	}
	bad := kms.Wrapped{Blob: append([]byte(nil), wrapped.Blob...), ResolvedARN: arn}
	bad.Blob[len(bad.Blob)-1] ^= 1
	_, err = sidecar.Unwrap(t.Context(), bad, testContext)
	wantError(t, err, kms.KeyOnly, "InvalidCiphertext")
	// AWS answers IncorrectKey here; local-kms tries the key that is named.
	_, err = wrapper(t, alias, other).Unwrap(t.Context(), kms.Wrapped{Blob: wrapped.Blob, ResolvedARN: other}, testContext)
	wantError(t, err, kms.KeyOnly, "InvalidCiphertext")
}

func TestDisabledAndUnknownKeys(t *testing.T) {
	admin := serve(t)
	arn := createKey(t, admin)
	w := wrapper(t, arn, "")
	wrapped, err := w.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DisableKey(t.Context(), &awskms.DisableKeyInput{KeyId: &arn}); err != nil {
		t.Fatal(err)
	}
	if status, err := w.Status(t.Context()); err != nil || status.Available || status.Reason != "Disabled" {
		t.Errorf("status %+v, %v", status, err)
	}
	_, err = w.GenerateWrapped(t.Context(), testContext)
	wantError(t, err, kms.Alert, "Disabled")
	_, err = w.Unwrap(t.Context(), wrapped, testContext)
	if kms.ClassOf(err) != kms.Alert {
		t.Errorf("error %v of class %s", err, kms.ClassOf(err))
	}

	unknown := wrapper(t, "alias/none", "")
	_, err = unknown.GenerateWrapped(t.Context(), testContext)
	wantError(t, err, kms.Alert, "NotFound")
	_, err = unknown.Status(t.Context())
	wantError(t, err, kms.Alert, "NotFound")
}
