package injection_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/requeststate/operator/api/v1alpha1"
)

func TestAnnotationsReachTheSidecar(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	for _, port := range []string{"1", "4000", "65535"} {
		p := admit(t, pod(ns, annotated("requeststate.dev/upstream-port", port)))
		if args := sidecar(t, p).Args; !slices.Contains(args, "--upstream=http://127.0.0.1:"+port) || len(args) != 2 {
			t.Errorf("port %s: args %q", port, args)
		}
	}
	for _, level := range []string{"debug", "info", "warn", "error"} {
		p := admit(t, pod(ns, annotated("requeststate.dev/log-level", level)))
		if args := sidecar(t, p).Args; !slices.Contains(args, "--log-level="+level) {
			t.Errorf("level %s: args %q", level, args)
		}
	}
	none := corev1.ResourceList(nil)
	list := func(pairs ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return l
	}
	for text, want := range map[string]corev1.ResourceRequirements{
		"cpu=100m,memory=128Mi": {Requests: list("cpu", "100m", "memory", "128Mi"), Limits: none},
		"memory=1Gi":            {Requests: list("memory", "1Gi"), Limits: none},
		"cpu=0.5, memory=64Mi, cpu-limit=1, memory-limit=512Mi": {Requests: list("cpu", "500m", "memory", "64Mi"), Limits: list("cpu", "1", "memory", "512Mi")},
		"cpu-limit=1": {Requests: list("cpu", "1"), Limits: list("cpu", "1")}, // Kubernetes' own default
	} {
		got := sidecar(t, admit(t, pod(ns, annotated("requeststate.dev/resources", text)))).Resources
		same := func(a, b corev1.ResourceList) bool {
			for name, q := range a {
				if other, ok := b[name]; !ok || other.Cmp(q) != 0 {
					return false
				}
			}
			return len(a) == len(b)
		}
		if !same(got.Requests, want.Requests) || !same(got.Limits, want.Limits) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestMalformedAnnotationsAreRefusedInWords(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	const (
		mode      = "annotation requeststate.dev/mode must be proxy, codec or none"
		port      = "annotation requeststate.dev/upstream-port must be the port on which the MCP server listens: a number from 1 to 65535, not the sidecar's own 8088 and 8089"
		level     = "annotation requeststate.dev/log-level must be debug, info, warn or error"
		resources = "annotation requeststate.dev/resources must name cpu, memory, cpu-limit or memory-limit, each at most once and with a quantity above 0, such as " +
			`"cpu=50m,memory=64Mi,memory-limit=512Mi"`
	)
	for annotation, c := range map[string]struct {
		message string
		values  []string
	}{
		"requeststate.dev/mode":          {mode, []string{"", "Proxy", "codec ", "off"}},
		"requeststate.dev/upstream-port": {port, []string{"", "0", "080", "65536", "99999", "3000\n", "-1", "http", "3000@evil.example:80", "8088", "8089", "٣٠٠٠"}},
		"requeststate.dev/log-level":     {level, []string{"", "INFO", "trace", "info --dev"}},
		"requeststate.dev/resources": {resources, []string{
			"", "small", "cpu", "cpu=", "cpu=x", "cpu=50m,", "cpu=50m;memory=1Gi", "cpu=1=2", "gpu=1", "cpu=0", "memory=-1", "cpu=1,cpu=2", "CPU=1", strings.Repeat("cpu=1,", 20000),
		}},
	} {
		for _, value := range c.values {
			wantDenied(t, dryRun(t, pod(ns, annotated(annotation, value))), "requeststate-sidecar-settings", c.message)
		}
	}
	// What Kubernetes itself judges is left to it.
	if err := dryRun(t, pod(ns, annotated("requeststate.dev/resources", "cpu=2,cpu-limit=1"))); err == nil || !strings.Contains(err.Error(), "must be less than or equal to cpu limit") {
		t.Errorf("a request above its limit: %v", err)
	}
}

func unknown(annotation string) string {
	return "annotation requeststate.dev/" + annotation + " is none of injection's, which are requeststate.dev/mode, upstream-port, resources and log-level: correct or remove it"
}

// A misspelt one would be ignored, and the pod be ready and serve nothing.
func TestAnnotationsThatInjectionDoesNotKnowAreRefused(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	for _, annotation := range []string{"upstreamport", "upstream-Port", "port", "rotate-at", "key"} {
		wantDenied(t, dryRun(t, pod(ns, annotated("requeststate.dev/"+annotation, "3000"))), "requeststate-sidecar-settings", unknown(annotation))
	}
	admit(t, pod(ns, annotated("requeststate.dev/upstream-port", "3000", "requeststate.dev/mode", "proxy", "requeststate.dev/resources", "cpu=1", "requeststate.dev/log-level", "info")))
}

func TestTheImageIsNotThePodsChoice(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	wantDenied(t, dryRun(t, pod(ns, annotated("requeststate.dev/image", "evil:1"))), "requeststate-sidecar-settings", unknown("image"))
	p := admit(t, pod(ns, annotated("requeststate.dev.example/image", "evil:1", "example/requeststate.dev", "evil:2")))
	if image := sidecar(t, p).Image; image != "requeststate-sidecar:dev" {
		t.Errorf("image %q", image)
	}
}

func TestTheAppCannotTakeTheSidecarsPortName(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	named := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: v1alpha1.SidecarPortName, ContainerPort: 3000}}
	}
	wantDenied(t, dryRun(t, pod(ns, named)), "requeststate-sidecar-settings",
		"the port name requeststate is the sidecar's, Services reach the proxy by it; give the app's port another name")
	admit(t, pod(ns, named, annotated("requeststate.dev/mode", "codec")))
}
