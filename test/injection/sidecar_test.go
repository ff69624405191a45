package injection_test

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

// TestAProxyPodGetsTheWholeSidecar compares the container with what DESIGN section 8 says of it.
func TestAProxyPodGetsTheWholeSidecar(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	plain := admit(t, pod(ns, annotated("requeststate.dev/mode", "none")))
	p := admit(t, pod(ns))
	c := sidecar(t, p)

	if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Error("not a native sidecar")
	}
	if c.Image != "requeststate-sidecar:dev" {
		t.Errorf("image %q", c.Image)
	}
	if want := []string{"--key=" + ns + "/deployer", "--upstream=http://127.0.0.1:3000"}; !slices.Equal(c.Args, want) {
		t.Errorf("args %q, want %q", c.Args, want)
	}
	if c.Lifecycle != nil || c.LivenessProbe != nil {
		t.Error("a preStop hook or a liveness probe, which would end a sidecar that still serves")
	}
	fields := map[string]string{}
	for _, e := range c.Env {
		fields[e.Name] = e.ValueFrom.FieldRef.FieldPath
	}
	wantFields := map[string]string{
		"POD_NAME": "metadata.name", "POD_UID": "metadata.uid", "POD_NAMESPACE": "metadata.namespace", "NODE_NAME": "spec.nodeName", "POD_IP": "status.podIP",
	}
	if !reflect.DeepEqual(fields, wantFields) {
		t.Errorf("environment %v", fields)
	}
	ports := map[string]int32{}
	for _, port := range c.Ports {
		ports[port.Name] = port.ContainerPort
	}
	if !reflect.DeepEqual(ports, map[string]int32{v1alpha1.SidecarPortName: 8088, "rsk-health": 8089}) {
		t.Errorf("ports %v", ports)
	}
	if s := c.StartupProbe; s == nil || s.HTTPGet.Path != "/startupz" || s.HTTPGet.Port.IntVal != 8089 || s.PeriodSeconds*s.FailureThreshold != 3600 {
		t.Errorf("startup probe %v, want one that allows an hour", c.StartupProbe)
	}
	if r := c.ReadinessProbe; r == nil || r.HTTPGet.Path != "/readyz" || r.HTTPGet.Port.IntVal != 8089 {
		t.Errorf("readiness probe %v", c.ReadinessProbe)
	}
	if got := c.Resources; got.Requests.Cpu().String() != "50m" || got.Requests.Memory().String() != "64Mi" || len(got.Limits) > 0 {
		t.Errorf("resources %v", got)
	}
	if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.RunAsUser != nil {
		t.Errorf("security context %v", s)
	}
	if !reflect.DeepEqual(withoutToken(p.Spec.Containers), withoutToken(plain.Spec.Containers)) {
		t.Errorf("the app's containers changed in proxy mode:\n%v\n%v", p.Spec.Containers, plain.Spec.Containers)
	}
}

// withoutToken drops the mount that the ServiceAccount admission makes under a random name.
func withoutToken(containers []corev1.Container) (out []corev1.Container) {
	for _, c := range containers {
		c.VolumeMounts = slices.DeleteFunc(slices.Clone(c.VolumeMounts), func(m corev1.VolumeMount) bool { return m.MountPath == tokenPath })
		if len(c.VolumeMounts) == 0 {
			c.VolumeMounts = nil
		}
		out = append(out, c)
	}
	return out
}

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

func mountAt(c corev1.Container, path string) (found []corev1.VolumeMount) {
	for _, m := range c.VolumeMounts {
		if m.MountPath == path {
			found = append(found, m)
		}
	}
	return found
}

