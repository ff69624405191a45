package aws

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A policy is an IAM document, as far as those of docs/kms/iam go: what they
// do not use is refused, so that nothing in them is passed over.
type policy []statement

type statement struct {
	sid, effect       string
	principals        []string // ARNs, services, "*"; nil in a policy of an identity
	actions, resource []string
	conditions        []condition
}

// A condition compares the values of one key of the request.
type condition struct {
	operator, key string // the key in lower case: IAM ignores its case
	values        []string
}

// readPolicy parses a document of docs/kms/iam.
func readPolicy(t *testing.T, name string) policy {
	t.Helper()
	b, err := os.ReadFile(iamDir + name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePolicy(string(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p
}

func parsePolicy(text string) (policy, error) {
	d := json.NewDecoder(strings.NewReader(text))
	value, err := decodeOnce(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value")
	}
	var p policy
	err = members(value, map[string]func(any) error{
		"Version": func(v any) error {
			if v != "2012-10-17" { // without it policy variables are plain text
				return fmt.Errorf("version %v", v)
			}
			return nil
		},
		"Statement": func(v any) error {
			list, ok := v.([]any)
			if !ok || len(list) == 0 {
				return fmt.Errorf("want a list of statements")
			}
			for i, v := range list {
				s, err := parseStatement(v)
				if err != nil {
					return fmt.Errorf("statement %d: %w", i+1, err)
				}
				p = append(p, s)
			}
			return nil
		},
	}, "Version", "Statement")
	return p, err
}

func parseStatement(value any) (s statement, err error) {
	err = members(value, map[string]func(any) error{
		"Sid": func(v any) error {
			s.sid, _ = v.(string)
			if !regexp.MustCompile(`^[0-9A-Za-z]+$`).MatchString(s.sid) {
				return fmt.Errorf("sid %v", v)
			}
			return nil
		},
		"Effect": func(v any) error {
			s.effect, _ = v.(string)
			if s.effect != "Allow" && s.effect != "Deny" {
				return fmt.Errorf("effect %v", v)
			}
			return nil
		},
		"Principal": func(v any) (err error) {
			if v == "*" {
				s.principals = []string{"*"}
				return nil
			}
			one := func(v any) (err error) { s.principals, err = texts(v); return err }
			return members(v, map[string]func(any) error{"AWS": one, "Service": one, "Federated": one})
		},
		"Action":   func(v any) (err error) { s.actions, err = texts(v); return err },
		"Resource": func(v any) (err error) { s.resource, err = texts(v); return err },
		"Condition": func(v any) (err error) {
			s.conditions, err = parseConditions(v)
			return err
		},
	}, "Effect", "Action")
	return s, err
}

func parseConditions(value any) (list []condition, err error) {
	operators, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want an object of conditions")
	}
	for operator, v := range operators {
		keys, ok := v.(map[string]any)
		if !ok || len(keys) == 0 {
			return nil, fmt.Errorf("%s: want an object of keys", operator)
		}
		for key, v := range keys {
			c := condition{operator: operator, key: strings.ToLower(key)}
			if c.values, err = texts(v); err != nil {
				return nil, fmt.Errorf("%s %s: %w", operator, key, err)
			}
			many := c.key == "kms:encryptioncontextkeys" // the only key here with several values
			switch operator {
			case "Null":
				if len(c.values) != 1 || (c.values[0] != "true" && c.values[0] != "false") {
					return nil, fmt.Errorf("the operator Null of %s wants true or false", key)
				}
			case "StringEquals":
				if many {
					return nil, fmt.Errorf("%s has several values and needs a set operator", key)
				}
			case "ForAllValues:StringEquals":
				if !many {
					return nil, fmt.Errorf("AWS KMS refuses a set operator with %s as overly permissive", key)
				}
			default:
				return nil, fmt.Errorf("the operator %s is not one that these tests know", operator)
			}
			list = append(list, c)
		}
	}
	return list, nil
}

// decodeOnce decodes one value in which no object names a member twice, under
// any case: encoding/json would take the last of them in silence.
func decodeOnce(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object, seen := map[string]any{}, map[string]bool{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			folded := strings.ToLower(name.(string))
			if seen[folded] {
				return nil, fmt.Errorf("%s is there twice", name)
			}
			seen[folded] = true
			if object[name.(string)], err = decodeOnce(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeOnce(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}

// members gives each member of an object to its function; required ones must
// be there, and others than those named must not.
func members(value any, known map[string]func(any) error, required ...string) error {
	object, ok := value.(map[string]any)
	if !ok || len(object) == 0 {
		return fmt.Errorf("want an object with members")
	}
	for _, name := range required {
		if _, ok := object[name]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	for name, v := range object {
		f, ok := known[name]
		if !ok {
			return fmt.Errorf("%q is not an element that is known here", name)
		}
		if err := f(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// texts returns a string or a list of strings as a list.
func texts(value any) ([]string, error) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var all []string
	for _, v := range list {
		s, ok := v.(string)
		if !ok || s == "" || slices.Contains(all, s) {
			return nil, fmt.Errorf("want strings, each once and none empty, not %v", v)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the list is empty")
	}
	return all, nil
}

func TestMalformedPoliciesAreRefused(t *testing.T) {
	const good = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*", "Condition": {"StringEquals": {"aws:PrincipalType": "x"}}}]}`
	if _, err := parsePolicy(good); err != nil {
		t.Fatal(err)
	}
	for old, replacement := range map[string]string{
		`"Version": "2012-10-17", `: ``,
		`2012-10-17`:                `2008-10-17`,
		`"Statement": [`:            `"Comment": "x", "Statement": [`,
		`"Effect": "Allow", `:       ``,
		`Allow`:                     `allow`,
		`"Action"`:                  `"action"`,
		`"Action": `:                `"NotAction": `,
		`"kms:Decrypt"`:             `[]`,
		`"Resource": "*"`:           `"Resource": "*", "Resource": "x"`,
		`"Resource": "*", `:         `"Resource": "*", "resource": "x", `,
		`StringEquals`:              `StringLikes`,
		`{"StringEquals"`:           `{"ForAnyValue:StringEquals"`,
		`aws:PrincipalType`:         `kms:EncryptionContextKeys`,
		`{"StringEquals": {"aws:PrincipalType": "x"}}`: `{"ForAllValues:StringEquals": {"kms:EncryptionContext:a": "x"}}`,
		`"StringEquals": {"aws:PrincipalType": "x"}`:   `"Null": {"aws:PrincipalType": "maybe"}`,
		`}]}`: `}]} {}`,
	} {
		text := strings.Replace(good, old, replacement, 1)
		if text == good {
			t.Errorf("%s is not in the policy", old)
		}
		if p, err := parsePolicy(text); err == nil {
			t.Errorf("%s was accepted as %+v", text, p)
		}
	}
}
