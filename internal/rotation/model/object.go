package model

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/requeststate/operator/api/v1alpha1"
)

const (
	maxRingKeys = 4 // more than any budget can bring together; a ring with more is reported
	maxIDs      = 12
	never       = int8(-100) // the age of what has not happened
	old         = int8(9)    // an age beyond which nothing changes any more
	tick        = time.Second
)

// A mask is a set of key ids, which are 1 to maxIDs.
type mask uint16

func bit(id uint8) mask { return 1 << id }

func (m mask) has(id uint8) bool { return m&bit(id) != 0 }

// A ringKey is what the protocol looks at of a key in a ring.
type ringKey struct {
	id, ttl, skew, kms uint8
	minted             bool
	acked              int8 // the age of ackedAt
}

// A ring is a keyring; epoch 0 means that there is none.
type ring struct {
	epoch, gen, minting, ttl, skew, n uint8
	keys                              [maxRingKeys]ringKey
}

func (r *ring) ids() mask {
	var m mask
	for _, k := range r.keys[:r.n] {
		m |= bit(k.id)
	}
	return m
}

// minted returns the keys that mint or have minted.
func (r *ring) minted() mask {
	var m mask
	for _, k := range r.keys[:r.n] {
		if k.minted {
			m |= bit(k.id)
		}
	}
	return m
}

// An object is the RequestStateKey as the API server stores it; uid 0 means that there is none.
type object struct {
	uid                              uint8
	ttl, skew, kms                   uint8 // of spec
	revoked                          mask
	rotate, abort, force             uint8 // the annotations' nonces
	rotateDone, abortDone, forceDone uint8 // and those that status says were handled
	ring                             ring
}

// base is the time of every observation. Only ages differ.
var base = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

func idText(id uint8) string { return fmt.Sprintf("%016x", id) }

func idOf(text string) uint8 {
	var id uint8
	_, _ = fmt.Sscanf(text, "%016x", &id)
	return id
}

func uidText(uid uint8) string { return fmt.Sprintf("uid-%d", uid) }

func kmsSpec(choice uint8) v1alpha1.KMSSpec {
	return v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{Recipients: []string{fmt.Sprintf("age%d", choice)}}}
}

func kmsOf(s *v1alpha1.KMSSpec) uint8 {
	return s.Age.Recipients[0][3] - '0'
}

func ticks(n uint8) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * tick} }

func nonce(n uint8) string {
	if n == 0 {
		return ""
	}
	return base.Add(time.Duration(n) * time.Hour).Format(time.RFC3339)
}

func nonceOf(text string) uint8 {
	if text == "" {
		return 0
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return uint8(t.Sub(base) / time.Hour)
}

// api returns the object as the rules take it.
func (o *object) api() *v1alpha1.RequestStateKey {
	required, ttl, skew, interval := true, ticks(o.ttl), ticks(o.skew), metav1.Duration{}
	key := &v1alpha1.RequestStateKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "deployer", UID: types.UID(uidText(o.uid)), Annotations: map[string]string{}},
		Spec: v1alpha1.RequestStateKeySpec{
			TTL: &ttl, ClockSkew: &skew, KMS: kmsSpec(o.kms),
			Rotation:  v1alpha1.RotationSpec{Interval: &interval},
			Principal: v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalNone, Required: &required},
		},
		Status: v1alpha1.RequestStateKeyStatus{
			LastHandledRotateAt: nonce(o.rotateDone), LastHandledAbortAt: nonce(o.abortDone), LastHandledBootstrapAt: nonce(o.forceDone),
			Keyring: o.ring.api(),
		},
	}
	for annotation, n := range map[string]uint8{
		v1alpha1.AnnotationRotateAt: o.rotate, v1alpha1.AnnotationAbortAt: o.abort, v1alpha1.AnnotationBootstrapAt: o.force,
	} {
		if n > 0 {
			key.Annotations[annotation] = nonce(n)
		}
	}
	for id := uint8(1); id <= maxIDs; id++ {
		if o.revoked.has(id) {
			key.Spec.RevokedKeyIDs = append(key.Spec.RevokedKeyIDs, v1alpha1.KeyID(idText(id)))
		}
	}
	return key
}

