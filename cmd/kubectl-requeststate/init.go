package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	libage "filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms/age"
)

const maxAudienceBytes = 253 // as in the CRD

// initOptions is what init was asked for.
type initOptions struct {
	name, namespace string
	audience        string
	audienceSet     bool
	withRing        bool
	postQuantum     bool
	recipients      []string
	identityOut     string
	now             time.Time
}

func (o *initOptions) validate() error {
	if len(o.name) > v1alpha1.MaxKeyNameLength {
		return usageErrorf("the name has %d characters, and at most %d are allowed, since pods name the key in a label: choose a shorter one",
			len(o.name), v1alpha1.MaxKeyNameLength)
	}
	if problems := validation.IsDNS1123Subdomain(o.name); len(problems) > 0 {
		return usageErrorf("the name %q cannot be used: %s", o.name, strings.Join(problems, "; "))
	}
	if o.namespace == "" && o.withRing {
		o.namespace = metav1.NamespaceDefault
	}
	if o.namespace != "" {
		if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
			return usageErrorf("--namespace %q cannot be used: %s", o.namespace, strings.Join(problems, "; "))
		}
	}
	switch {
	case o.audienceSet && o.audience == "":
		return usageErrorf("--audience is empty: leave it out for the default \"<namespace>/<name>\", or name the service")
	case len(o.audience) > maxAudienceBytes:
		return usageErrorf("--audience is longer than %d bytes", maxAudienceBytes)
	case len(o.recipients) > 0 && o.postQuantum:
		return usageErrorf("--post-quantum says which identity to make, and with --recipient none is made: leave one out")
	case len(o.recipients) > 0 && o.identityOut != "":
		return usageErrorf("--identity-out names a file for a new identity, and with --recipient none is made: leave one out")
	}
	return nil
}

// initKey prints the objects, and writes the identity's file if there is one.
// The identity is written first: a RequestStateKey without its identity is of
// no use to anybody.
func initKey(o initOptions, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	// Before an identity is made: under fips140=only making one may not return.
	if err := age.Supported(); err != nil {
		return err
	}
	var id *identity
	if len(o.recipients) == 0 {
		var err error
		if id, err = newIdentity(o.postQuantum, o.now); err != nil {
			return err
		}
		o.recipients = []string{id.recipient}
	} else if _, err := age.New(o.recipients, nil); err != nil {
		return usageErrorf("--recipient: %v", err)
	}

	key := newKey(o)
	if o.withRing {
		ring, err := newRing(context.Background(), key, id, o.now)
		if err != nil {
			return err
		}
		key.Status.Keyring = ring
	}
	var out strings.Builder
	switch {
	case id == nil:
		out.WriteString("# The pods need the identity of a recipient below in the Secret " + secretName(o.name, o.recipients) + ".\n")
	case o.identityOut != "":
		if err := writeIdentity(o.identityOut, id.file); err != nil {
			return err
		}
		out.WriteString("# In a cluster the pods need the identity in the Secret " + secretName(o.name, o.recipients) + ":\n" +
			"#   kubectl create secret generic " + secretName(o.name, o.recipients) + " --from-file=" + v1alpha1.DefaultIdentityKey + "=IDENTITY-FILE\n")
	default:
		if err := writeDocument(&out, newSecret(o, id)); err != nil {
			return err
		}
		out.WriteString("---\n")
		_, _ = fmt.Fprintln(stderr, "note: the Secret in this output holds the identity in clear; whoever has it can unwrap every data key")
	}
	if err := writeDocument(&out, key); err != nil {
		return err
	}
	_, err := io.WriteString(stdout, out.String())
	return err
}

// secretName returns the name of the Secret for the identity of the first
// recipient. It depends on that recipient, so that a RequestStateKey never
// refers to a Secret that an earlier run has left: its pods would get an
// identity that opens nothing. At most 63+5+8 characters.
func secretName(keyName string, recipients []string) string {
	sum := sha256.Sum256([]byte(recipients[0])) // of public text
	return keyName + "-age-" + hex.EncodeToString(sum[:4])
}

// An identity is a fresh age identity.
type identity struct {
	identity  libage.Identity
	recipient string
	file      string // what age-keygen would write
}

func newIdentity(postQuantum bool, now time.Time) (*identity, error) {
	var (
		id     identity
		secret string
	)
	if postQuantum {
		i, err := libage.GenerateHybridIdentity()
		if err != nil {
			return nil, fmt.Errorf("making an identity: %w", err)
		}
		id.identity, id.recipient, secret = i, i.Recipient().String(), i.String()
	} else {
		i, err := libage.GenerateX25519Identity()
		if err != nil {
			return nil, fmt.Errorf("making an identity: %w", err)
		}
		id.identity, id.recipient, secret = i, i.Recipient().String(), i.String()
	}
	id.file = fmt.Sprintf("# created: %s\n# public key: %s\n%s\n", now.UTC().Format(time.RFC3339), id.recipient, secret)
	return &id, nil
}

// writeIdentity never overwrites: what is lost with an identity is every data
// key wrapped for it.
func writeIdentity(path, content string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already, and an identity is never overwritten: name another file in --identity-out", path)
	}
	if err != nil {
		return fmt.Errorf("writing the identity: %w", err)
	}
	_, err = f.WriteString(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing the identity: %w", err)
	}
	return nil
}

func newSecret(o initOptions, id *identity) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: secretName(o.name, o.recipients), Namespace: o.namespace},
		Type:       corev1.SecretTypeOpaque,
		StringData: map[string]string{v1alpha1.DefaultIdentityKey: id.file},
	}
}

// writeDocument writes an object as YAML without an empty status, which would
// only puzzle readers.
func writeDocument(w io.Writer, object any) error {
	b, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	var m map[string]any
	if err := yaml.Unmarshal(b, &m); err != nil {
		return err
	}
	if s, ok := m["status"].(map[string]any); ok && len(s) == 0 {
		delete(m, "status")
	}
	if meta, ok := m["metadata"].(map[string]any); ok && meta["creationTimestamp"] == nil {
		delete(meta, "creationTimestamp")
	}
	if b, err = yaml.Marshal(m); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
