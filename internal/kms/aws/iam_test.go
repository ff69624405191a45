package aws

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/requeststate/operator/internal/kms"
)

const (
	repository = "../../../"
	iamDir     = repository + "docs/kms/iam/"

	// What the documents stand for.
	docsARN     = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	managerRole = "arn:aws:iam::111122223333:role/requeststate-manager"
	podRole     = "arn:aws:iam::111122223333:role/requeststate-prod-deployer"
	adminRole   = "arn:aws:iam::111122223333:role/KeyAdministrator"
)

// captured returns the requests that a Wrapper sends for the key of the
// documents, by operation, as IAM sees them.
func captured(t *testing.T, keyID string) map[string]iamRequest {
	t.Helper()
	requests := map[string]iamRequest{}
	w := mustNew(t, service(t, func(op string, in map[string]any) (int, any) {
		ec := map[string]string{}
		for k, v := range asObject(in["EncryptionContext"]) {
			ec[k] = v.(string)
		}
		requests[op] = newRequest(op, docsARN, ec) // an alias is authorised as the key behind it
		if op == "DescribeKey" {
			return 200, map[string]any{"KeyMetadata": map[string]any{"KeyId": "x", "KeyState": "Enabled", "KeyUsage": "ENCRYPT_DECRYPT"}}
		}
		return 200, map[string]any{"KeyId": docsARN, "CiphertextBlob": []byte("x"), "Plaintext": bytes.Repeat([]byte{7}, 32)}
	}), keyID)
	wrapped, err := w.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Unwrap(t.Context(), wrapped, testContext); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	return requests
}

func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func newRequest(op, resource string, ec map[string]string) iamRequest {
	r := iamRequest{action: "kms:" + op, resource: resource, context: map[string][]string{"aws:principaltype": {"AssumedRole"}}}
	for k, v := range ec {
		r.context["kms:encryptioncontext:"+strings.ToLower(k)] = []string{v}
		r.context["kms:encryptioncontextkeys"] = append(r.context["kms:encryptioncontextkeys"], k)
	}
	return r
}

// permits tells whether a caller may do what is asked: by its own policy and
// by the key policy, each alone. The documents must say the same.
func permits(t *testing.T, own, key policy, role string, r iamRequest) bool {
	t.Helper()
	r.principal = role
	a, b := own.allows(r), r.resource == docsARN && key.allows(r)
	if a != b {
		t.Errorf("%s with %v on %s: the policy of the role says %v, the key policy %v", r.action, r.context, r.resource, a, b)
	}
	return a && b
}

// operations are all that the SDK knows of AWS KMS, and the two actions that
// ReEncrypt is for IAM.
func operations() []string {
	ops := []string{"ReEncryptFrom", "ReEncryptTo"}
	for m := range reflect.TypeFor[*awskms.Client]().Methods() {
		if m.Name != "Options" {
			ops = append(ops, m.Name)
		}
	}
	return ops
}

func TestTheControllerMayWrapAndLookAndNothingElse(t *testing.T) {
	own, key := readPolicy(t, "controller-policy.json"), readPolicy(t, "key-policy.json")
	for _, keyID := range []string{docsARN, "alias/requeststate"} {
		requests := captured(t, keyID)
		for _, op := range []string{"GenerateDataKeyWithoutPlaintext", "DescribeKey"} {
			if !permits(t, own, key, managerRole, requests[op]) {
				t.Errorf("%s as %s sends it is not allowed", op, keyID)
			}
		}
		if permits(t, own, key, managerRole, requests["Decrypt"]) {
			t.Error("the controller may decrypt")
		}
	}
	for _, op := range operations() {
		allowed := permits(t, own, key, managerRole, newRequest(op, docsARN, testContext.AWS()))
		if allowed != (op == "GenerateDataKeyWithoutPlaintext" || op == "DescribeKey") {
			t.Errorf("%s is allowed: %v", op, allowed)
		}
		if permits(t, own, key, managerRole, newRequest(op, docsARN+"0", testContext.AWS())) {
			t.Errorf("%s is allowed on another key", op)
		}
	}
	for name, ec := range wrongContexts() {
		if name != "another namespace" && name != "another name" && permits(t, own, key, managerRole, newRequest("GenerateDataKeyWithoutPlaintext", docsARN, ec)) {
			t.Errorf("%s: wrapping is allowed", name)
		}
	}
}

func TestAPodMayUnwrapItsOwnKeysAndNothingElse(t *testing.T) {
	own, key := readPolicy(t, "pod-policy.json"), readPolicy(t, "key-policy.json")
	for op, r := range captured(t, docsARN) {
		if allowed := permits(t, own, key, podRole, r); allowed != (op == "Decrypt") {
			t.Errorf("%s is allowed: %v", op, allowed)
		}
	}
	for _, op := range operations() {
		if allowed := permits(t, own, key, podRole, newRequest(op, docsARN, testContext.AWS())); allowed != (op == "Decrypt") {
			t.Errorf("%s is allowed: %v", op, allowed)
		}
	}
	if permits(t, own, key, podRole, newRequest("Decrypt", docsARN+"0", testContext.AWS())) {
		t.Error("another key is allowed")
	}
	for name, ec := range wrongContexts() {
		if permits(t, own, key, podRole, newRequest("Decrypt", docsARN, ec)) {
			t.Errorf("%s: unwrapping is allowed", name)
		}
	}
}

