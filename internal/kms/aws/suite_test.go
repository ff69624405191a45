package aws

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/kmstest"
)

// A model of AWS KMS: it answers as the API reference has it, so that the
// suite needs no deviations here. test/kms has stand-ins made by others.
type awsModel struct {
	keys     map[string]*modelKey // by ARN
	denied   map[string]bool      // operations
	hang     chan struct{}        // if not nil, nothing is answered before it is closed
	requests atomic.Int64
}

type modelKey struct {
	aead  cipher.AEAD
	state string
}

const (
	otherARN    = "arn:aws:kms:eu-west-1:111122223333:key/00000000-5092-42b8-92a3-0aa8b93536dc"
	disabledARN = "arn:aws:kms:eu-west-1:111122223333:key/11111111-5092-42b8-92a3-0aa8b93536dc"

	blobHeader = "\x01\x02\x02\x00\x78" // of real ciphertexts, as far as anybody can tell
)

func newModel(t *testing.T) *awsModel {
	t.Helper()
	m := &awsModel{keys: map[string]*modelKey{}}
	for arn, state := range map[string]string{testARN: "Enabled", otherARN: "Enabled", disabledARN: "Disabled"} {
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			t.Fatal(err)
		}
		m.keys[arn] = &modelKey{aead, state}
	}
	return m
}

func (m *awsModel) serve(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	return srv.URL
}

type modelRequest struct {
	KeyID             string `json:"KeyId"`
	CiphertextBlob    string
	EncryptionContext map[string]string
}

func (m *awsModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests.Add(1)
	b, _ := io.ReadAll(r.Body)
	if m.hang != nil {
		select {
		case <-m.hang:
		case <-r.Context().Done():
		}
		return
	}
	var in modelRequest
	_ = json.Unmarshal(b, &in)
	op := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "TrentService.")
	out, fault := m.answer(op, in)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		out = map[string]any{"__type": fault, "message": "User: arn:aws:sts::111122223333:assumed-role/role-of-secrets in " +
			in.EncryptionContext[kms.ContextNamespace] + " may not use " + in.KeyID}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (m *awsModel) answer(op string, in modelRequest) (out map[string]any, fault string) {
	key := m.keys[in.KeyID]
	aad, _ := json.Marshal(in.EncryptionContext) // with sorted names
	switch {
	case m.denied[op]:
		return nil, "AccessDeniedException"
	case key == nil:
		return nil, "NotFoundException"
	case op == "DescribeKey":
		return map[string]any{"KeyMetadata": map[string]any{"KeyId": in.KeyID, "KeyState": key.state,
			"KeyUsage": "ENCRYPT_DECRYPT", "KeySpec": "SYMMETRIC_DEFAULT"}}, ""
	case key.state == "Disabled":
		return nil, "DisabledException"
	case op == "GenerateDataKeyWithoutPlaintext":
		plaintext, blob := make([]byte, 32), []byte(blobHeader)
		_, _ = rand.Read(plaintext)
		nonce := make([]byte, key.aead.NonceSize())
		_, _ = rand.Read(nonce)
		blob = key.aead.Seal(append(blob, nonce...), nonce, plaintext, aad)
		return map[string]any{"KeyId": in.KeyID, "CiphertextBlob": blob}, ""
	case op == "Decrypt":
		return m.decrypt(in, aad)
	default:
		return nil, "UnknownOperationException"
	}
}

func (m *awsModel) decrypt(in modelRequest, aad []byte) (out map[string]any, fault string) {
	blob, err := base64.StdEncoding.DecodeString(in.CiphertextBlob)
	sealed, ok := strings.CutPrefix(string(blob), blobHeader)
	if err != nil || !ok {
		return nil, "InvalidCiphertextException"
	}
	for arn, key := range maps.All(m.keys) {
		n := key.aead.NonceSize()
		if len(sealed) < n {
			break
		}
		plaintext, err := key.aead.Open(nil, []byte(sealed[:n]), []byte(sealed[n:]), aad)
		switch {
		case err == nil && arn != in.KeyID:
			return nil, "IncorrectKeyException"
		case err == nil:
			return map[string]any{"KeyId": arn, "Plaintext": plaintext}, ""
		}
	}
	return nil, "InvalidCiphertextException"
}

// Show 3 of the design for this provider is in the suite: the sub-tests "a key
// copied to another …".
func TestAWSPassesTheProviderSuite(t *testing.T) {
	m := newModel(t)
	url := m.serve(t)
	controllers := newModel(t) // the same KMS, for who has no right to Decrypt
	controllers.keys, controllers.denied = m.keys, map[string]bool{"Decrypt": true}
	silent := newModel(t)
	silent.hang = make(chan struct{})
	silentURL := silent.serve(t)
	t.Cleanup(func() { close(silent.hang) })
	controllersURL := controllers.serve(t)

	at := func(url, arn string) func(testing.TB) kms.Wrapper {
		return func(t testing.TB) kms.Wrapper {
			w, err := New(testConfig(url), arn, "", Options{})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
	}
	kmstest.Run(t, kmstest.Provider{
		New:         at(url, testARN),
		Other:       at(url, otherARN),
		WrapOnly:    at(controllersURL, testARN),
		Unavailable: at(url, disabledARN),
		Silent:      at(silentURL, testARN),
		Requests:    func() int { return int(m.requests.Load()) },
		Codes: map[kmstest.Case][]string{
			kmstest.Moved:    {"InvalidCiphertext"},
			kmstest.WrongKey: {"IncorrectKey"},
			kmstest.Altered:  {"InvalidCiphertext", kms.CodeTampered},
			kmstest.Foreign:  {"InvalidCiphertext", kms.CodeInvalidSpec},
		},
		Secrets: []string{"AKID", "SECRET", "role-of-secrets"},
	})
}
