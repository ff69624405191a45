package access

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

func key(accounts ...string) *v1alpha1.RequestStateKey {
	return &v1alpha1.RequestStateKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "deployer", UID: "uid"}, Spec: v1alpha1.RequestStateKeySpec{ServiceAccountNames: accounts},
	}
}

// An order in the spec is nothing to write a RoleBinding for, and no secret, wildcard or deletion is ever granted.
func TestTheRightsAreThoseOfTheSpec(t *testing.T) {
	if a, b := Binding(key("b", "a")), Binding(key("a", "b")); !SameBinding(a, b) || a.Subjects[0].Name != "a" || a.Subjects[0].Namespace != "prod" {
		t.Errorf("%+v and %+v", a.Subjects, b.Subjects)
	}
	if SameBinding(Binding(key("a")), Binding(key("a", "b"))) || Binding(key()).Subjects[0].Name != "default" {
		t.Error("an account more or less is a difference; without any it is that of the namespace")
	}
	for _, rule := range Role(key()).Rules {
		for _, verb := range rule.Verbs {
			if verb == "*" || verb == "delete" || verb == "patch" || rule.Resources[0] == "keyringreports" && (verb == "list" || verb == "watch") {
				t.Errorf("%s of %s", verb, rule.Resources)
			}
		}
		if rule.Resources[0] == "requeststatekeys" && len(rule.ResourceNames) != 1 {
			t.Errorf("keys %v", rule.ResourceNames)
		}
	}
}

func TestAPodServesUnderAnAccountThatTheKeyNames(t *testing.T) {
	for account, want := range map[string]bool{"": false, "default": false, "web": true, "webs": false} {
		if got := Serves(key("web"), &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: account}}); got != want {
			t.Errorf("%q: %t", account, got)
		}
	}
	if !Serves(key(), &corev1.Pod{}) {
		t.Error("the namespace's own account")
	}
}
