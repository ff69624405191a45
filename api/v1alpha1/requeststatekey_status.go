package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase is how far a rotation has come. It is for display: all logic derives from the ring.
//
// +kubebuilder:validation:Enum=Pending;Stable;VerifyNew;MintNew;RetireOld
type Phase string

// The phases, in order.
const (
	// PhasePending means that there is no ring yet.
	PhasePending Phase = "Pending"
	// PhaseStable means that no rotation is under way.
	PhaseStable Phase = "Stable"
	// PhaseVerifyNew means that the new key is in the ring but mints nothing; it waits until every consumer has acknowledged it.
	PhaseVerifyNew Phase = "VerifyNew"
	// PhaseMintNew means that the new key mints; it waits until every consumer has acknowledged that.
	PhaseMintNew Phase = "MintNew"
	// PhaseRetireOld means that no pod mints under the old key any more; it waits until the last token under it has expired.
	PhaseRetireOld Phase = "RetireOld"
)

// RequestStateKeyStatus holds the ring and how far a rotation has come.
type RequestStateKeyStatus struct {
	// observedGeneration is the metadata.generation of the spec that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastHandledRotateAt is the last value of the annotation requeststate.dev/rotate-at that started a rotation.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledRotateAt string `json:"lastHandledRotateAt,omitempty"`

	// lastHandledAbortAt is the last value of the annotation requeststate.dev/abort-at that was acted on.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledAbortAt string `json:"lastHandledAbortAt,omitempty"`

	// lastHandledBootstrapAt is the last value of the annotation requeststate.dev/bootstrap-at that was acted on.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledBootstrapAt string `json:"lastHandledBootstrapAt,omitempty"`

	// lastRotationTime is when the last rotation ended: when its old key was retired.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	LastRotationTime *metav1.Time `json:"lastRotationTime,omitempty"`

	// nextRotationTime is when the next scheduled rotation starts, counted from the end of the last; absent if spec.rotation.interval is 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	NextRotationTime *metav1.Time `json:"nextRotationTime,omitempty"`

	// phase is how far a rotation has come: Pending, Stable, VerifyNew, MintNew or RetireOld. For display only.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// keyring is the ring: wrapped data keys, which of them mints, and the settings that sidecars obey. It is the one durable commit point.
	// +optional
	Keyring *Keyring `json:"keyring,omitempty"`

	// consumers counts the pods that hold the ring.
	// +optional
	Consumers *Consumers `json:"consumers,omitempty"`

	// rotation describes the rotation under way; absent in phase Stable.
	// +optional
	Rotation *RotationStatus `json:"rotation,omitempty"`

	// history lists rotations that have ended, newest first, at most 20.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	History []HistoryEntry `json:"history,omitempty"`

	// conditions: Ready, Reconciling, Stalled, KMSAvailable, ConsumersCurrent. Reconciling and Stalled exist only while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Keyring is the ring: what every sidecar of the key holds. It contains ciphertext only.
type Keyring struct {
	// format is the version of this structure: 1. Any other value is refused, never guessed.
	// +required
	Format int32 `json:"format"`

	// epoch names this ring's life: 8 random bytes, drawn at bootstrap, in lower-case hexadecimal.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Epoch string `json:"epoch"`

	// generation grows by one with every change of epoch, mintingKeyID, settings or the set of keys, and by nothing else.
	// +required
	// +kubebuilder:validation:Maximum=9007199254740991
	Generation int64 `json:"generation"`

	// mintingKeyID is the key under which new tokens are sealed.
	// +required
	// +kubebuilder:validation:MaxLength=16
	MintingKeyID string `json:"mintingKeyID"`

	// settings are copied from the spec by the controller; sidecars obey these.
	// +required
	Settings KeyringSettings `json:"settings"`

	// keys are the data keys under which tokens are accepted, the minting key among them. At most 16.
	// +required
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=16
	Keys []KeyringKey `json:"keys"`
}

// KeyringSettings are the parts of the spec that sidecars obey, in the form in which they were last published with the ring.
type KeyringSettings struct {
	// audience is the effective audience: spec.audience or its default.
	// +required
	// +kubebuilder:validation:MaxLength=317
	Audience string `json:"audience"`

	// ttl is the lifetime of tokens sealed with this ring.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}[hms])+$`
	TTL metav1.Duration `json:"ttl"`

	// clockSkew is the tolerance with which tokens are accepted before and after their time.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}[hms])+$`
	ClockSkew metav1.Duration `json:"clockSkew"`

	// principal says whether, and how, the proxy binds tokens to a principal.
	// +required
	Principal PrincipalSpec `json:"principal"`
}

// KeyringKey is one data key of a ring, wrapped by the KMS.
type KeyringKey struct {
	// id names the key: 8 random bytes in lower-case hexadecimal.
	// +required
	// +kubebuilder:validation:MaxLength=16
	ID string `json:"id"`

	// wrappedKey is the data key as the KMS wrapped it: an AWS KMS ciphertext blob or a binary age file. It is bound to namespace, name and id.
	// +required
	// +kubebuilder:validation:MaxLength=49152
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
	WrappedKey []byte `json:"wrappedKey"`

	// kms is the stanza of the spec with which the key was wrapped.
	// +required
	KMS KMSSpec `json:"kms"`

	// resolvedARN is the ARN of the AWS KMS key that wrapped this key. Unwrapping uses it, never an alias. Empty for age.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	ResolvedARN string `json:"resolvedARN,omitempty"`

	// createdAt is when the key was wrapped.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	CreatedAt metav1.Time `json:"createdAt"`

	// mintingSince is when the key became the minting key; absent if it never was.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	MintingSince *metav1.Time `json:"mintingSince,omitempty"`

	// maxTTL is the longest ttl in force while the key minted.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}[hms])+$`
	MaxTTL metav1.Duration `json:"maxTTL"`

	// maxClockSkew is the largest clockSkew in force while the key was in the ring.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}[hms])+$`
	MaxClockSkew metav1.Duration `json:"maxClockSkew"`

	// ackedAt is when every live consumer was seen to mint under a later key, rounded up to the second; absent until then. Bookkeeping: it does not
	// move the ring's generation.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	AckedAt *metav1.Time `json:"ackedAt,omitempty"`

	// retireAt is ackedAt + maxTTL + 2*maxClockSkew: when the last token under the key has expired on every clock. Derived, for display.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	RetireAt *metav1.Time `json:"retireAt,omitempty"`
}

// Consumers counts the pods that hold the ring. Written with phase changes, otherwise at most once in 30 s.
type Consumers struct {
	// summary is "<current>/<registered>".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Summary string `json:"summary,omitempty"`

	// registered counts the live pods that have joined, or that must be waited for because their report is missing.
	Registered int32 `json:"registered"`

	// current counts the registered pods that acknowledge the current ring.
	Current int32 `json:"current"`

	// unregistered counts the live pods that carry the label requeststate.dev/key but run no sidecar.
	Unregistered int32 `json:"unregistered"`

	// exposed counts the live pods whose app answers on the pod's own address, around the sidecar: let it listen on 127.0.0.1.
	// +optional
	Exposed int32 `json:"exposed,omitempty"`

	// behind names registered pods that do not acknowledge the current ring, at most 10.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=253
	Behind []string `json:"behind,omitempty"`
}

// RotationStatus describes the rotation under way.
type RotationStatus struct {
	// reason says why the rotation started, in words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// startedAt is when the new key entered the ring.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// phaseStartedAt is when the present phase began; spec.rotation.stallAfter counts from it.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	PhaseStartedAt *metav1.Time `json:"phaseStartedAt,omitempty"`
}

// RotationResult says how a rotation ended.
//
// +kubebuilder:validation:Enum=Completed;Aborted;Revoked
type RotationResult string

// The results of a rotation.
const (
	// RotationCompleted means that the old key was retired after its last token had expired.
	RotationCompleted RotationResult = "Completed"
	// RotationAborted means that the new key left the ring before it ever minted.
	RotationAborted RotationResult = "Aborted"
	// RotationRevoked means that a key left the ring because spec.revokedKeyIDs named it.
	RotationRevoked RotationResult = "Revoked"
)

// HistoryEntry records one rotation that has ended.
type HistoryEntry struct {
	// keyID is the key that left the ring.
	// +required
	// +kubebuilder:validation:MaxLength=16
	KeyID string `json:"keyID"`

	// reason says why the rotation started, in words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// startedAt is when the key's successor entered the ring.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// mintingAt is when the key's successor began to mint.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	MintingAt *metav1.Time `json:"mintingAt,omitempty"`

	// retiredAt is when the key left the ring.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	RetiredAt *metav1.Time `json:"retiredAt,omitempty"`

	// result is Completed, Aborted or Revoked.
	// +optional
	Result RotationResult `json:"result,omitempty"`

	// consumers is "<current>/<registered>" when the key left the ring.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Consumers string `json:"consumers,omitempty"`
}
