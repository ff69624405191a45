// Package aws wraps data keys with a symmetric key of AWS KMS.
//
// Region and key come from the resource. Everything else, credentials and
// endpoint above all, comes from the process's own SDK configuration (web
// identity, profiles, AWS_ENDPOINT_URL_KMS), see [Clients].
package aws

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

const (
	opGenerate = "aws GenerateDataKeyWithoutPlaintext"
	opDecrypt  = "aws Decrypt"
	opDescribe = "aws DescribeKey"

	maxBlobSize = 6144 // of Decrypt's CiphertextBlob, from its API reference
)

// Options of [New]. The zero value is right for production.
type Options struct {
	// AttemptTimeout bounds one HTTP request; the SDK has no bound of its own.
	// Default 5 s. It takes effect unless the configuration brings a custom
	// HTTP client, other than the SDK's BuildableClient.
	AttemptTimeout time.Duration
	// Deadline bounds a whole call with its retries. Default 20 s.
	Deadline time.Duration
}

// A Wrapper is a [kms.Wrapper] over one key of AWS KMS.
type Wrapper struct {
	client   *awskms.Client
	keyID    string
	attempt  time.Duration
	deadline time.Duration
}

var _ kms.Wrapper = (*Wrapper)(nil)

// New returns a Wrapper for keyID: the ARN of a key or alias, an alias or a
// key id. An empty region means the one in keyID if that is an ARN, else the
// one of cfg. It makes no request. The error is an Alert.
func New(cfg aws.Config, keyID, region string, o Options) (*Wrapper, error) {
	if keyID == "" {
		return nil, kms.NewError(kms.Alert, "aws", kms.CodeInvalidSpec, "kms.aws.keyID is empty: name a key", nil)
	}
	inARN, isARN := regionOf(keyID)
	switch {
	case isARN && region != "" && region != inARN:
		return nil, kms.NewError(kms.Alert, "aws", kms.CodeInvalidSpec,
			"kms.aws.region contradicts the region in kms.aws.keyID: leave region out, or make them agree", nil)
	case isARN:
		region = inARN
	case region == "":
		region = cfg.Region
	}
	if region == "" {
		return nil, kms.NewError(kms.Alert, "aws", kms.CodeInvalidSpec,
			"no region: set kms.aws.region, name the key by its ARN, or set AWS_REGION for this process", nil)
	}
	if o.AttemptTimeout <= 0 {
		o.AttemptTimeout = 5 * time.Second
	}
	if o.Deadline <= 0 {
		o.Deadline = 20 * time.Second
	}
	client := awskms.NewFromConfig(cfg, func(opts *awskms.Options) {
		opts.Region = region
		switch c := cfg.HTTPClient.(type) {
		case nil:
			opts.HTTPClient = awshttp.NewBuildableClient().WithTimeout(o.AttemptTimeout)
		case *awshttp.BuildableClient: // with the proxy and the CA bundle of the configuration
			opts.HTTPClient = c.WithTimeout(o.AttemptTimeout)
		}
	})
	return &Wrapper{client: client, keyID: keyID, attempt: o.AttemptTimeout, deadline: o.Deadline}, nil
}

