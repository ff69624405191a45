package aws

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"

	"github.com/requeststate/operator/internal/kms"
)

const testARN = "arn:aws:kms:eu-west-1:111122223333:key/bc436485-5092-42b8-92a3-0aa8b93536dc"

var testContext = kms.EncryptionContext{Namespace: "prod", Name: "deployer", KeyID: "0102030405060708"}

// service plays KMS: the SDK's own client talks to it over HTTP.
func service(t *testing.T, answer func(op string, in map[string]any) (status int, body any)) aws.Config {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var in map[string]any
		if err := json.Unmarshal(b, &in); err != nil {
			t.Error(err)
		}
		status, body := answer(strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "TrentService."), in)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(srv.Close)
	return testConfig(srv.URL)
}

func testConfig(url string) aws.Config {
	return aws.Config{
		Region:           "eu-west-1",
		BaseEndpoint:     &url,
		RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "SECRET"}, nil
		}),
	}
}

func mustNew(t *testing.T, cfg aws.Config, keyID string) *Wrapper {
	t.Helper()
	w, err := New(cfg, keyID, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestGenerateAndUnwrap(t *testing.T) {
	blob, key := []byte("ciphertext"), bytes.Repeat([]byte{7}, 32)
	w := mustNew(t, service(t, func(op string, in map[string]any) (int, any) {
		if fmt.Sprint(in["EncryptionContext"]) != fmt.Sprint(testContext.AWS()) {
			t.Errorf("%s without the encryption context: %v", op, in)
		}
		switch op {
		case "GenerateDataKeyWithoutPlaintext":
			if in["KeyId"] != "alias/rsk" || in["KeySpec"] != "AES_256" {
				t.Errorf("request %v", in)
			}
			return 200, map[string]any{"KeyId": testARN, "CiphertextBlob": blob}
		case "Decrypt":
			if in["KeyId"] != testARN || in["CiphertextBlob"] != base64.StdEncoding.EncodeToString(blob) {
				t.Errorf("request %v", in)
			}
			return 200, map[string]any{"KeyId": testARN, "Plaintext": key}
		}
		t.Errorf("unexpected %s", op)
		return 500, nil
	}), "alias/rsk")
	wrapped, err := w.GenerateWrapped(t.Context(), testContext)
	if err != nil || wrapped.ResolvedARN != testARN || !bytes.Equal(wrapped.Blob, blob) {
		t.Fatalf("wrapped %+v, %v", wrapped, err)
	}
	dk, err := w.Unwrap(t.Context(), wrapped, testContext)
	if err != nil || dk.CheckValue() == "" {
		t.Fatal(err)
	}
}

func TestErrorsAreClassedByCode(t *testing.T) {
	const message = "User: arn:aws:sts::111122223333:assumed-role/secret-role is not authorized"
	for code, want := range map[string]struct {
		status int
		class  kms.Class
	}{
		"ThrottlingException":        {400, kms.Retry},
		"RequestLimitExceeded":       {400, kms.Retry},
		"LimitExceededException":     {400, kms.Retry},
		"KeyUnavailableException":    {500, kms.Retry},
		"DependencyTimeoutException": {500, kms.Retry},
		"KMSInternalException":       {500, kms.Retry},
		"InternalFailure":            {500, kms.Retry},
		"SomethingNewException":      {503, kms.Retry},
		"RequestTimeoutException":    {400, kms.Retry},

		"DisabledException":            {400, kms.Alert},
		"KMSInvalidStateException":     {400, kms.Alert},
		"AccessDeniedException":        {400, kms.Alert},
		"NotFoundException":            {400, kms.Alert},
		"InvalidKeyUsageException":     {400, kms.Alert},
		"UnrecognizedClientException":  {400, kms.Alert},
		"ExpiredTokenException":        {400, kms.Alert},
		"ValidationException":          {400, kms.Alert},
		"SomethingElseException":       {400, kms.Alert},
		"InvalidCiphertextException":   {400, kms.KeyOnly},
		"IncorrectKeyException":        {400, kms.KeyOnly},
		"com.amazonaws#AccessDenied":   {403, kms.Alert},
		"kms#KeyUnavailableException:": {500, kms.Retry},
	} {
		t.Run(code, func(t *testing.T) {
			w := mustNew(t, service(t, func(string, map[string]any) (int, any) {
				return want.status, map[string]any{"__type": code, "message": message}
			}), testARN)
			_, err1 := w.GenerateWrapped(t.Context(), testContext)
			_, err2 := w.Unwrap(t.Context(), kms.Wrapped{Blob: []byte("x"), ResolvedARN: testARN}, testContext)
			_, err3 := w.Status(t.Context())
			for _, err := range []error{err1, err2, err3} {
				var e *kms.Error
				var api smithy.APIError
				if !errors.As(err, &e) || !errors.As(err, &api) {
					t.Fatalf("error %v", err)
				}
				if e.Class != want.class {
					t.Errorf("class %s, want %s", e.Class, want.class)
				}
				if e.Code == kms.CodeUnexpected || strings.Contains(e.Code, "Exception") {
					t.Errorf("code %s", e.Code)
				}
				if strings.Contains(err.Error(), "secret-role") || strings.Contains(err.Error(), "111122223333") {
					t.Errorf("the error repeats what the service said: %v", err)
				}
			}
		})
	}
}

func TestHostileCodesAreClipped(t *testing.T) {
	for _, code := range []string{"", "A\nB", "x{y=\"z\"}", strings.Repeat("a", 65), "é"} {
		if clip(code) != kms.CodeUnexpected {
			t.Errorf("%q was let through", code)
		}
	}
}

func TestAnAttemptThatHangsIsGivenUpAndRetried(t *testing.T) {
	var attempts atomic.Int32
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if attempts.Add(1) == 1 {
			select {
			case <-stop:
			case <-r.Context().Done():
			}
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": testARN, "CiphertextBlob": []byte("x")})
	}))
	defer srv.Close()
	defer close(stop)
	cfg := testConfig(srv.URL)
	cfg.RetryMaxAttempts = 3
	w, err := New(cfg, testARN, "", Options{AttemptTimeout: time.Second}) // the second attempt is answered well within it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.GenerateWrapped(t.Context(), testContext); err != nil || attempts.Load() != 2 {
		t.Errorf("%v after %d attempts", err, attempts.Load())
	}
}

