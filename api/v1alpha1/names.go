package v1alpha1

// Labels, annotations and names that consumers, users and the controller agree on.
const (
	// LabelKey on a pod names the RequestStateKey, in the pod's namespace, that the pod consumes.
	LabelKey = "requeststate.dev/key"

	// AnnotationRotateAt on a RequestStateKey asks for a rotation. The value is an RFC 3339 time that serves as a nonce: a value other than
	// status.lastHandledRotateAt acts at once, even if it lies in the future.
	AnnotationRotateAt = "requeststate.dev/rotate-at"

	// AnnotationAbortAt on a RequestStateKey asks to abort a rotation whose new key does not mint yet. A nonce like AnnotationRotateAt.
	AnnotationAbortAt = "requeststate.dev/abort-at"

	// AnnotationBootstrapAt on a RequestStateKey makes a new ring although live reports say that there was one (reason RingLost): tokens of
	// the lost ring are then refused by pods that hold the new one. A nonce like AnnotationRotateAt.
	AnnotationBootstrapAt = "requeststate.dev/bootstrap-at"

	// SidecarContainerName is the name of the sidecar's container in a consumer pod.
	SidecarContainerName = "requeststate-sidecar"

	// SidecarPortName is the name of the port, in the sidecar's container, on which the proxy serves.
	SidecarPortName = "requeststate"

	// DefaultIdentityKey is the key within an identity Secret that holds the age identity if spec.kms.age.identitySecret.key is not set.
	DefaultIdentityKey = "identity.txt"
)

// Limits of the API that code outside the CRD's schema needs too.
const (
	// MaxKeyNameLength is the longest name of a RequestStateKey, which is a label value on pods.
	MaxKeyNameLength = 63

	// MaxRingKeys is the number of keys that a ring, and so a report, can hold.
	MaxRingKeys = 16

	// MaxReportMessageLength bounds ReportError.Message, in bytes.
	MaxReportMessageLength = 256

	// MaxBehindNames bounds status.consumers.behind.
	MaxBehindNames = 10

	// MaxHistory bounds status.history.
	MaxHistory = 20

	// KeyringFormat is the only value of status.keyring.format that this version reads or writes.
	KeyringFormat = 1
)

// ReportName returns the name of the KeyringReport of the pod with the given UID for the named RequestStateKey.
func ReportName(keyName, podUID string) string { return keyName + "." + podUID }