func wrongContexts() map[string]map[string]string {
	change := func(f func(map[string]string)) map[string]string {
		ec := testContext.AWS()
		f(ec)
		return ec
	}
	wrong := map[string]map[string]string{
		"another namespace": change(func(ec map[string]string) { ec[kms.ContextNamespace] = "dev" }),
		"another name":      change(func(ec map[string]string) { ec[kms.ContextName] = "deployer2" }),
		"no context":        nil,
		"one pair more":     change(func(ec map[string]string) { ec["purpose"] = "other" }),
	}
	for k, v := range testContext.AWS() {
		wrong["no "+k] = change(func(ec map[string]string) { delete(ec, k) })
		wrong["another case of "+k] = change(func(ec map[string]string) { delete(ec, k); ec[strings.ToUpper(k)] = v })
	}
	return wrong
}

// The rule of docs/kms/aws.md for one role of all namespaces.
func TestASessionTagMayStandForTheNamespace(t *testing.T) {
	b, err := os.ReadFile(iamDir + "pod-policy.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePolicy(strings.NewReplacer(
		`"prod",`, `"${aws:PrincipalTag/kubernetes-namespace}"`,
		`"kms:EncryptionContext:requeststate.dev/name": "deployer"`, ``,
		`"Null": {`, `"Null": {"kms:EncryptionContext:requeststate.dev/name": "false",`,
	).Replace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]bool{"prod": true, "dev": false, "": false} {
		r := newRequest("Decrypt", docsARN, testContext.AWS())
		if namespace != "" {
			r.context["aws:principaltag/kubernetes-namespace"] = []string{namespace}
		}
		if p.allows(r) != want {
			t.Errorf("namespace %q: %v", namespace, !want)
		}
		for name, ec := range wrongContexts() {
			other := newRequest("Decrypt", docsARN, ec)
			other.context["aws:principaltag/kubernetes-namespace"] = []string{namespace}
			// "another namespace" is dev, and the name is left open.
			if allowed := p.allows(other); allowed != (name == "another namespace" && namespace == "dev" || name == "another name" && want) {
				t.Errorf("namespace %q, %s: allowed is %v", namespace, name, allowed)
			}
		}
	}
}

func TestTheKeyPolicyGivesUseToNobodyElse(t *testing.T) {
	key := readPolicy(t, "key-policy.json")
	use := []string{"Decrypt", "DeriveSharedSecret", "Encrypt", "GenerateDataKey", "GenerateDataKeyPair", "GenerateDataKeyPairWithoutPlaintext",
		"GenerateDataKeyWithoutPlaintext", "GenerateMac", "GenerateRandom", "ReEncrypt", "ReEncryptFrom", "ReEncryptTo", "Sign", "Verify", "VerifyMac",
		"CreateGrant"} // which would hand any of them on
	all := operations()
	for _, s := range key {
		for _, a := range s.actions {
			if !slices.Contains(all, strings.TrimPrefix(a, "kms:")) {
				t.Errorf("%s: AWS KMS has no operation %s", s.sid, a)
			}
		}
		if s.effect == "Allow" && slices.Contains(s.principals, "*") {
			t.Errorf("%s: allowed to everybody", s.sid)
		}
		if !slices.Equal(s.resource, []string{"*"}) { // in a key policy: this key
			t.Errorf("%s: resource %v", s.sid, s.resource)
		}
	}
	const account = "arn:aws:iam::111122223333:"
	for _, principal := range []string{adminRole, account + "root", account + "role/Admin", "arn:aws:iam::444455556666:role/x", ""} {
		for _, op := range use {
			for _, kind := range []string{"AssumedRole", "Account"} {
				r := newRequest(op, docsARN, testContext.AWS())
				r.principal, r.context["aws:principaltype"] = principal, []string{kind}
				if key.allows(r) {
					t.Errorf("%s may %s", principal, op)
				}
			}
		}
	}
	// Else nobody could mend the policy, and AWS KMS would refuse it.
	for principal, kind := range map[string]string{adminRole: "AssumedRole", account + "root": "Account"} {
		r := newRequest("PutKeyPolicy", docsARN, nil)
		r.principal, r.context["aws:principaltype"] = principal, []string{kind}
		if !key.allows(r) {
			t.Errorf("%s may not replace the key policy", principal)
		}
	}
	r := newRequest("PutKeyPolicy", docsARN, nil)
	if r.principal = account + "role/Admin"; key.allows(r) {
		t.Error("IAM policies of the account may open the key")
	}
}

// The denials hold against whatever is allowed later, beside these documents.
func TestTheKeyPolicyDeniesUseWithoutTheContext(t *testing.T) {
	key := append(readPolicy(t, "key-policy.json"), statement{effect: "Allow", principals: []string{"*"}, actions: []string{"kms:*"}})
	for _, op := range []string{"Decrypt", "GenerateDataKeyWithoutPlaintext"} {
		if !key.allows(newRequest(op, docsARN, testContext.AWS())) {
			t.Errorf("%s is denied", op)
		}
		for name, ec := range wrongContexts() {
			if strings.HasPrefix(name, "no ") && key.allows(newRequest(op, docsARN, ec)) {
				t.Errorf("%s: %s is not denied", name, op)
			}
		}
	}
}
