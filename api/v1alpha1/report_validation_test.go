package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

const podUID = "11111111-2222-3333-4444-555555555555"

// reportWriter stands for a pod's bound token with every right, so that what refuses a report is its schema.
func reportWriter(t *testing.T, podName, podUID string) client.Client {
	t.Helper()
	config := env.As(podName, "system:masters")
	config.Impersonate.Extra = map[string][]string{
		"authentication.kubernetes.io/pod-name": {podName}, "authentication.kubernetes.io/pod-uid": {podUID},
	}
	c, err := env.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newReport(namespace, keyName, podName, podUID string) *v1alpha1.KeyringReport {
	return &v1alpha1.KeyringReport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: v1alpha1.ReportName(keyName, podUID),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: podName, UID: types.UID(podUID)}},
		},
		Spec: v1alpha1.KeyringReportSpec{
			KeyName: keyName, KeyUID: "key-uid", PodName: podName, PodUID: podUID, Epoch: "0123456789abcdef", Generation: 1,
			MintingKeyID: "0011223344556677", Keys: []v1alpha1.ReportedKey{{ID: "0011223344556677", CheckValue: "8899aabbccddeeff"}},
		},
	}
}

func TestKeyringReportRefusals(t *testing.T) {
	long := strings.Repeat("a", 300)
	cases := []struct {
		name, field, message string
		change               func(*v1alpha1.KeyringReport)
	}{
		{"name of another key", "<nil>", "a report is named <spec.keyName>.<spec.podUID>", func(r *v1alpha1.KeyringReport) { r.Name = "other." + podUID }},
		{"no key name", "spec.keyName", "should be at least 1 chars long", func(r *v1alpha1.KeyringReport) { r.Spec.KeyName = "" }},
		{"key name too long", "spec.keyName", "Too long: may not be more than 63 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.KeyName = long[:64] }},
		{"key UID too long", "spec.keyUID", "Too long: may not be more than 64 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.KeyUID = long }},
		{"no pod name", "spec.podName", "should be at least 1 chars long", func(r *v1alpha1.KeyringReport) { r.Spec.PodName = "" }},
		{"pod name too long", "spec.podName", "Too long: may not be more than 253 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.PodName = long }},
		{"no pod UID", "spec.podUID", "should be at least 1 chars long", func(r *v1alpha1.KeyringReport) { r.Spec.PodUID = "" }},
		{"pod UID too long", "spec.podUID", "Too long: may not be more than 64 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.PodUID = long }},
		{"node name too long", "spec.nodeName", "Too long: may not be more than 253 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.NodeName = long }},
		{"boot id too long", "spec.bootID", "Too long: may not be more than 64 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.BootID = long }},
		{"epoch too long", "spec.epoch", "Too long: may not be more than 16 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.Epoch = long }},
		{"negative generation", "spec.generation", "should be greater than or equal to 0", func(r *v1alpha1.KeyringReport) { r.Spec.Generation = -1 }},
		{"minting key too long", "spec.mintingKeyID", "Too long: may not be more than 16 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.MintingKeyID = long }},
		{"17 keys", "spec.keys", "must have at most 16 items", func(r *v1alpha1.KeyringReport) {
			for i := range v1alpha1.MaxRingKeys {
				r.Spec.Keys = append(r.Spec.Keys, v1alpha1.ReportedKey{ID: fmt.Sprint(i)})
			}
		}},
		{"key twice", "spec.keys[1]", `Duplicate value: {"id":"0011223344556677"}`, func(r *v1alpha1.KeyringReport) { r.Spec.Keys = append(r.Spec.Keys, r.Spec.Keys[0]) }},
		{"key id too long", "spec.keys[0].id", "Too long: may not be more than 16 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.Keys[0].ID = long }},
		{"check value too long", "spec.keys[0].checkValue", "Too long: may not be more than 16 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.Keys[0].CheckValue = long }},
		{"unknown reason", "spec.error.reason", `supported values: "NoRing", "InvalidRing", "UnsupportedFormat", "UnsupportedPrincipal", "UnwrapFailed", "KMSUnavailable", "KMSDenied", "SelfTestFailed", "UpstreamExposed"`, func(r *v1alpha1.KeyringReport) {
			r.Spec.Error = &v1alpha1.ReportError{Reason: "Tired"}
		}},
		{"message too long", "spec.error.message", "Too long: may not be more than 256 bytes", func(r *v1alpha1.KeyringReport) {
			r.Spec.Error = &v1alpha1.ReportError{Reason: v1alpha1.ReportNoRing, Message: long}
		}},
		{"version too long", "spec.sidecarVersion", "Too long: may not be more than 64 bytes", func(r *v1alpha1.KeyringReport) { r.Spec.SidecarVersion = long }},
	}
	ns, c := env.Namespace(t), reportWriter(t, "mcp-0", podUID)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			report := newReport(ns.Name, "shop", "mcp-0", podUID)
			tc.change(report)
			wantRefusal(t, c.Create(t.Context(), report), tc.field, tc.message)
		})
	}
}

func TestKeyringReportUpdates(t *testing.T) {
	const name = "a report is named <spec.keyName>.<spec.podUID>"
	cases := []struct {
		name, field, message string
		change               func(*v1alpha1.KeyringReport)
	}{
		{"key name", "spec.keyName", "keyName is immutable", func(r *v1alpha1.KeyringReport) { r.Spec.KeyName = "other" }},
		{"key name leaves the object's name behind", "<nil>", name, func(r *v1alpha1.KeyringReport) { r.Spec.KeyName = "other" }},
		{"pod name", "spec.podName", "podName is immutable", func(r *v1alpha1.KeyringReport) { r.Spec.PodName = "mcp-1" }},
		{"pod UID", "spec.podUID", "podUID is immutable", func(r *v1alpha1.KeyringReport) { r.Spec.PodUID = "other" }},
		{"key UID", "", "", func(r *v1alpha1.KeyringReport) { r.Spec.KeyUID = "next-life" }},
		{"generation falls to not joined", "", "", func(r *v1alpha1.KeyringReport) {
			r.Spec.Generation, r.Spec.Keys, r.Spec.MintingKeyID = 0, nil, ""
			r.Spec.Error = &v1alpha1.ReportError{Reason: v1alpha1.ReportKMSDenied, Message: strings.Repeat("m", v1alpha1.MaxReportMessageLength)}
		}},
		{"as many keys as a ring holds", "", "", func(r *v1alpha1.KeyringReport) {
			r.Spec.Keys = nil
			for i := range v1alpha1.MaxRingKeys {
				r.Spec.Keys = append(r.Spec.Keys, v1alpha1.ReportedKey{ID: fmt.Sprintf("%016x", i), CheckValue: "8899aabbccddeeff"})
			}
		}},
	}
	ctx, ns, c := t.Context(), env.Namespace(t), reportWriter(t, "mcp-0", podUID)
	report := newReport(ns.Name, "shop", "mcp-0", podUID)
	if err := c.Create(ctx, report); err != nil {
		t.Fatal(err)
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			changed := report.DeepCopy()
			tc.change(changed)
			err := c.Update(t.Context(), changed, client.DryRunAll)
			if tc.field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantRefusal(t, err, tc.field, tc.message)
		})
	}
}