func (r *ring) api() *v1alpha1.Keyring {
	if r.epoch == 0 {
		return nil
	}
	required := true
	k := &v1alpha1.Keyring{
		Format: v1alpha1.KeyringFormat, Epoch: fmt.Sprintf("%016x", r.epoch), Generation: int64(r.gen), MintingKeyID: idText(r.minting),
		Settings: v1alpha1.KeyringSettings{
			Audience: "prod/deployer", TTL: ticks(r.ttl), ClockSkew: ticks(r.skew),
			Principal: v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalNone, Required: &required},
		},
	}
	longAgo := metav1.NewTime(base.Add(-time.Hour))
	for _, x := range r.keys[:r.n] {
		key := v1alpha1.KeyringKey{
			ID: idText(x.id), WrappedKey: []byte(idText(x.id)), KMS: kmsSpec(x.kms), CreatedAt: longAgo, MaxTTL: ticks(x.ttl), MaxClockSkew: ticks(x.skew),
		}
		if x.minted {
			key.MintingSince = &longAgo
		}
		if x.acked != never {
			t := metav1.NewTime(base.Add(-time.Duration(x.acked) * tick))
			key.AckedAt = &t
		}
		k.Keys = append(k.Keys, key)
	}
	return k
}

// withStatus returns the object after a write of status.
func (o object) withStatus(s *v1alpha1.RequestStateKeyStatus) (object, error) {
	o.rotateDone, o.abortDone, o.forceDone = nonceOf(s.LastHandledRotateAt), nonceOf(s.LastHandledAbortAt), nonceOf(s.LastHandledBootstrapAt)
	k := s.Keyring
	if k == nil {
		o.ring = ring{}
		return o, nil
	}
	if len(k.Keys) > maxRingKeys {
		return o, fmt.Errorf("the ring has grown to %d keys", len(k.Keys))
	}
	o.ring = ring{
		epoch: idOf(k.Epoch), gen: uint8(k.Generation), minting: idOf(k.MintingKeyID), n: uint8(len(k.Keys)),
		ttl: uint8(k.Settings.TTL.Duration / tick), skew: uint8(k.Settings.ClockSkew.Duration / tick),
	}
	for i := range k.Keys {
		x := &k.Keys[i]
		o.ring.keys[i] = ringKey{
			id: idOf(x.ID), kms: kmsOf(&x.KMS), ttl: uint8(x.MaxTTL.Duration / tick), skew: uint8(x.MaxClockSkew.Duration / tick),
			minted: x.MintingSince != nil, acked: never,
		}
		if x.AckedAt != nil {
			o.ring.keys[i].acked = aged(int8(base.Sub(x.AckedAt.Time)/tick), 0)
		}
	}
	return o, nil
}

// aged returns an age after some more ticks.
func aged(age int8, by int8) int8 {
	if age == never {
		return never
	}
	return min(age+by, old)
}

// later returns the object as it looks one tick later.
func (o object) later() object {
	for i := range o.ring.keys[:o.ring.n] {
		o.ring.keys[i].acked = aged(o.ring.keys[i].acked, 1)
	}
	return o
}

// seen returns the object without what no sidecar looks at.
func (o object) seen() object {
	s := object{uid: o.uid, revoked: o.revoked, ring: o.ring}
	if s.uid == 0 {
		return object{}
	}
	for i := range s.ring.keys[:s.ring.n] {
		k := &s.ring.keys[i]
		*k = ringKey{id: k.id, minted: k.minted, acked: never}
	}
	return s
}

func (r *ring) String() string {
	if r.epoch == 0 {
		return "no ring"
	}
	var keys []string
	for _, k := range r.keys[:r.n] {
		text := fmt.Sprintf("k%d", k.id)
		switch {
		case k.id == r.minting:
			text += " mints"
		case !k.minted:
			text += " new"
		case k.acked != never:
			text += fmt.Sprintf(" acked %d ago", k.acked)
		default:
			text += " old"
		}
		keys = append(keys, text)
	}
	return fmt.Sprintf("epoch %d generation %d {%s} ttl %d skew %d", r.epoch, r.gen, strings.Join(keys, ", "), r.ttl, r.skew)
}

func (m mask) String() string {
	var ids []string
	for id := uint8(1); id <= maxIDs; id++ {
		if m.has(id) {
			ids = append(ids, fmt.Sprintf("k%d", id))
		}
	}
	return "{" + strings.Join(ids, " ") + "}"
}
