package chart_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kustomize is what kubectl kustomize makes of a folder.
func kustomize(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

func TestKustomizeAndTheChartMakeTheSameObjects(t *testing.T) {
	var fromConfig []*unstructured.Unstructured
	for _, o := range kustomize(t, filepath.Join(root, "config", "default")) {
		if o.GetKind() != "Namespace" { // helm install --create-namespace makes it
			fromConfig = append(fromConfig, o)
		}
	}
	compare(t, fromConfig, defaults.objects(t))
}

func TestKustomizeAndTheChartMakeTheSameMonitors(t *testing.T) {
	var fromChart []*unstructured.Unstructured
	for _, o := range defaults.objects(t, "--set", "metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true") {
		if strings.HasSuffix(o.GetKind(), "Monitor") {
			fromChart = append(fromChart, o)
		}
	}
	compare(t, kustomize(t, filepath.Join(root, "config", "prometheus")), fromChart)
}

// compare holds two lists of objects to be the same but for their order and what belongs to helm.
func compare(t *testing.T, fromConfig, fromChart []*unstructured.Unstructured) {
	t.Helper()
	if len(fromConfig) == 0 {
		t.Fatal("nothing to compare")
	}
	rest := map[string]map[string]any{}
	for _, o := range fromChart {
		if rest[title(o)] != nil {
			t.Errorf("the chart makes two of %s", title(o))
		}
		rest[title(o)] = plain(t, o)
	}
	for _, o := range fromConfig {
		is, should := rest[title(o)], plain(t, o)
		delete(rest, title(o))
		if is == nil {
			t.Errorf("the chart makes no %s", title(o))
		} else if !reflect.DeepEqual(is, should) {
			t.Errorf("%s: at %s", title(o), difference("", should, is))
		}
	}
	for name := range rest {
		t.Errorf("config/ has no %s", name)
	}
}

// difference says where config/ and the chart differ first.
func difference(path string, should, is any) string {
	switch should := should.(type) {
	case map[string]any:
		is, _ := is.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(should)) {
			if !reflect.DeepEqual(should[name], is[name]) {
				return difference(path+"/"+name, should[name], is[name])
			}
		}
	case []any:
		if is, _ := is.([]any); len(is) == len(should) {
			for i := range should {
				if !reflect.DeepEqual(should[i], is[i]) {
					return difference(path+"/"+strconv.Itoa(i), should[i], is[i])
				}
			}
		}
	}
	return fmt.Sprintf("%s: config/ has %v, the chart %v", path, should, is)
}

// plain is an object without the labels and annotations of helm, with numbers as JSON reads them.
func plain(t *testing.T, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	o = o.DeepCopy()
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	for name := range labels {
		if strings.HasPrefix(name, "app.kubernetes.io/") || strings.HasPrefix(name, "helm.sh/") {
			delete(labels, name)
		}
	}
	delete(annotations, "helm.sh/resource-policy")
	if len(labels) == 0 {
		labels = nil
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	var p map[string]any
	// Kustomize writes a folded text with an empty line before each line that is indented further; to CEL it is the same.
	if err := json.Unmarshal([]byte(strings.ReplaceAll(asJSON(t, o.Object), `\n\n`, `\n`)), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func asJSON(t *testing.T, object any) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDeployInstallsTheImagesItIsGiven(t *testing.T) {
	dir := t.TempDir()
	for _, part := range []string{"config", "hack"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(root, part))); err != nil {
			t.Fatal(err)
		}
	}
	overlay := func(manager, sidecar string) error {
		// CopyFS keeps no executable bit that the umask takes.
		return exec.Command("bash", filepath.Join(dir, "hack", "overlay.sh"), "dist/overlay", manager, sidecar).Run()
	}
	for _, bad := range []string{"", "x'y", `x\y`, "x y", "x\ny", `x"y`, "$(id)"} {
		if err := overlay("manager:1", bad); err == nil {
			t.Errorf("the image %q is taken", bad)
		}
		if err := overlay(bad, "sidecar:1"); err == nil {
			t.Errorf("the image %q is taken", bad)
		}
	}
	const manager, sidecar = "registry.example:5000/a/manager:1.2", "registry.example/a/sidecar@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	if err := overlay(manager, sidecar); err != nil {
		t.Fatal(err)
	}
	objects := kustomize(t, filepath.Join(dir, "dist", "overlay"))
	if is := container(t, objects).Image; is != manager {
		t.Errorf("the manager's image is %s", is)
	}
	if is := injectedImage(t, objects); is != "'"+sidecar+"'" {
		t.Errorf("the sidecar's image is %s", is)
	}
	fromConfig := kustomize(t, filepath.Join(root, "config", "default"))
	if len(objects) != len(fromConfig) {
		t.Errorf("%d objects, want the %d of config/default", len(objects), len(fromConfig))
	}
}