func TestDeadlineAndNetworkFailuresAreRetried(t *testing.T) {
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(stop)
	cfg := testConfig(srv.URL)
	cfg.RetryMaxAttempts = 100
	w, err := New(cfg, testARN, "", Options{AttemptTimeout: 50 * time.Millisecond, Deadline: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = w.GenerateWrapped(t.Context(), testContext)
	if kms.ClassOf(err) != kms.Retry || kms.CodeOf(err) != kms.CodeTimeout || time.Since(start) > 5*time.Second {
		t.Errorf("error %v after %v", err, time.Since(start))
	}

	_, err = mustNew(t, testConfig("http://127.0.0.1:1"), testARN).Status(t.Context())
	if kms.ClassOf(err) != kms.Retry || kms.CodeOf(err) != kms.CodeNetwork {
		t.Errorf("error %v", err)
	}
}

func TestNoCredentialsIsAnAlert(t *testing.T) {
	cfg := testConfig("http://127.0.0.1:1")
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no profile")
	})
	_, err := mustNew(t, cfg, testARN).Status(t.Context())
	if kms.ClassOf(err) != kms.Alert || kms.CodeOf(err) != kms.CodeClient {
		t.Errorf("error %v", err)
	}
}

func TestAnswersThatKMSNeverGives(t *testing.T) {
	for name, body := range map[string]map[string]any{
		"nothing":       {},
		"alias ARN":     {"KeyId": "arn:aws:kms:eu-west-1:111122223333:alias/x", "CiphertextBlob": []byte("x")},
		"no blob":       {"KeyId": testARN},
		"another key":   {"KeyId": testARN + "0", "Plaintext": bytes.Repeat([]byte{7}, 32)},
		"a short key":   {"KeyId": testARN, "Plaintext": bytes.Repeat([]byte{7}, 31)},
		"a key of zero": {"KeyId": testARN, "Plaintext": make([]byte, 32)},
	} {
		t.Run(name, func(t *testing.T) {
			w := mustNew(t, service(t, func(string, map[string]any) (int, any) { return 200, body }), testARN)
			_, err1 := w.GenerateWrapped(t.Context(), testContext)
			_, err2 := w.Unwrap(t.Context(), kms.Wrapped{Blob: []byte("x"), ResolvedARN: testARN}, testContext)
			if kms.CodeOf(err1) != kms.CodeUnexpected || kms.CodeOf(err2) != kms.CodeUnexpected {
				t.Errorf("errors %v and %v", err1, err2)
			}
		})
	}
}

