package agent

import (
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/sidecar/ring"
)

// unwrapAtOnce bounds the requests that one sidecar has with a KMS at a time.
const unwrapAtOnce = 4

// unwrapped is what came of unwrapping one key.
type unwrapped struct {
	key  *v1alpha1.KeyringKey
	data envelope.DataKey
	err  error
}

// zero wipes what is not going to be used.
func (o *outcome) zero() {
	for i := range o.keys {
		o.keys[i].data.Zero()
	}
}

// beginLoad unwraps the keys of a ring that are not in memory.
func (a *Agent) beginLoad(ctx context.Context, view *rotation.View) {
	op := &operation{kind: rotation.ActLoad, view: view}
	if problem := unusable(view.Ring); problem != nil {
		a.loadFailed(op, problem)
		return
	}
	op.wanted = a.member.Wanted(view)
	missing := a.keys.missing(view.Ring, op.wanted)
	if len(missing) == 0 {
		a.finishLoad(&outcome{op: op}) // at once: if the minting key was just dropped, nothing is sealed until then
		return
	}
	rounds := (len(missing) + unwrapAtOnce - 1) / unwrapAtOnce
	a.do(ctx, op, a.UnwrapTimeout*time.Duration(rounds+1), func(ctx context.Context, o *outcome) {
		o.keys = a.unwrapAll(ctx, missing)
	})
}

// unusable returns why a ring must not be loaded, whatever the KMS says.
func unusable(r *v1alpha1.Keyring) *v1alpha1.ReportError {
	if fault := rotation.CheckRing(r); fault != nil {
		reason := v1alpha1.ReportInvalidRing
		if fault.Reason == v1alpha1.ReasonUnknownFormat {
			reason = v1alpha1.ReportUnsupportedFormat
		}
		return reportError(reason, fault.Message)
	}
	switch source := r.Settings.Principal.Source; source {
	case "", v1alpha1.PrincipalNone, v1alpha1.PrincipalJWT, v1alpha1.PrincipalHeader:
		return nil
	default:
		// Sealing unbound instead would be a silent loss of what was asked for.
		return reportError(v1alpha1.ReportUnsupportedPrincipal,
			"this version of the sidecar does not know the source of spec.principal: use None, JWT or Header, or run a version that does")
	}
}

// unwrapAll unwraps keys, a few at a time, and returns what came of each in the order of keys.
func (a *Agent) unwrapAll(ctx context.Context, keys []*v1alpha1.KeyringKey) []unwrapped {
	all := make([]unwrapped, len(keys))
	slots := make(chan struct{}, unwrapAtOnce)
	var wg sync.WaitGroup
	for i, k := range keys {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			all[i] = unwrapped{key: k}
			all[i].data, all[i].err = a.unwrap(ctx, k)
		})
	}
	wg.Wait()
	return all
}

func (a *Agent) unwrap(ctx context.Context, k *v1alpha1.KeyringKey) (envelope.DataKey, error) {
	ctx, cancel := context.WithTimeout(ctx, a.UnwrapTimeout)
	defer cancel()
	start := time.Now()
	wrapper, err := a.OpenKMS(ctx, k.KMS, k.ResolvedARN)
	if err != nil {
		return envelope.DataKey{}, err
	}
	name := a.Source.Key()
	data, err := wrapper.Unwrap(ctx, kms.Wrapped{Blob: k.WrappedKey, ResolvedARN: k.ResolvedARN},
		kms.EncryptionContext{Namespace: name.Namespace, Name: name.Name, KeyID: k.ID})
	a.Metrics.KMSRequest(ring.OpUnwrap, kms.CodeOf(err), time.Since(start))
	return data, err
}

// finishLoad makes a ring of the keys that a load brought and those that were there, and takes it up; or says why it cannot.
func (a *Agent) finishLoad(o *outcome) {
	var problem *v1alpha1.ReportError
	for i := range o.keys {
		k := &o.keys[i]
		if k.err == nil {
			a.keys.put(k.key, k.data)
			continue
		}
		a.complain(complaintUnwrap, "error", "key "+k.key.ID+": "+k.err.Error())
		if problem == nil { // the first of the ring, so that the report does not change with the order of answers
			problem = problemOf(k.key.ID, k.err)
		}
	}
	if problem != nil {
		a.loadFailed(o.op, problem)
		return
	}
	r, err := a.build(o.op.view.Ring, o.op.wanted)
	if err == nil {
		err = r.SelfTest(time.Now())
	}
	if err != nil {
		a.loadFailed(o.op, reportError(v1alpha1.ReportSelfTestFailed, err.Error()))
		return
	}
	principals, err := a.principalsOf(&o.op.view.Ring.Settings)
	if err != nil {
		a.loadFailed(o.op, reportError(v1alpha1.ReportInvalidRing, err.Error()))
		return
	}
	a.takeUp(o.op.view, r, principals)
}

