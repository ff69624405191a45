package cluster

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/sidecar/agent"
)

const (
	// writeAttempts bounds how often one write is tried again because somebody else wrote first.
	writeAttempts   = 5
	maxVersionBytes = 64 // of spec.sidecarVersion, in the CRD
)

var errContended = errors.New("the report is written by others time and again: do two processes share this pod's identity?")

// WriteReport makes the pod's report say r. It is written only over what was read: the write of a process that has died, should it arrive late, names a
// resourceVersion that is gone by then, or tries to create what is there, and loses. What an earlier process of the pod wrote is taken over: of
// those that can write, this one started last.
func (s *Source) WriteReport(ctx context.Context, r *agent.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := s.spec(r)
	for range writeAttempts {
		if s.stored == nil {
			if err := s.read(ctx); err != nil {
				return err
			}
		}
		if s.stored != nil && sameReport(&s.stored.Spec, &spec) {
			return nil // a write whose answer was lost
		}
		err := s.write(ctx, spec)
		if err == nil {
			return nil
		}
		s.stored = nil
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return errContended
}

// ReportIntact reads the report and tells whether it is what this process wrote as r.
func (s *Source) ReportIntact(ctx context.Context, r *agent.Report) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(ctx); err != nil {
		return false, err
	}
	spec := s.spec(r)
	return s.stored != nil && sameReport(&s.stored.Spec, &spec), nil
}

// read reads the report. stored is nil afterwards if there is none.
func (s *Source) read(ctx context.Context) error {
	s.stored = nil
	report, err := s.reports.Get(ctx, s.reportName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	s.stored = report
	return nil
}

func (s *Source) write(ctx context.Context, spec v1alpha1.KeyringReportSpec) error {
	now := metav1.Now()
	spec.ReportedAt = &now
	if s.stored != nil {
		report := s.stored.DeepCopy()
		report.Spec = spec
		return s.keep(s.reports.Update(ctx, report, metav1.UpdateOptions{}))
	}
	report := &v1alpha1.KeyringReport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Config.Key.Namespace, Name: s.reportName(),
			// Neither controller nor blockOwnerDeletion, which would need the right to set finalizers on pods.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: s.Pod.Name, UID: types.UID(s.Pod.UID),
			}},
		},
		Spec: spec,
	}
	return s.keep(s.reports.Create(ctx, report, metav1.CreateOptions{}))
}

// keep remembers a report as the API server has stored it.
func (s *Source) keep(report *v1alpha1.KeyringReport, err error) error {
	if err == nil {
		s.stored = report
	}
	return err
}

func (s *Source) reportName() string {
	return v1alpha1.ReportName(s.Config.Key.Name, s.Pod.UID)
}

func (s *Source) spec(r *agent.Report) v1alpha1.KeyringReportSpec {
	return v1alpha1.KeyringReportSpec{
		KeyName: s.Config.Key.Name, KeyUID: r.UID, PodName: s.Pod.Name, PodUID: s.Pod.UID, NodeName: s.Pod.Node, BootID: s.bootID,
		Epoch: r.Epoch, Generation: r.Generation, MintingKeyID: r.MintingKeyID, Keys: r.Keys, Error: r.Error,
		SidecarVersion: s.Version[:min(len(s.Version), maxVersionBytes)],
	}
}

// sameReport tells whether two reports say the same, whenever they were written.
func sameReport(a, b *v1alpha1.KeyringReportSpec) bool {
	x, y := *a, *b
	x.ReportedAt, y.ReportedAt = nil, nil
	return equality.Semantic.DeepEqual(x, y)
}
