package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/access"
	"github.com/requeststate/operator/internal/rotation"
)

// FieldKeyName is the selectable field of KeyringReports, and the name of the caches' index on it, that finds the reports of one key.
const FieldKeyName = "spec.keyName"

// indexConsumes is the name of the caches' index of pods by the key that they consume.
const indexConsumes = "requeststate.dev/consumes"

// observeCached makes an observation from the caches. It decides when to look, never what to do.
func (r *Reconciler) observeCached(ctx context.Context, key *v1alpha1.RequestStateKey) rotation.Observation {
	o := rotation.Observation{Key: key}
	evidence, err := r.evidence(ctx, r.Client, key, client.MatchingFields{indexConsumes: key.Name}, false)
	if err != nil {
		o.ListError = err.Error()
	}
	o.Evidence = evidence
	o.Now = r.Now()
	o.LastKMSAttempt = r.pace.lastKMS(client.ObjectKeyFromObject(key), o.Now)
	return o
}

// observeLive makes an observation that can open a gate: the key first, then the reports, then the pods, all read consistently and uncached, and the clock last.
func (r *Reconciler) observeLive(ctx context.Context, name types.NamespacedName) (*rotation.Observation, error) {
	key := &v1alpha1.RequestStateKey{}
	if err := r.Live.Get(ctx, name, key); err != nil {
		return nil, err
	}
	o := &rotation.Observation{Key: key}
	evidence, err := r.evidence(ctx, r.Live, key, client.MatchingLabels{v1alpha1.LabelKey: key.Name}, true)
	if err != nil {
		o.ListError = err.Error()
	}
	o.Evidence = evidence
	o.Now = r.Now()
	o.LastKMSAttempt = r.pace.lastKMS(name, o.Now)
	return o, nil
}

// evidence lists the reports of a key, then the pods that consume it, and gets each pod that a report names and the list lacks: a pod that lost its label
// still serves. Any error means that there is no evidence, never that there are no consumers.
func (r *Reconciler) evidence(ctx context.Context, reader client.Reader, key *v1alpha1.RequestStateKey, consuming client.ListOption, live bool) (*rotation.Evidence, error) {
	reports := &v1alpha1.KeyringReportList{}
	if err := reader.List(ctx, reports, client.InNamespace(key.Namespace), client.MatchingFields{FieldKeyName: key.Name}); err != nil {
		return nil, fmt.Errorf("listing KeyringReports: %w", err)
	}
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(key.Namespace), consuming); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	ev := &rotation.Evidence{Consistent: live}
	known := make(map[string]bool, len(pods.Items))
	add := func(pod *corev1.Pod) {
		p := podOf(pod, key.Name)
		p.Hint = hint(pod, key)
		ev.Pods = append(ev.Pods, p)
		known[p.UID] = true
	}
	for i := range pods.Items {
		add(&pods.Items[i])
	}
	for i := range reports.Items {
		report := &reports.Items[i].Spec
		ev.Reports = append(ev.Reports, *report)
		if !live || known[report.PodUID] {
			continue
		}
		pod := &corev1.Pod{}
		switch err := reader.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: report.PodName}, pod); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("getting a pod that a report names: %w", err)
		case string(pod.UID) == report.PodUID:
			add(pod)
		}
	}
	ev.ReadAt = r.Now()
	return ev, nil
}

// podOf tells the rules what they need to know of a pod. What is for messages alone is left to hint: it changes too often to look again each time.
func podOf(pod *corev1.Pod, keyName string) rotation.Pod {
	return rotation.Pod{
		Name:        pod.Name,
		UID:         string(pod.UID),
		Labelled:    consumes(pod) == keyName,
		Finished:    pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		Terminating: !pod.DeletionTimestamp.IsZero(),
		Sidecar:     sidecarState(pod),
	}
}

// hint says what may keep a pod's sidecar from reporting, as far as the API server knows.
func hint(pod *corev1.Pod, key *v1alpha1.RequestStateKey) string {
	if !access.Serves(key, pod) {
		return "its service account " + access.Account(pod) + " is not in spec.serviceAccountNames"
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if s := &statuses[i]; s.Name == v1alpha1.SidecarContainerName && s.State.Waiting != nil && s.State.Waiting.Reason != "" {
				return "its container waits: " + s.State.Waiting.Reason
			}
		}
	}
	return ""
}

// sidecarState tells how far the sidecar's container has come. Only its first Waiting says that it has never run; a Waiting after that is a back-off between two runs.
func sidecarState(pod *corev1.Pod) rotation.SidecarState {
	if !hasSidecar(pod.Spec.InitContainers) && !hasSidecar(pod.Spec.Containers) {
		return rotation.SidecarAbsent
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			switch {
			case s.Name != v1alpha1.SidecarContainerName:
				continue
			case s.State.Terminated != nil:
				return rotation.SidecarEnded
			case s.State.Running == nil && s.RestartCount == 0 && s.LastTerminationState.Terminated == nil:
				return rotation.SidecarNeverRan
			default:
				return rotation.SidecarRan
			}
		}
	}
	return rotation.SidecarNeverRan
}

func hasSidecar(containers []corev1.Container) bool {
	for i := range containers {
		if containers[i].Name == v1alpha1.SidecarContainerName {
			return true
		}
	}
	return false
}
