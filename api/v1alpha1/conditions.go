package v1alpha1

// Condition types of a RequestStateKey. Reconciling and Stalled follow kstatus: they exist only while they are true.
const (
	// ConditionReady is True while the ring can be used by new and running sidecars. It is Unknown until a ring exists.
	ConditionReady = "Ready"

	// ConditionReconciling is True while the controller works towards the spec: a bootstrap or a rotation is under way.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True while nothing can advance without somebody's help; its message says whose and how.
	ConditionStalled = "Stalled"

	// ConditionKMSAvailable tells whether the controller's last request to the KMS succeeded.
	ConditionKMSAvailable = "KMSAvailable"

	// ConditionConsumersCurrent tells whether every live consumer acknowledges the current ring.
	ConditionConsumersCurrent = "ConsumersCurrent"
)

// Reasons of the conditions of a RequestStateKey.
const (
	// ReasonPending means that no ring exists yet.
	ReasonPending = "Pending"
	// ReasonBootstrapping means that the first key of a ring is being made.
	ReasonBootstrapping = "Bootstrapping"
	// ReasonRingAvailable means that the ring is there and its minting key is among its keys.
	ReasonRingAvailable = "RingAvailable"
	// ReasonRotating means that a rotation is under way.
	ReasonRotating = "Rotating"
	// ReasonConsumersBehind means that a phase has waited longer than spec.rotation.stallAfter for the pods named in the message.
	ReasonConsumersBehind = "ConsumersBehind"
	// ReasonRevocationPending means that the minting key is revoked, so that nothing is sealed, and no fresh key could be had from the KMS to take its place.
	ReasonRevocationPending = "RevocationPending"
	// ReasonRingLost means that live reports name a ring of this object which its status no longer has.
	ReasonRingLost = "RingLost"
	// ReasonRingCorrupt means that the ring in status contradicts itself; nothing is overwritten.
	ReasonRingCorrupt = "RingCorrupt"
	// ReasonUnknownFormat means that a later version wrote the ring in status.
	ReasonUnknownFormat = "UnknownFormat"
	// ReasonCheckValueMismatch means that two pods hold different key material under one key id.
	ReasonCheckValueMismatch = "CheckValueMismatch"
	// ReasonInvalidRotateAt means that the rotate-at, abort-at or bootstrap-at annotation is not an RFC 3339 time.
	ReasonInvalidRotateAt = "InvalidRotateAt"
	// ReasonKMSError means that the controller's last request to the KMS failed.
	ReasonKMSError = "KMSError"
	// ReasonKMSCheckFailed means that no request for a data key failed, but a look at the KMS key showed that one would: it is disabled or to be deleted, say, or
	// the KMS does not answer.
	ReasonKMSCheckFailed = "KMSCheckFailed"
	// ReasonKMSAvailable means that the controller's last request to the KMS succeeded.
	ReasonKMSAvailable = "KMSAvailable"
	// ReasonAllCurrent means that every live consumer acknowledges the current ring.
	ReasonAllCurrent = "AllCurrent"
	// ReasonNoConsumers means that no pod consumes this key at present.
	ReasonNoConsumers = "NoConsumers"
	// ReasonWaitingForConsumers means that some live consumer does not yet acknowledge the current ring.
	ReasonWaitingForConsumers = "WaitingForConsumers"
	// ReasonListFailed means that the consistent lists of reports and pods at the gate failed.
	ReasonListFailed = "ListFailed"
)