func TestTheTokenIsTheSidecarsAlone(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	no := false
	p := admit(t, pod(ns, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &no }))
	if m := mountAt(*sidecar(t, p), tokenPath); len(m) != 1 || m[0].Name != "requeststate-token" || !m[0].ReadOnly {
		t.Errorf("the sidecar's mounts at the token's path: %v", m)
	}
	if m := p.Spec.Containers[0].VolumeMounts; len(m) > 0 {
		t.Errorf("the app got %v", m)
	}
	if len(p.Spec.Volumes) != 1 {
		t.Fatalf("volumes %v", p.Spec.Volumes)
	}
	files := map[string]bool{}
	for _, s := range p.Spec.Volumes[0].Projected.Sources {
		switch {
		case s.ServiceAccountToken != nil:
			files[s.ServiceAccountToken.Path] = s.ServiceAccountToken.Audience == ""
		case s.ConfigMap != nil:
			files[s.ConfigMap.Items[0].Path] = s.ConfigMap.Name == "kube-root-ca.crt"
		case s.DownwardAPI != nil:
			files[s.DownwardAPI.Items[0].Path] = s.DownwardAPI.Items[0].FieldRef.FieldPath == "metadata.namespace"
		}
	}
	if !reflect.DeepEqual(files, map[string]bool{"token": true, "ca.crt": true, "namespace": true}) {
		t.Errorf("files %v", files)
	}

	// Where the app does have a token, it keeps its own.
	p = admit(t, pod(ns))
	if m := mountAt(p.Spec.Containers[0], tokenPath); len(m) != 1 || m[0].Name == "requeststate-token" {
		t.Errorf("the app's token: %v", m)
	}
	if m := mountAt(*sidecar(t, p), tokenPath); len(m) != 1 || m[0].Name != "requeststate-token" {
		t.Errorf("the sidecar's token: %v", m)
	}
}

// TestPitfall29TheSidecarComesBeforeTheAppsInitContainers and, in codec mode, lets all of them reach the socket, which only the sidecar can write.
func TestPitfall29TheSidecarComesBeforeTheAppsInitContainers(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	crowded := func(p *corev1.Pod) {
		app := p.Spec.Containers[0]
		app.Env = []corev1.EnvVar{{Name: "TWICE", Value: "a"}, {Name: "TWICE", Value: "b"}} // legal in a pod
		app.VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
		second, first, last := *app.DeepCopy(), *app.DeepCopy(), *app.DeepCopy()
		second.Name, first.Name, last.Name = "second", "init-1", "init-2"
		second.VolumeMounts = nil
		p.Spec.Containers = []corev1.Container{app, second}
		shipper := *app.DeepCopy()
		shipper.Name, shipper.RestartPolicy = "log-shipper", sidecar(t, admit(t, pod(ns))).RestartPolicy
		p.Spec.InitContainers = []corev1.Container{first, shipper, last}
		p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	for _, mode := range []string{"proxy", "codec"} {
		p := admit(t, pod(ns, annotated("requeststate.dev/mode", mode), crowded))
		if got := names(p.Spec.InitContainers); !slices.Equal(got, []string{v1alpha1.SidecarContainerName, "init-1", "log-shipper", "init-2"}) {
			t.Errorf("%s: init containers %v", mode, got)
		}
		for _, c := range append(p.Spec.InitContainers[1:], p.Spec.Containers...) {
			m := mountAt(c, "/run/requeststate")
			if c.Name == "log-shipper" || mode == "proxy" {
				if len(m) > 0 {
					t.Errorf("%s: %s can reach the socket: %v", mode, c.Name, m)
				}
			} else if len(m) != 1 || !m[0].ReadOnly || m[0].Name != "requeststate-socket" {
				t.Errorf("%s: %s has the mounts %v", mode, c.Name, m)
			}
			if c.Name != "second" && len(mountAt(c, "/tmp")) != 1 || len(c.Env) != 2 {
				t.Errorf("%s: %s lost something: %v", mode, c.Name, c)
			}
		}
	}
}

func TestACodecPodHasASocketAndNoProxy(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	p := admit(t, pod(ns, annotated("requeststate.dev/mode", "codec", "requeststate.dev/upstream-port", "4000")))
	c := sidecar(t, p)
	if want := []string{"--key=" + ns + "/deployer", "--codec-listen=unix:///run/requeststate/codec.sock"}; !slices.Equal(c.Args, want) {
		t.Errorf("args %q, want %q", c.Args, want)
	}
	if len(c.Ports) != 1 || c.Ports[0].Name != "rsk-health" {
		t.Errorf("ports %v: a Service could target a proxy that does not run", c.Ports)
	}
	if m := mountAt(*c, "/run/requeststate"); len(m) != 1 || m[0].ReadOnly {
		t.Errorf("the sidecar's mount of the socket: %v", m)
	}

	// A mount that the app has there already stays.
	shared := func(p *corev1.Pod) {
		helper := *p.Spec.Containers[0].DeepCopy()
		helper.Name, helper.RestartPolicy = "helper", c.RestartPolicy
		helper.VolumeMounts = []corev1.VolumeMount{{Name: "requeststate-socket", MountPath: "/run/requeststate", ReadOnly: true}}
		p.Spec.InitContainers = []corev1.Container{helper}
	}
	admit(t, pod(ns, annotated("requeststate.dev/mode", "codec"), shared)) // the volume is there once the pod has been admitted
	own := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "own", MountPath: "/run/requeststate"}}
	}
	p = admit(t, pod(ns, annotated("requeststate.dev/mode", "codec"), own))
	if m := mountAt(p.Spec.Containers[0], "/run/requeststate"); len(m) != 1 || m[0].Name != "own" {
		t.Errorf("the app's own mount became %v", m)
	}
	p = admit(t, pod(ns, annotated("requeststate.dev/mode", "codec"), own, func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].MountPath += "/" }))
	if m := p.Spec.Containers[0].VolumeMounts; slices.ContainsFunc(m, func(m corev1.VolumeMount) bool { return m.Name == "requeststate-socket" }) {
		t.Errorf("with a slash at its end, the app's own mount has another at the same place: %v", m)
	}
}