// build makes a ring of the keys named.
func (a *Agent) build(r *v1alpha1.Keyring, ids []string) (*envelope.Keyring, error) {
	minting, err := envelope.ParseKeyID(r.MintingKeyID)
	if err != nil {
		return nil, err
	}
	c := envelope.Config{
		Audience: r.Settings.Audience, TTL: r.Settings.TTL.Duration, ClockSkew: r.Settings.ClockSkew.Duration,
		Minting: minting, Keys: map[envelope.KeyID]envelope.DataKey{}, MaxStateBytes: a.MaxStateBytes,
	}
	for _, id := range ids {
		kid, err := envelope.ParseKeyID(id)
		if err != nil {
			return nil, err
		}
		c.Keys[kid] = a.keys.get(id)
	}
	if _, held := c.Keys[minting]; held {
		return envelope.NewKeyring(c)
	}
	// The minting key is revoked: what is left opens, and nothing seals. A key that nobody has stands in its place for a moment.
	c.Keys[minting] = envelope.GenerateDataKey()
	defer c.Keys[minting].Zero()
	whole, err := envelope.NewKeyring(c)
	if err != nil {
		return nil, err
	}
	return whole.Without(minting), nil
}

// takeUp puts a ring in the place of the one held.
func (a *Agent) takeUp(view *rotation.View, r *envelope.Keyring, principals *boundPrincipals) {
	a.Holder.Swap(r, a.bind(principals))
	a.member.Loaded(view, nil)
	a.keys.keepOnly(view.Ring)
	a.ring = map[string]v1alpha1.ReportedKey{}
	for id, check := range r.CheckValues() {
		a.ring[id.String()] = v1alpha1.ReportedKey{ID: id.String(), CheckValue: check}
	}
	a.succeeded(complaintUnwrap, complaintNotHeld)
	a.Logger.Info("ring in memory", "keyUID", view.UID, "epoch", view.Ring.Epoch, "generation", view.Ring.Generation,
		"mintingKeyID", view.Ring.MintingKeyID, "keys", len(a.ring))
}

func (a *Agent) loadFailed(op *operation, problem *v1alpha1.ReportError) {
	a.Metrics.LoadError(problem.Reason)
	a.complain(complaintNotHeld, "cause", string(problem.Reason)+": "+problem.Message)
	a.member.Loaded(op.view, problem)
	if a.member.Held() == nil {
		a.Holder.Clear()
		a.ring = nil
	}
	a.failed()
}

// problemOf says in a report what keeps a key from being unwrapped. The text of what may mend itself is the same whatever the cause, so that a KMS that
// fails now this way and now that does not make the report be written each time; the cause is in the log.
func problemOf(id string, err error) *v1alpha1.ReportError {
	var e *kms.Error
	switch {
	case kms.ClassOf(err) == kms.Retry || !errors.As(err, &e):
		return reportError(v1alpha1.ReportKMSUnavailable, "key "+id+": the KMS does not answer, or not now; the sidecar goes on trying")
	case e.Class == kms.KeyOnly, ownFault[e.Code]:
		return reportError(v1alpha1.ReportUnwrapFailed, "key "+id+": "+e.Error())
	default:
		return reportError(v1alpha1.ReportKMSDenied, "key "+id+": "+e.Error())
	}
}

// ownFault are the codes that no KMS answered: what this process was given cannot unwrap.
var ownFault = map[string]bool{
	kms.CodeInvalidIdentity: true, kms.CodeInvalidRecipient: true, kms.CodeInvalidSpec: true, kms.CodeFIPS: true, kms.CodeClient: true,
}

// reportError returns an error fit for a report.
func reportError(reason v1alpha1.ReportErrorReason, message string) *v1alpha1.ReportError {
	for len(message) > v1alpha1.MaxReportMessageLength {
		_, last := utf8.DecodeLastRuneInString(message)
		message = message[:len(message)-last]
	}
	return &v1alpha1.ReportError{Reason: reason, Message: message}
}
