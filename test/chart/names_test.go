package chart_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestReleasesDoNotShareAnObject(t *testing.T) {
	first, second := map[string]bool{}, named("second").objects(t)
	for _, o := range defaults.objects(t) {
		first[title(o)] = true
	}
	for _, o := range second {
		if first[title(o)] {
			t.Errorf("both make %s", title(o))
		}
	}
	if len(second) < 8 {
		t.Errorf("the second release makes %d objects only", len(second))
	}
}

// The API server takes a text for a name and for a label, not a number.
func TestNamesThatLookLikeNumbersStayNames(t *testing.T) {
	r := release{values: "everything", name: "1e3", namespace: "2026"}
	for _, o := range r.objects(t, "--set-string", "watchNamespaces={2027,1e6}") {
		for _, path := range []string{"metadata.namespace", "metadata.labels", "spec.selector", "spec.selector.matchLabels", "spec.podSelector.matchLabels", "spec.template.metadata.labels"} {
			value, _, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
			values, isMap := value.(map[string]any)
			if !isMap {
				values = map[string]any{"": value}
			}
			for name, v := range values {
				switch v.(type) {
				case int64, float64:
					t.Errorf("%s: %s %s is the number %v", title(o), path, name, v)
				}
			}
		}
	}
}

// The API server admits 63 characters where a label or a Service has the name; helm admits releases with 53.
func TestALongReleaseNameIsCut(t *testing.T) {
	r := release{values: "default", name: strings.Repeat("long-", 10) + "end", namespace: "requeststate-system"}
	for _, o := range r.objects(t) {
		if o.GetKind() != "CustomResourceDefinition" && len(o.GetName()) > 63 {
			t.Errorf("%s has %d characters", title(o), len(o.GetName()))
		}
	}
}
