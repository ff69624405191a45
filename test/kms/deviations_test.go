package kms

import (
	"slices"
	"testing"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/kmstest"
)

// How the stand-ins differ from AWS KMS where the suite sees it. The suite
// asserts each: when a stand-in mends its ways, its test fails here.

const (
	unauthenticatedName = "local-kms neither authenticates the key's name in a blob nor compares it with the KeyId of the request, and opens it"
	looseContext        = "the encryption context is authenticated as names and values one after another, without lengths"
	unknownKeyInBlob    = "moto looks the key up by the id that stands in the blob, and says AccessDenied if there is none; AWS says InvalidCiphertext"
)

func localKMSDeviations() []kmstest.Deviation {
	return slices.Concat(
		deviate("", "OK", looseContext, "a key does not unwrap where a name spells the next field"),
		deviate("", "OK", unauthenticatedName, "a blob altered after 1 eighths does not unwrap", "a blob altered after 2 eighths does not unwrap",
			"a blob altered after 3 eighths does not unwrap", "a blob altered after 4 eighths does not unwrap"),
		deviate(kms.Retry, kms.CodeNetwork, "local-kms panics on a blob that ends within its nonce, and the connection ends",
			"a blob cut after 5 eighths does not unwrap"),
		deviate(kms.KeyOnly, "InvalidCiphertext", "local-kms tries the key that is named, and says InvalidCiphertext; AWS says IncorrectKey",
			"a key wrapped with one key does not unwrap with another", "a key wrapped with another key does not unwrap with this one"),
	)
}

func motoDeviations() []kmstest.Deviation {
	shifted := deviate(kms.Alert, "AccessDenied", unknownKeyInBlob, "a blob without its first byte does not unwrap")
	shifted[0].Sometimes = true // a random byte may make the id no text, which moto notices
	return slices.Concat(
		shifted,
		deviate("", "OK", looseContext, "a key does not unwrap where a name spells the next field"),
		deviate("", "OK", "moto does not look at a key's state before it uses it", "a key that cannot be used does not wrap"),
		deviate(kms.Alert, "AccessDenied", "moto says AccessDenied when the key that is named is not the one that wrapped; AWS says IncorrectKey",
			"a key wrapped with one key does not unwrap with another", "a key wrapped with another key does not unwrap with this one"),
		deviate(kms.Alert, "AccessDenied", unknownKeyInBlob,
			"a blob altered after 0 eighths does not unwrap", "a blob altered after 1 eighths does not unwrap",
			"a blob altered after 2 eighths does not unwrap",
			"a blob of as many zeros does not unwrap", "an age file of somebody else does not unwrap",
			"an AWS ciphertext blob of somebody else does not unwrap", "text of somebody else does not unwrap"),
	)
}

// deviate returns the same deviation in several tests of the suite.
func deviate(class kms.Class, code, why string, sentences ...string) []kmstest.Deviation {
	var all []kmstest.Deviation
	for _, s := range sentences {
		all = append(all, kmstest.Deviation{In: s, Class: class, Code: code, Why: why})
	}
	return all
}

// How the stand-ins differ otherwise, as far as these tests depend on it. What
// neither does at all: check signatures and rights, throttle, fail by itself,
// or be slow; that is what the fault proxy is for.
func TestOtherDeviationsOfTheStandIns(t *testing.T) {
	t.Run("moto gives a key no usage unless told, so that tests name it", func(t *testing.T) {
		out, err := moto(t).admin.CreateKey(t.Context(), &awskms.CreateKeyInput{})
		if err != nil || out.KeyMetadata.KeyUsage != "" {
			t.Errorf("usage %q, %v", out.KeyMetadata.KeyUsage, err)
		}
	})
	t.Run("moto disables a key by its id and not by its ARN, so that tests name the id", func(t *testing.T) {
		p := moto(t)
		arn, _ := p.key(t)
		if _, err := p.admin.DisableKey(t.Context(), &awskms.DisableKeyInput{KeyId: &arn}); err == nil {
			t.Error("the ARN will do")
		}
	})
	t.Run("moto unwraps with a disabled key", func(t *testing.T) {
		p := moto(t)
		arn, id := p.key(t)
		w := p.wrapper(t, arn, settings{})
		wrapped, err := w.GenerateWrapped(t.Context(), testContext)
		if err != nil {
			t.Fatal(err)
		}
		p.disable(t, id)
		if _, err := w.Unwrap(t.Context(), wrapped, testContext); err != nil {
			t.Errorf("error %v", err)
		}
	})
}
