package aws

import (
	"regexp"
	"slices"
	"strings"
)

// An iamRequest is what IAM knows of a call. Keys of context are in lower case.
type iamRequest struct {
	principal, action, resource string
	context                     map[string][]string
}

// allows tells whether the document by itself lets the request through.
func (p policy) allows(r iamRequest) bool {
	allowed := false
	for _, s := range p {
		if !s.applies(r) {
			continue
		}
		if s.effect == "Deny" {
			return false
		}
		allowed = true
	}
	return allowed
}

func (s statement) applies(r iamRequest) bool {
	return (s.principals == nil || slices.ContainsFunc(s.principals, func(p string) bool { return names(p, r.principal) })) &&
		slices.ContainsFunc(s.actions, func(a string) bool { return wildcard(strings.ToLower(a), strings.ToLower(r.action)) }) &&
		(s.resource == nil || slices.ContainsFunc(s.resource, func(a string) bool { return wildcard(a, r.resource) })) &&
		!slices.ContainsFunc(s.conditions, func(c condition) bool { return !c.holds(r) })
}

// names tells whether a principal of a statement is, or may stand for, the
// caller: an account's root stands for whomever its IAM policies name.
func names(principal, caller string) bool {
	account, isRoot := strings.CutSuffix(principal, ":root")
	return principal == "*" || principal == caller || isRoot && strings.HasPrefix(caller, account+":")
}

func (c condition) holds(r iamRequest) bool {
	values, there := r.context[c.key]
	match := func(v string) bool {
		return slices.ContainsFunc(c.values, func(want string) bool {
			want, ok := substitute(want, r)
			return ok && want == v
		})
	}
	switch c.operator {
	case "Null":
		return there == (c.values[0] == "false")
	case "ForAllValues:StringEquals": // holds of nothing at all, too
		return !slices.ContainsFunc(values, func(v string) bool { return !match(v) })
	default: // StringEquals
		return there && match(values[0])
	}
}

var variable = regexp.MustCompile(`\$\{([^}]*)\}`)

// substitute puts values of the request in the place of policy variables. A
// value with a variable that the request lacks equals nothing.
func substitute(text string, r iamRequest) (string, bool) {
	ok := true
	text = variable.ReplaceAllStringFunc(text, func(v string) string {
		values := r.context[strings.ToLower(v[2:len(v)-1])]
		if len(values) != 1 {
			ok = false
			return v
		}
		return values[0]
	})
	return text, ok
}

// wildcard matches "*" and "?" as IAM does, in whole actions and ARNs.
func wildcard(pattern, s string) bool {
	expression := regexp.QuoteMeta(pattern)
	expression = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(expression)
	return regexp.MustCompile(`^(?s:` + expression + `)$`).MatchString(s)
}
