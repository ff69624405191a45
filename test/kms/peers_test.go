package kms

import (
	"context"
	"testing"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/aws"
	"github.com/requeststate/operator/test/kms/faultproxy"
	"github.com/requeststate/operator/test/localkms"
)

const region = "eu-west-1"

// A peer is a stand-in for AWS KMS, with the fault proxy in front of it.
type peer struct {
	*faultproxy.Proxy
	admin *awskms.Client // past the proxy
}

// behind puts a fault proxy in front of the KMS at url.
func behind(t *testing.T, url string) *peer {
	t.Helper()
	p := faultproxy.Start(url)
	t.Cleanup(p.Close)
	config, err := awsconfig.LoadDefaultConfig(context.Background(), awsconfig.WithRegion(region), awsconfig.WithBaseEndpoint(url))
	if err != nil {
		t.Fatal(err)
	}
	return &peer{p, awskms.NewFromConfig(config)}
}

// serveLocalKMS serves local-kms in this process on 127.0.0.1.
func serveLocalKMS(t *testing.T) (url string) {
	t.Helper()
	server := localkms.Start(t.TempDir(), nil)
	t.Cleanup(server.Close)
	return server.URL
}

func localKMS(t *testing.T) *peer {
	t.Helper()
	return behind(t, serveLocalKMS(t))
}

// key makes a key and returns its ARN and id.
func (p *peer) key(t testing.TB) (arn, id string) {
	t.Helper()
	out, err := p.admin.CreateKey(t.Context(), &awskms.CreateKeyInput{KeyUsage: types.KeyUsageTypeEncryptDecrypt})
	if err != nil {
		t.Fatal(err)
	}
	return *out.KeyMetadata.Arn, *out.KeyMetadata.KeyId
}

func (p *peer) disable(t testing.TB, id string) {
	t.Helper()
	if _, err := p.admin.DisableKey(t.Context(), &awskms.DisableKeyInput{KeyId: &id}); err != nil {
		t.Fatal(err)
	}
}

// settings are what a test changes of how its Wrapper asks. The zero value is
// one attempt, and else what production has.
type settings struct {
	attempts       int // of the SDK; negative: as many as it makes by default
	attemptTimeout time.Duration
	deadline       time.Duration
}

// wrapper returns a Wrapper that asks p for keyID.
func (p *peer) wrapper(t testing.TB, keyID string, s settings) kms.Wrapper {
	t.Helper()
	o := []func(*awsconfig.LoadOptions) error{awsconfig.WithRegion(region), awsconfig.WithBaseEndpoint(p.URL)}
	if s.attempts >= 0 {
		o = append(o, awsconfig.WithRetryMaxAttempts(max(s.attempts, 1)))
	}
	config, err := awsconfig.LoadDefaultConfig(t.Context(), o...)
	if err != nil {
		t.Fatal(err)
	}
	w, err := aws.New(config, keyID, "", aws.Options{AttemptTimeout: s.attemptTimeout, Deadline: s.deadline})
	if err != nil {
		t.Fatal(err)
	}
	return w
}