func TestMaterialIsCheckedBeforeAnyRequest(t *testing.T) {
	w := mustNew(t, service(t, func(op string, _ map[string]any) (int, any) {
		t.Errorf("%s was called", op)
		return 500, nil
	}), testARN)
	bad := testContext
	bad.Namespace = ""
	_, err1 := w.GenerateWrapped(t.Context(), bad)
	_, err2 := w.Unwrap(t.Context(), kms.Wrapped{Blob: []byte("x"), ResolvedARN: testARN}, bad)
	_, err3 := w.Unwrap(t.Context(), kms.Wrapped{Blob: []byte("x")}, testContext)
	_, err4 := w.Unwrap(t.Context(), kms.Wrapped{Blob: []byte("x"), ResolvedARN: "alias/rsk"}, testContext)
	_, err5 := w.Unwrap(t.Context(), kms.Wrapped{ResolvedARN: testARN}, testContext)
	_, err6 := w.Unwrap(t.Context(), kms.Wrapped{Blob: make([]byte, 6145), ResolvedARN: testARN}, testContext)
	for i, err := range []error{err1, err2, err3, err4, err5, err6} {
		if kms.ClassOf(err) != kms.KeyOnly {
			t.Errorf("%d: error %v", i+1, err)
		}
	}
}

func TestStatus(t *testing.T) {
	for name, c := range map[string]struct {
		metadata map[string]any
		want     string
	}{
		"enabled":   {map[string]any{"KeyState": "Enabled", "KeyUsage": "ENCRYPT_DECRYPT", "KeySpec": "SYMMETRIC_DEFAULT"}, "Enabled"},
		"disabled":  {map[string]any{"KeyState": "Disabled", "KeyUsage": "ENCRYPT_DECRYPT"}, "Disabled"},
		"deletion":  {map[string]any{"KeyState": "PendingDeletion", "KeyUsage": "ENCRYPT_DECRYPT"}, "PendingDeletion"},
		"new state": {map[string]any{"KeyState": "So\nNew", "KeyUsage": "ENCRYPT_DECRYPT"}, "NotEnabled"},
		"signing":   {map[string]any{"KeyState": "Enabled", "KeyUsage": "SIGN_VERIFY", "KeySpec": "RSA_2048"}, "WrongKeyType"},
		"rsa":       {map[string]any{"KeyState": "Enabled", "KeyUsage": "ENCRYPT_DECRYPT", "KeySpec": "RSA_2048"}, "WrongKeyType"},
	} {
		t.Run(name, func(t *testing.T) {
			c.metadata["KeyId"] = "x"
			w := mustNew(t, service(t, func(string, map[string]any) (int, any) {
				return 200, map[string]any{"KeyMetadata": c.metadata}
			}), testARN)
			s, err := w.Status(t.Context())
			if err != nil || s.Reason != c.want || s.Available != (c.want == "Enabled") || (s.Message == "") != s.Available {
				t.Errorf("status %+v, %v", s, err)
			}
		})
	}
}

func TestRegion(t *testing.T) {
	cfg := aws.Config{Region: "us-east-1"}
	for _, c := range []struct{ keyID, region, want string }{
		{testARN, "", "eu-west-1"},
		{testARN, "eu-west-1", "eu-west-1"},
		{"alias/x", "eu-north-1", "eu-north-1"},
		{"alias/x", "", "us-east-1"},
		{testARN, "eu-west-2", ""},
		{"", "eu-west-1", ""},
	} {
		w, err := New(cfg, c.keyID, c.region, Options{})
		if c.want == "" {
			if kms.CodeOf(err) != kms.CodeInvalidSpec || kms.ClassOf(err) != kms.Alert {
				t.Errorf("%+v: error %v", c, err)
			}
		} else if err != nil || w.client.Options().Region != c.want {
			t.Errorf("%+v: error %v", c, err)
		}
	}
	if _, err := New(aws.Config{}, "alias/x", "", Options{}); kms.CodeOf(err) != kms.CodeInvalidSpec {
		t.Errorf("error %v", err)
	}
}

func TestClientsAreKeptAndLoadIsRetried(t *testing.T) {
	loads := 0
	c := Clients{Load: func(context.Context) (aws.Config, error) {
		if loads++; loads == 1 {
			return aws.Config{}, errors.New("secret detail")
		}
		return aws.Config{Region: "us-east-1"}, nil
	}}
	if _, err := c.Wrapper(t.Context(), "alias/x", ""); kms.ClassOf(err) != kms.Alert || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	a, err := c.Wrapper(t.Context(), "alias/x", "")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := c.Wrapper(t.Context(), "alias/x", ""); a != b {
		t.Error("a second client for the same key and region")
	}
	if b, _ := c.Wrapper(t.Context(), "alias/x", "eu-west-1"); a == b {
		t.Error("one client for two regions")
	}
	for i := range 3 * maxWrappers {
		if _, err := c.Wrapper(t.Context(), fmt.Sprint("alias/", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	if loads != 2 || len(c.wrappers) > maxWrappers {
		t.Errorf("%d loads, %d clients", loads, len(c.wrappers))
	}
}
