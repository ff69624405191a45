package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KeyringReport is what one sidecar says that it holds: its acknowledgement of a ring. It is named "<RequestStateKey name>.<pod UID>", owned by its Pod,
// and written by that pod's sidecar alone. Its strings are written by a workload: treat them as untrusted wherever they are shown.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=krr,categories=requeststate
// +kubebuilder:selectablefield:JSONPath=`.spec.keyName`
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.keyName`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.spec.podName`
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.spec.generation`
// +kubebuilder:printcolumn:name="Minting Key",type=string,JSONPath=`.spec.mintingKeyID`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.spec.error.reason`
// +kubebuilder:printcolumn:name="Reported",type=date,JSONPath=`.spec.reportedAt`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.keyName + '.' + self.spec.podUID",message="a report is named <spec.keyName>.<spec.podUID>"
type KeyringReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the report.
	// +required
	Spec KeyringReportSpec `json:"spec"`
}

// KeyringReportList is a list of KeyringReports.
//
// +kubebuilder:object:root=true
type KeyringReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KeyringReport `json:"items"`
}

// KeyringReportSpec says which ring is in the memory of one sidecar, whole, with a seal and open self-test passed for every key.
type KeyringReportSpec struct {
	// keyName is the name of the RequestStateKey, in the report's namespace. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="keyName is immutable"
	KeyName string `json:"keyName"`

	// keyUID is the UID of the RequestStateKey whose ring is held. It changes only when the key was deleted and made anew under its name.
	// +required
	// +kubebuilder:validation:MaxLength=64
	KeyUID string `json:"keyUID"`

	// podName is the name of the pod that holds the ring. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="podName is immutable"
	PodName string `json:"podName"`

	// podUID is the UID of the pod that holds the ring: its identity, since a StatefulSet's next pod has the same name. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="podUID is immutable"
	PodUID string `json:"podUID"`

	// nodeName is the node on which the pod runs.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// bootID is drawn at random by each process of the sidecar: it tells a report of this process from one of an earlier process of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`

	// epoch is the epoch of the ring that is held.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Epoch string `json:"epoch,omitempty"`

	// generation is the generation of the ring that is held; 0: the sidecar has not joined, holds nothing and serves nothing.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Generation int64 `json:"generation"`

	// mintingKeyID is the key under which the sidecar seals.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	MintingKeyID string `json:"mintingKeyID,omitempty"`

	// keys are the keys that are held, at most 16.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=16
	Keys []ReportedKey `json:"keys,omitempty"`

	// error says why the sidecar has not joined, or cannot load a later ring; absent if all is well.
	// +optional
	Error *ReportError `json:"error,omitempty"`

	// sidecarVersion is the version of the sidecar's binary.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SidecarVersion string `json:"sidecarVersion,omitempty"`

	// reportedAt is when the report was written, by the pod's clock.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`
	ReportedAt *metav1.Time `json:"reportedAt,omitempty"`
}

// ReportedKey is a key that a sidecar holds.
type ReportedKey struct {
	// id names the key.
	// +required
	// +kubebuilder:validation:MaxLength=16
	ID string `json:"id"`

	// checkValue is the first 8 bytes, in hexadecimal, of HKDF-SHA256(data key, info "requeststate/v1/check"): equal on all pods that hold the same
	// key, and of no use for finding it.
	// +required
	// +kubebuilder:validation:MaxLength=16
	CheckValue string `json:"checkValue"`
}

// ReportErrorReason says in one word what keeps a sidecar from holding the current ring.
//
// +kubebuilder:validation:Enum=NoRing;InvalidRing;UnsupportedFormat;UnsupportedPrincipal;UnwrapFailed;KMSUnavailable;KMSDenied;SelfTestFailed;UpstreamExposed
type ReportErrorReason string

// The reasons of a ReportError.
const (
	// ReportNoRing means that the RequestStateKey has no ring yet, or does not exist.
	ReportNoRing ReportErrorReason = "NoRing"
	// ReportInvalidRing means that the ring contradicts itself.
	ReportInvalidRing ReportErrorReason = "InvalidRing"
	// ReportUnsupportedFormat means that the ring has a format that this sidecar does not know: upgrade the sidecar.
	ReportUnsupportedFormat ReportErrorReason = "UnsupportedFormat"
	// ReportUnsupportedPrincipal means that the ring's settings ask for a principal source that this sidecar does not know.
	ReportUnsupportedPrincipal ReportErrorReason = "UnsupportedPrincipal"
	// ReportUnwrapFailed means that a key of the ring does not unwrap with this pod's identity.
	ReportUnwrapFailed ReportErrorReason = "UnwrapFailed"
	// ReportKMSUnavailable means that the KMS does not answer; the sidecar goes on trying.
	ReportKMSUnavailable ReportErrorReason = "KMSUnavailable"
	// ReportKMSDenied means that the KMS refuses this pod.
	ReportKMSDenied ReportErrorReason = "KMSDenied"
	// ReportSelfTestFailed means that a key unwrapped but failed the seal and open self-test.
	ReportSelfTestFailed ReportErrorReason = "SelfTestFailed"
	// ReportUpstreamExposed means that the app's port can be reached around the sidecar, on the pod's address.
	ReportUpstreamExposed ReportErrorReason = "UpstreamExposed"
)

// ReportError says what keeps a sidecar from holding the current ring.
type ReportError struct {
	// reason is the cause in one word.
	// +required
	Reason ReportErrorReason `json:"reason"`

	// message says what to do. At most 256 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}