func TestTheKeyNamesTheIdentitySecret(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	createKey(t, ns, "shop", &v1alpha1.SecretKeyReference{Name: "shop-identities"})
	createKey(t, ns, "other", &v1alpha1.SecretKeyReference{Name: "other-age", Key: "two.txt"})
	for key, want := range map[string][2]string{"shop": {"shop-identities", "identity.txt"}, "other": {"other-age", "two.txt"}} {
		awaitInjection(t, ns, key)
		p := admit(t, pod(ns, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelKey] = key }))
		c := sidecar(t, p)
		if !slices.Contains(c.Args, "--key="+ns+"/"+key) || !slices.Contains(c.Args, "--age-identity-file=/var/run/secrets/requeststate.dev/age/identity.txt") {
			t.Errorf("%s: args %q", key, c.Args)
		}
		if m := mountAt(*c, "/var/run/secrets/requeststate.dev/age"); len(m) != 1 || m[0].Name != "requeststate-age" || !m[0].ReadOnly {
			t.Errorf("%s: mount %v", key, m)
		}
		var found bool
		for _, v := range p.Spec.Volumes {
			if v.Name == "requeststate-age" {
				s := v.Secret
				found = s.SecretName == want[0] && len(s.Items) == 1 && s.Items[0].Key == want[1] && s.Items[0].Path == "identity.txt" && s.Optional == nil
			}
		}
		if !found {
			t.Errorf("%s: volumes %v, want the Secret %v", key, p.Spec.Volumes, want)
		}
		if m := mountAt(p.Spec.Containers[0], "/var/run/secrets/requeststate.dev/age"); len(m) > 0 {
			t.Errorf("%s: the app can read the identity", key)
		}
	}
}

// TestAKeyOfAnotherNamespaceIsNotTaken has a key of the right name in another namespace only.
func TestAKeyOfAnotherNamespaceIsNotTaken(t *testing.T) {
	namespace(t, injection, settings, required)
	elsewhere := env.Namespace(t).Name
	createKey(t, elsewhere, "local", nil)
	awaitInjection(t, elsewhere, "local")
	wantDenied(t, dryRun(t, pod(elsewhere)), requiredPolicy, noSidecar("deployer", elsewhere))
}

// TestPitfall31TheSidecarIsRestrictedWhateverThePodSays covers pods whose app runs as root by the pod's own setting.
func TestPitfall31TheSidecarIsRestrictedWhateverThePodSays(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	stored := pod(ns) // in a namespace that enforces the restricted standard
	if err := env.Client.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	sidecar(t, stored)

	lax := env.Namespace(t).Name
	createKey(t, lax, "deployer", nil)
	awaitInjection(t, lax, "deployer")
	root := int64(0)
	p := admit(t, pod(lax, func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &root}
		p.Spec.Containers[0].SecurityContext = nil
	}))
	if s := sidecar(t, p).SecurityContext; s.RunAsUser == nil || *s.RunAsUser != 65532 || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
		t.Errorf("security context %v: the kubelet would refuse to start the container", s)
	}
	p = admit(t, pod(lax, func(p *corev1.Pod) { p.Spec.HostNetwork = true }))
	if port := sidecar(t, p).Ports[0]; port.HostPort != 8088 {
		t.Errorf("on the host's network: %v", port)
	}
}
