package chart_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestNoRoleHoldsMoreThanItMay(t *testing.T) {
	for _, r := range releases {
		rules := 0
		for _, o := range r.objects(t) {
			if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
				continue
			}
			role := &rbacv1.ClusterRole{} // a Role has the same rules
			into(t, o, role)
			if role.AggregationRule != nil {
				t.Errorf("%s, %s aggregates others", r.values, title(o))
			}
			for label := range o.GetLabels() {
				if len(label) > 5 && label[:5] == "rbac." {
					t.Errorf("%s, %s is aggregated by %s", r.values, title(o), label)
				}
			}
			for _, rule := range role.Rules {
				rules++
				if reason := tooMuch(rule); reason != "" {
					t.Errorf("%s, %s: %s: %+v", r.values, title(o), reason, rule)
				}
			}
		}
		if rules < 8 {
			t.Errorf("%s: only %d rules were looked at", r.values, rules)
		}
	}
}

// tooMuch says what is wrong with a rule.
func tooMuch(rule rbacv1.PolicyRule) string {
	every := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs)
	writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
	switch {
	case slices.Contains(every, "*"):
		return "a wildcard"
	case slices.Contains(rule.Resources, "secrets"):
		return "secrets"
	case slices.Contains(rule.Verbs, "bind"), slices.Contains(rule.Verbs, "escalate"), slices.Contains(rule.Verbs, "impersonate"):
		return "bind, escalate or impersonate"
	case writes && slices.ContainsFunc(rule.Resources, func(r string) bool { return r == "pods" || len(r) > 5 && r[:5] == "pods/" }):
		return "writes to pods"
	case slices.Contains(rule.Resources, "clusterroles"), slices.Contains(rule.Resources, "clusterrolebindings"):
		return "roles of the whole cluster"
	case len(rule.NonResourceURLs) > 0:
		return "URLs"
	}
	return ""
}

func TestInSomeNamespacesTheManagerHasNoRightsElsewhere(t *testing.T) {
	for _, r := range []release{named("namespaced"), named("second")} {
		granted, objects := map[string]bool{}, r.objects(t)
		for _, o := range objects {
			switch o.GetKind() {
			case "ClusterRoleBinding":
				t.Errorf("%s: %s", r.values, title(o))
			case "RoleBinding":
				binding := &rbacv1.RoleBinding{}
				into(t, o, binding)
				if len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != r.namespace || binding.Subjects[0].Name != r.name+"-manager" {
					t.Errorf("%s: %s binds %v", r.values, title(o), binding.Subjects)
				}
				find(t, inNamespace(objects, o.GetNamespace()), binding.RoleRef.Kind, binding.RoleRef.Name)
				granted[o.GetNamespace()] = true
			}
		}
		want := map[string]int{"namespaced": 3, "second": 2}[r.values] // the watched ones, and its own for the Lease
		if len(granted) != want || !granted[r.namespace] {
			t.Errorf("%s: rights in %v", r.values, granted)
		}
	}
}

func inNamespace(objects []*unstructured.Unstructured, namespace string) (in []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GetNamespace() == namespace {
			in = append(in, o)
		}
	}
	return in
}

// into reads an object into its Go type, which must know every field.
func into(t *testing.T, o *unstructured.Unstructured, typed any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
		t.Fatalf("%s: %v", title(o), err)
	}
}
