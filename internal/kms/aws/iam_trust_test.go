package aws

import (
	"maps"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestOnlyOneServiceAccountMayAssumeARole(t *testing.T) {
	b, err := os.ReadFile(repository + "config/rbac/service_account.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manager corev1.ServiceAccount
	if err := yaml.UnmarshalStrict(b, &manager); err != nil {
		t.Fatal(err)
	}
	const issuer = "oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B71EXAMPLE"
	for name, account := range map[string][2]string{
		"controller-trust-irsa.json": {manager.Namespace, manager.Name},
		"pod-trust-irsa.json":        {testContext.Namespace, "deployer"},
	} {
		trust := readPolicy(t, name)
		sub := "system:serviceaccount:" + account[0] + ":" + account[1]
		for _, c := range []struct {
			issuer, action, aud, sub string
			want                     bool
		}{
			{issuer, "sts:AssumeRoleWithWebIdentity", "sts.amazonaws.com", sub, true},
			{issuer, "sts:AssumeRole", "sts.amazonaws.com", sub, false},
			{issuer + "2", "sts:AssumeRoleWithWebIdentity", "sts.amazonaws.com", sub, false},
			{issuer, "sts:AssumeRoleWithWebIdentity", "https://kubernetes.default.svc", sub, false},
			{issuer, "sts:AssumeRoleWithWebIdentity", "", sub, false},
			{issuer, "sts:AssumeRoleWithWebIdentity", "sts.amazonaws.com", sub + "2", false},
			{issuer, "sts:AssumeRoleWithWebIdentity", "sts.amazonaws.com", "system:serviceaccount:other:" + account[1], false},
			{issuer, "sts:AssumeRoleWithWebIdentity", "sts.amazonaws.com", "", false},
		} {
			r := iamRequest{principal: "arn:aws:iam::111122223333:oidc-provider/" + c.issuer, action: c.action, context: map[string][]string{}}
			for claim, v := range map[string]string{"aud": c.aud, "sub": c.sub} {
				if v != "" {
					r.context[strings.ToLower(c.issuer)+":"+claim] = []string{v}
				}
			}
			if trust.allows(r) != c.want {
				t.Errorf("%s: %+v is allowed: %v", name, c, !c.want)
			}
		}
	}
}

func TestPodIdentityTagsNameTheServiceAccount(t *testing.T) {
	trust := readPolicy(t, "pod-identity-trust.json")
	right := map[string]string{
		"eks-cluster-arn":            "arn:aws:eks:eu-west-1:111122223333:cluster/prod",
		"kubernetes-namespace":       testContext.Namespace,
		"kubernetes-service-account": "deployer",
	}
	try := func(principal, action string, tags map[string]string) bool {
		r := iamRequest{principal: principal, action: action, context: map[string][]string{}}
		for k, v := range tags {
			r.context["aws:requesttag/"+k] = []string{v}
		}
		return trust.allows(r)
	}
	for _, action := range []string{"sts:AssumeRole", "sts:TagSession"} {
		if !try("pods.eks.amazonaws.com", action, right) {
			t.Errorf("%s is not allowed", action)
		}
		if try("ec2.amazonaws.com", action, right) || try("pods.eks.amazonaws.com", action, nil) {
			t.Errorf("%s is allowed to others", action)
		}
		for tag := range right {
			for _, v := range []string{"", "other"} {
				wrong := maps.Clone(right)
				wrong[tag] = v
				if try("pods.eks.amazonaws.com", action, wrong) {
					t.Errorf("%s with %s=%q is allowed", action, tag, v)
				}
			}
		}
	}
	if try("pods.eks.amazonaws.com", "sts:AssumeRoleWithWebIdentity", right) {
		t.Error("other actions are allowed")
	}
}
