// Package access says which rights the pods behind a RequestStateKey need, and who has them: one Role and one RoleBinding for each key. It is pure.
package access

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

const (
	// ManagedBy is the value of the label app.kubernetes.io/managed-by of what the manager makes.
	ManagedBy = "requeststate-manager"
	// LabelManagedBy is that label.
	LabelManagedBy = "app.kubernetes.io/managed-by"

	prefix = "requeststate-consumer-"
)

// Name returns the name of a key's Role and RoleBinding.
func Name(key string) string { return prefix + key }

// Role returns the Role that a key's pods need: to read that one key, and to write reports, which the admission policy keyringreport-own-pod holds to their own.
func Role(key *v1alpha1.RequestStateKey) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: meta(key),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"requeststatekeys"}, ResourceNames: []string{key.Name}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"keyringreports"}, Verbs: []string{"create", "get", "update"}},
		},
	}
}

// Binding returns the RoleBinding of that Role to the service accounts of the spec, in the order of their names.
func Binding(key *v1alpha1.RequestStateKey) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		ObjectMeta: meta(key),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: Name(key.Name)},
	}
	for _, account := range accounts(key) {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: key.Namespace, Name: account})
	}
	return b
}

// Serves tells whether a pod's service account is one of those that the key names.
func Serves(key *v1alpha1.RequestStateKey, pod *corev1.Pod) bool {
	return slices.Contains(accounts(key), Account(pod))
}

// Account returns the name of a pod's service account.
func Account(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}

// SameRole tells whether a Role grants what it should and is labelled as ours.
func SameRole(is, should *rbacv1.Role) bool {
	return equality.Semantic.DeepEqual(is.Rules, should.Rules) && is.Labels[LabelManagedBy] == ManagedBy
}

// SameBinding tells whether a RoleBinding binds whom it should and is labelled as ours. What it refers to cannot be changed.
func SameBinding(is, should *rbacv1.RoleBinding) bool {
	return equality.Semantic.DeepEqual(is.Subjects, should.Subjects) && is.Labels[LabelManagedBy] == ManagedBy
}

// accounts returns the service accounts of the spec, by default that of the namespace.
func accounts(key *v1alpha1.RequestStateKey) []string {
	if len(key.Spec.ServiceAccountNames) == 0 {
		return []string{"default"}
	}
	return slices.Sorted(slices.Values(key.Spec.ServiceAccountNames))
}

// meta has the key own the object, so that it goes with it. It does not block the key's deletion.
func meta(key *v1alpha1.RequestStateKey) metav1.ObjectMeta {
	controller := true
	return metav1.ObjectMeta{
		Namespace: key.Namespace, Name: Name(key.Name), Labels: map[string]string{LabelManagedBy: ManagedBy},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "RequestStateKey", Name: key.Name, UID: key.UID, Controller: &controller,
		}},
	}
}