// GenerateWrapped has KMS make a data key that never leaves it in plaintext:
// the caller's identity needs kms:GenerateDataKeyWithoutPlaintext and not
// kms:Decrypt. The answer names the key by ARN, so an alias is resolved here,
// once.
func (w *Wrapper) GenerateWrapped(ctx context.Context, ec kms.EncryptionContext) (kms.Wrapped, error) {
	if err := check(opGenerate, ec); err != nil {
		return kms.Wrapped{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.deadline)
	defer cancel()
	began := time.Now()
	out, err := w.client.GenerateDataKeyWithoutPlaintext(ctx, &awskms.GenerateDataKeyWithoutPlaintextInput{
		KeyId:             &w.keyID,
		KeySpec:           types.DataKeySpecAes256,
		EncryptionContext: ec.AWS(),
	})
	if err != nil {
		return kms.Wrapped{}, w.failure(opGenerate, began, err)
	}
	arn := aws.ToString(out.KeyId)
	if !isKeyARN(arn) || len(out.CiphertextBlob) == 0 || len(out.CiphertextBlob) > maxBlobSize {
		return kms.Wrapped{}, unexpected(opGenerate)
	}
	return kms.Wrapped{Blob: out.CiphertextBlob, ResolvedARN: arn}, nil
}

// Unwrap decrypts a data key with the key that wrapped it, named by ARN. KMS
// could find the key from the blob alone; naming it keeps whoever writes the
// blob from choosing the key.
func (w *Wrapper) Unwrap(ctx context.Context, wrapped kms.Wrapped, ec kms.EncryptionContext) (envelope.DataKey, error) {
	if err := check(opDecrypt, ec); err != nil {
		return envelope.DataKey{}, err
	}
	if !isKeyARN(wrapped.ResolvedARN) {
		return envelope.DataKey{}, kms.NewError(kms.KeyOnly, opDecrypt, kms.CodeInvalidSpec,
			"the wrapped key names no key ARN (resolvedARN): restore it, or revoke the key so that a new one is made", nil)
	}
	if len(wrapped.Blob) == 0 || len(wrapped.Blob) > maxBlobSize {
		return envelope.DataKey{}, kms.NewError(kms.KeyOnly, opDecrypt, kms.CodeTampered,
			"the wrapped key is not an AWS KMS ciphertext: restore it, or revoke the key so that a new one is made", nil)
	}
	ctx, cancel := context.WithTimeout(ctx, w.deadline)
	defer cancel()
	began := time.Now()
	out, err := w.client.Decrypt(ctx, &awskms.DecryptInput{
		KeyId:             &wrapped.ResolvedARN,
		CiphertextBlob:    wrapped.Blob,
		EncryptionContext: ec.AWS(),
	})
	if err != nil {
		return envelope.DataKey{}, w.failure(opDecrypt, began, err)
	}
	defer clear(out.Plaintext)
	if aws.ToString(out.KeyId) != wrapped.ResolvedARN {
		return envelope.DataKey{}, unexpected(opDecrypt)
	}
	key, err := envelope.NewDataKey(out.Plaintext)
	if err != nil {
		return envelope.DataKey{}, unexpected(opDecrypt)
	}
	return key, nil
}

// Status asks KMS for the state of the key, which needs kms:DescribeKey.
func (w *Wrapper) Status(ctx context.Context) (kms.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, w.deadline)
	defer cancel()
	began := time.Now()
	out, err := w.client.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &w.keyID})
	if err != nil {
		return kms.Status{}, w.failure(opDescribe, began, err)
	}
	switch k := out.KeyMetadata; {
	case k == nil:
		return kms.Status{}, unexpected(opDescribe)
	// An answer without a key spec is of an older service: there was one only.
	case k.KeyUsage != types.KeyUsageTypeEncryptDecrypt || (k.KeySpec != "" && k.KeySpec != types.KeySpecSymmetricDefault):
		return kms.Status{Reason: "WrongKeyType",
			Message: "the AWS KMS key is not a symmetric key for encryption: name one of spec SYMMETRIC_DEFAULT"}, nil
	case k.KeyState != types.KeyStateEnabled:
		return kms.Status{Reason: stateWord(k.KeyState),
			Message: "the AWS KMS key is not enabled: enable it, cancel its deletion, or name another key"}, nil
	default:
		return kms.Status{Available: true, Reason: "Enabled"}, nil
	}
}

// stateWord keeps what ends in a condition's reason to words that we know.
func stateWord(s types.KeyState) string {
	for _, known := range s.Values() {
		if s == known {
			return string(s)
		}
	}
	return "NotEnabled"
}

func check(op string, ec kms.EncryptionContext) error {
	if _, err := ec.Canonical(); err != nil {
		return kms.NewError(kms.KeyOnly, op, kms.CodeInvalidContext, err.Error(), err)
	}
	return nil
}

func unexpected(op string) error {
	return kms.NewError(kms.Alert, op, kms.CodeUnexpected,
		"the answer is not one that AWS KMS gives: check AWS_ENDPOINT_URL_KMS and what stands between", nil)
}

// regionOf returns the region of an ARN.
func regionOf(keyID string) (string, bool) {
	if !strings.HasPrefix(keyID, "arn:") {
		return "", false
	}
	parts := strings.SplitN(keyID, ":", 6)
	if len(parts) != 6 {
		return "", false
	}
	return parts[3], true
}

// ReplicaARN returns the ARN of a multi-Region key's replica in region, or false if
// arn is not that of a multi-Region key, or region is empty or the key's own.
func ReplicaARN(arn, region string) (string, bool) {
	parts := strings.SplitN(arn, ":", 6)
	if region == "" || !isKeyARN(arn) || !strings.HasPrefix(parts[5], "key/mrk-") || parts[3] == region {
		return "", false
	}
	parts[3] = region
	return strings.Join(parts, ":"), true
}

// isKeyARN tells whether s is the ARN of a key, not of an alias.
func isKeyARN(s string) bool {
	parts := strings.SplitN(s, ":", 6)
	return len(parts) == 6 && parts[0] == "arn" && parts[2] == "kms" && parts[3] != "" && strings.HasPrefix(parts[5], "key/")
}
