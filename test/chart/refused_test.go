package chart_test

import (
	"strings"
	"testing"
)

func TestAValueThatTheChartDoesNotKnowIsRefusedByItsName(t *testing.T) {
	wantRefused(t, map[string]string{
		"injecton.enabled=false":                     "'injecton'",
		"watchNamespace=a":                           "'watchNamespace'",
		"injection.enforced=false":                   "at '/injection': additional properties 'enforced'",
		"injection.sidecar.images.tag=1":             "at '/injection/sidecar': additional properties 'images'",
		"injection.sidecar.image.pullPolicy=Never":   "at '/injection/sidecar/image': additional properties 'pullPolicy'",
		"injection.sidecar.resources.requests.gpu=1": "at '/injection/sidecar/resources/requests': additional properties 'gpu'",
		"networkPolicy.egress.port=1":                "at '/networkPolicy/egress': additional properties 'port'",
		"metrics.podMonitor.enable=true":             "at '/metrics/podMonitor': additional properties 'enable'",
		"resources.limit.memory=1Gi":                 "at '/resources': additional properties 'limit'",
		"extraEnv[0].nam=x":                          "at '/extraEnv/0': additional properties 'nam'",
	})
}

func TestAValueThatMakesNoSenseIsRefusedByItsName(t *testing.T) {
	wantRefused(t, map[string]string{
		"replicas=two":               "at '/replicas': got string, want integer",
		"image.pullPolicy=Sometimes": "at '/image/pullPolicy'",
		"image.tag=12":               "at '/image/tag': got number, want string",
		"runAsUser=0":                "at '/runAsUser'",
		"kmsQPS=-1":                  "at '/kmsQPS'",
		"kmsAllow[0]=prod":           "at '/kmsAllow/0'",
		"logLevel=trace":             "at '/logLevel'",
		"injection.enabled=maybe":    "at '/injection/enabled'",
		"watchNamespaces={a,A,*,}":   "at '/watchNamespaces/1'",
		"injection.sidecar.resources.limits.memory=lots": "at '/injection/sidecar/resources/limits/memory'",
	})
	wantRefused(t, map[string]string{"watchNamespaces={a,*}": "at '/watchNamespaces/1'", "replicas=-1": "at '/replicas'"})
	wantRefused(t, map[string]string{"watchNamespaces={a,a}": "at '/watchNamespaces'", "image=null": "missing property 'image'"})
	wantRefused(t, map[string]string{"watchNamespaces=a": "at '/watchNamespaces'", "injection=null": "missing property 'injection'"})
}

// The image and the resources become texts of CEL, between single quotes.
func TestNothingBreaksOutOfThePolicysText(t *testing.T) {
	for _, bad := range []string{`x'y`, `x\y`, `x'+string(1)+'`, `x"y`, "x y", "x\ny", "x\n", "'"} {
		escaped := strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(bad)
		refusals := map[string]string{}
		for _, field := range []string{"image.repository", "image.tag", "image.digest", "resources.requests.cpu", "resources.limits.memory"} {
			refusals["injection.sidecar."+field+"="+escaped] = "at '/injection/sidecar/" + strings.ReplaceAll(field, ".", "/") + "'"
		}
		wantRefused(t, refusals)
	}
}

func TestInjectionOnAnOlderClusterIsRefusedWithARemedy(t *testing.T) {
	wantRefused(t, map[string]string{"replicas=2": "set injection.mutate=false"}, "--kube-version", "1.35.9")
	wantRefused(t, map[string]string{"injection.mutate=false": "requires kubeVersion"}, "--kube-version", "1.32.0")
	for _, version := range []string{"1.36.0", "1.36.1-gke.100"} {
		defaults.text(t, "--kube-version", version)
	}
}

// wantRefused has helm refuse the default release with the given values, and say of each what is wrong.
func wantRefused(t *testing.T, refusals map[string]string, flags ...string) {
	t.Helper()
	args := append([]string{"template", defaults.name, chart()}, flags...)
	for set := range refusals {
		args = append(args, "--set", set)
	}
	out, err := helm(args...)
	if err == nil || out != "" {
		t.Fatalf("%q: rendered all the same", args)
	}
	for set, want := range refusals {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v\nwant: %s", set, err, want)
		}
	}
}
