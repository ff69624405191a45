package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RequestStateKey is the key with which the replicas of one MCP server seal the requestState that they hand to clients (MCP 2026-07-28,
// Multi Round-Trip Requests). The controller mints data keys wrapped by a KMS, publishes them in status.keyring, and rotates them in three
// phases, each of which waits until every consumer pod has acknowledged the one before.
//
// Whoever may edit the spec owns the keys: a recipient or a principal source added there is obeyed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rsk,categories=requeststate
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Minting Key",type=string,JSONPath=`.status.keyring.mintingKeyID`
// +kubebuilder:printcolumn:name="Consumers",type=string,JSONPath=`.status.consumers.summary`,description="Pods that acknowledge the current ring, of those registered"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Next Rotation",type=string,JSONPath=`.status.nextRotationTime`,description="A string, since a column of type date shows a time to come as invalid"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.status.keyring.generation`,priority=1
// +kubebuilder:printcolumn:name="Stalled",type=string,JSONPath=`.status.conditions[?(@.type=="Stalled")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be at most 63 characters, since pods name the key in a label: choose a shorter name"
type RequestStateKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what tokens are bound to, which KMS wraps the data keys, and when they rotate.
	// +required
	Spec RequestStateKeySpec `json:"spec"`

	// status holds the ring itself, wrapped, and how far a rotation has come. Only the controller writes it.
	// +optional
	Status RequestStateKeyStatus `json:"status,omitempty"`
}

// RequestStateKeyList is a list of RequestStateKeys.
//
// +kubebuilder:object:root=true
type RequestStateKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RequestStateKey `json:"items"`
}

// KeyID names a data key: 8 random bytes in lower-case hexadecimal. A retired or revoked id never returns.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{16}$')",message="a key id is 16 lower-case hexadecimal digits, as in status.keyring.keys[].id"
type KeyID string

// RequestStateKeySpec is what a platform team asks for.
//
// +kubebuilder:validation:XValidation:rule="has(self.audience) == has(oldSelf.audience)",message="audience is immutable, also between unset and set, since every token in flight is bound to it: create another RequestStateKey for another audience",fieldPath=".audience"
// +kubebuilder:validation:XValidation:rule="!self.rotation.interval.matches('^([0-9]{1,6}[hms])+$') || !self.ttl.matches('^([0-9]{1,6}[hms])+$') || !self.clockSkew.matches('^([0-9]{1,6}[hms])+$') || duration(self.rotation.interval) == duration('0s') || duration(self.rotation.interval) >= duration(self.ttl) + duration(self.ttl) + duration(self.clockSkew) + duration(self.clockSkew)",message="rotation.interval must be at least 2*(ttl+clockSkew), so that one rotation ends before the next begins: raise rotation.interval, lower ttl or clockSkew, or set rotation.interval to 0s to rotate only on request",fieldPath=".rotation.interval"
type RequestStateKeySpec struct {
	// audience is the service that a token is for; a token sealed for another audience is refused. Default: "<namespace>/<name>" of this object.
	// Immutable, also between unset and set. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="audience must not be empty: leave it out for the default \"<namespace>/<name>\", or name the service"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="audience must not contain control characters: name the service in plain text"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="audience is immutable, since every token in flight is bound to it: create another RequestStateKey for another audience"
	Audience *string `json:"audience,omitempty"`

	// ttl is the lifetime of one token, and so the time that a person has to think in one round. Whole hours, minutes and seconds, from 10s to 24h.
	// Default: 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}[hms])+$') && duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="ttl must be from 10s to 24h, written in whole hours, minutes and seconds such as 10m or 1h30m"
	TTL *metav1.Duration `json:"ttl,omitempty"`

	// clockSkew is the largest difference expected between any two clocks of pods and managers. A token is accepted that much before and after
	// its time, and a key is kept twice that much longer. Whole minutes and seconds, from 0s to 5m. Default: 60s.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}[hms])+$') && duration(self) <= duration('5m')",message="clockSkew must be from 0s to 5m, written in whole minutes and seconds such as 60s"
	ClockSkew *metav1.Duration `json:"clockSkew,omitempty"`

	// kms names the key management service that wraps the data keys: exactly one of aws and age. A change of provider, key or recipients rotates onto
	// the new one.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.aws) || has(self.age)",message="kms names no provider: set exactly one of kms.aws and kms.age"
	// +kubebuilder:validation:XValidation:rule="!has(self.aws) || !has(self.age)",message="kms names two providers: set exactly one of kms.aws and kms.age; to move to another, change this field and a rotation follows"
	// +kubebuilder:validation:XValidation:rule="!has(self.aws) || self.aws.keyID.matches('^(arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:(key|alias)/[A-Za-z0-9:/_-]+|alias/[A-Za-z0-9:/_-]+|(mrk-[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}))$')",message="kms.aws.keyID must be the ARN of a key or alias (arn:aws:kms:REGION:ACCOUNT:key/ID), an alias (alias/NAME) or a key id",fieldPath=".aws.keyID"
	// +kubebuilder:validation:XValidation:rule="!has(self.aws) || !has(self.aws.region) || self.aws.region.matches('^[a-z]{2}[a-z0-9-]+$')",message="kms.aws.region must be the name of an AWS region such as eu-west-1, or be left out",fieldPath=".aws.region"
	// +kubebuilder:validation:XValidation:rule="!has(self.aws) || !has(self.aws.region) || !self.aws.keyID.startsWith('arn:') || self.aws.keyID.split(':')[3] == self.aws.region",message="kms.aws.region contradicts the region in kms.aws.keyID: leave region out, or make them agree",fieldPath=".aws.region"
	// +kubebuilder:validation:XValidation:rule="!has(self.age) || self.age.recipients.all(r, r.startsWith('age1'))",message="kms.age.recipients must be native age recipients (age1... or age1pq1...): ssh keys and passphrases are not supported, and an AGE-SECRET-KEY-... is the private half, which is now exposed; make an identity with kubectl requeststate init or age-keygen, and use its public key",fieldPath=".age.recipients"
	// +kubebuilder:validation:XValidation:rule="!has(self.age) || self.age.recipients.all(r, !r.startsWith('age1') || r.matches('^age1[02-9ac-hj-np-z]{58}$') || (r.startsWith('age1pq1') && r.size() > 1900))",message="kms.age.recipients: each must be a whole X25519 recipient (age1 and 58 characters) or a whole post-quantum recipient (age1pq1 and about 1,950 characters); plugin recipients (age1NAME1...) are not supported",fieldPath=".age.recipients"
	// +kubebuilder:validation:XValidation:rule="!has(self.age) || !has(self.age.identitySecret) || !has(self.age.identitySecret.key) || self.age.identitySecret.key.matches('^[-._a-zA-Z0-9]+$')",message="kms.age.identitySecret.key must be the name of an entry of the Secret, such as identity.txt",fieldPath=".age.identitySecret.key"
	// +kubebuilder:validation:XValidation:rule="!has(self.age) || self.age.recipients.all(r, r.startsWith('age1pq1')) || self.age.recipients.all(r, !r.startsWith('age1pq1'))",message="kms.age.recipients mixes X25519 (age1...) and post-quantum (age1pq1...) recipients: use one kind, since a file for both is only as strong as the weaker",fieldPath=".age.recipients"
	KMS KMSSpec `json:"kms"`

	// rotation says when the minting key is replaced.
	// +optional
	// +kubebuilder:default={}
	Rotation RotationSpec `json:"rotation,omitempty"`

	// revokedKeyIDs is for emergencies: the data keys named here leave the ring at once, whatever rounds are in flight under them, and never
	// return. A sidecar obeys it from the moment it sees it, even with the manager down. At most 64, each once.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	RevokedKeyIDs []KeyID `json:"revokedKeyIDs,omitempty"`

	// principal says whether, and how, the proxy binds a token to who made the request. A change ends the rounds in flight.
	// +optional
	// +kubebuilder:default={source: None}
	// +kubebuilder:validation:XValidation:rule="self.source != 'JWT' || has(self.jwt)",message="principal.source is JWT but principal.jwt is missing: set principal.jwt.issuer and principal.jwt.audiences",fieldPath=".jwt"
	// +kubebuilder:validation:XValidation:rule="self.source != 'Header' || has(self.header)",message="principal.source is Header but principal.header is missing: set principal.header.name and principal.header.trustedProxies",fieldPath=".header"
	// +kubebuilder:validation:XValidation:rule="self.source == 'JWT' || !has(self.jwt)",message="principal.jwt is set but principal.source is not JWT, so nothing would be bound: set source to JWT or remove jwt",fieldPath=".jwt"
	// +kubebuilder:validation:XValidation:rule="self.source == 'Header' || !has(self.header)",message="principal.header is set but principal.source is not Header, so nothing would be bound: set source to Header or remove header",fieldPath=".header"
	// +kubebuilder:validation:XValidation:rule="!has(self.jwt) || self.jwt.issuer.size() > 0",message="principal.jwt.issuer must not be empty: set the https URL of the OpenID Connect issuer",fieldPath=".jwt.issuer"
	// +kubebuilder:validation:XValidation:rule="!has(self.jwt) || self.jwt.issuer.size() == 0 || (isURL(self.jwt.issuer) && self.jwt.issuer.matches('^https://[^/?#@]+(/[^?#]*)?$'))",message="principal.jwt.issuer must be an https URL without user, query and fragment, as in the iss claim of the tokens",fieldPath=".jwt.issuer"
	// +kubebuilder:validation:XValidation:rule="!has(self.jwt) || !has(self.jwt.jwksURI) || (isURL(self.jwt.jwksURI) && url(self.jwt.jwksURI).getScheme() == 'https' && url(self.jwt.jwksURI).getHost() != '')",message="principal.jwt.jwksURI must be an https URL: leave it out to find it by OpenID Connect discovery",fieldPath=".jwt.jwksURI"
	// +kubebuilder:validation:XValidation:rule="!has(self.jwt) || ('iss' in self.jwt.claims && 'sub' in self.jwt.claims)",message="principal.jwt.claims must include iss and sub, since a subject is unique only within its issuer",fieldPath=".jwt.claims"
	// +kubebuilder:validation:XValidation:rule="!has(self.jwt) || self.jwt.claims.all(c, self.jwt.claims.exists_one(d, c == d))",message="principal.jwt.claims names a claim twice: name each once",fieldPath=".jwt.claims"
	// +kubebuilder:validation:XValidation:rule="!has(self.header) || self.header.name.matches('^[A-Za-z0-9-]+$')",message="principal.header.name must be a header name of letters, digits and '-', such as X-Forwarded-User",fieldPath=".header.name"
	// +kubebuilder:validation:XValidation:rule="!has(self.header) || self.header.trustedProxies.size() > 0",message="principal.header.trustedProxies must not be empty, since any client could then name any principal: list the CIDRs of the proxies that set the header",fieldPath=".header.trustedProxies"
	// +kubebuilder:validation:XValidation:rule="!has(self.header) || self.header.trustedProxies.all(p, isCIDR(p))",message="principal.header.trustedProxies must be CIDRs such as 10.0.0.0/8; write a single address as 10.0.0.1/32",fieldPath=".header.trustedProxies"
	Principal PrincipalSpec `json:"principal,omitempty"`

	// serviceAccountNames are the service accounts, in this namespace, whose pods may read this key's ring and write reports on it. From 1 to 32.
	// Default: [default].
	// +optional
	// +listType=set
	// +kubebuilder:default={default}
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="serviceAccountNames must not be empty, since no pod could read the ring: name the service accounts of the MCP server pods"
	// +kubebuilder:validation:XValidation:rule="self.all(n, n.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'))",message="serviceAccountNames must be names of service accounts in this namespace, such as default"
	ServiceAccountNames []string `json:"serviceAccountNames,omitempty"`
}

// RotationSpec says when the minting key is replaced.
type RotationSpec struct {
	// interval is the time from the end of one rotation to the start of the next. At least 2*(ttl+clockSkew), at most 87600h; 0s: only on request.
	// Default: 720h (30 days).
	// +optional
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}[hms])+$') && duration(self) <= duration('87600h')",message="rotation.interval must be at most 87600h, written in whole hours, minutes and seconds such as 720h, or 0s to rotate only on request"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// paused keeps new rotations from starting; one that is under way goes on, and a revocation acts all the same. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// stallAfter is how long a phase may wait for a consumer before the Stalled condition names it. It changes nothing else: a silent consumer
	// holds a phase for ever. From 1s to 168h. Default: 15m.
	// +optional
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}[hms])+$') && duration(self) >= duration('1s') && duration(self) <= duration('168h')",message="rotation.stallAfter must be from 1s to 168h, written in whole hours, minutes and seconds such as 15m"
	StallAfter *metav1.Duration `json:"stallAfter,omitempty"`
}

// KMSSpec names the key management service that wraps data keys. Exactly one field is set. Endpoints, roles and credentials never stand here: they come
// from the configuration of the process that calls the KMS.
type KMSSpec struct {
	// aws wraps with a symmetric key of AWS KMS. The controller needs kms:GenerateDataKeyWithoutPlaintext on it, the pods kms:Decrypt.
	// +optional
	AWS *AWSKMSSpec `json:"aws,omitempty"`

	// age encrypts to age recipients (https://age-encryption.org/v1). The controller needs only the recipients, which are public; the pods need the
	// identity, mounted from a Secret. No cloud is needed.
	// +optional
	Age *AgeKMSSpec `json:"age,omitempty"`
}

// AWSKMSSpec names a key of AWS KMS.
type AWSKMSSpec struct {
	// keyID is the ARN of a key or an alias, an alias ("alias/NAME") or a key id. An alias is resolved once, when a data key is wrapped, and the ARN
	// is stored beside it: pointing the alias elsewhere triggers no rotation. At most 512 characters.
	// +required
	// +kubebuilder:validation:MaxLength=512
	KeyID string `json:"keyID"`

	// region is the AWS region of the key. Default: the region in keyID's ARN, else the region of the process's own AWS configuration. At most 64 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`
}

// AgeKMSSpec names the recipients to whom data keys are encrypted.
type AgeKMSSpec struct {
	// recipients are public age recipients, all X25519 ("age1...") or all post-quantum hybrid ("age1pq1..."). Any one of the matching identities opens
	// the ring. From 1 to 16, each once, each at most 2048 characters.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=2048
	Recipients []string `json:"recipients"`

	// identitySecret names the Secret, in this namespace, that holds the age identity. Only injection reads this name, to mount the Secret into
	// the pods' sidecars; the controller never reads a Secret.
	// +optional
	IdentitySecret *SecretKeyReference `json:"identitySecret,omitempty"`
}

// SecretKeyReference names one entry of a Secret in the same namespace.
type SecretKeyReference struct {
	// name is the Secret's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key is the entry within the Secret. Default: identity.txt.
	// +optional
	// +kubebuilder:default="identity.txt"
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// PrincipalSource says where the proxy finds out who made a request.
//
// +kubebuilder:validation:Enum=None;JWT;Header
type PrincipalSource string

// The principal sources.
const (
	// PrincipalNone binds no principal: whoever holds a token can use it.
	PrincipalNone PrincipalSource = "None"
	// PrincipalJWT binds to claims of the bearer token in the Authorization header.
	PrincipalJWT PrincipalSource = "JWT"
	// PrincipalHeader binds to a header that a trusted proxy sets.
	PrincipalHeader PrincipalSource = "Header"
)

// PrincipalSpec says whether, and how, the proxy binds a token to who made the request.
type PrincipalSpec struct {
	// source is None, JWT or Header. Default: None, so that a token is bound to no principal.
	// +optional
	// +kubebuilder:default=None
	Source PrincipalSource `json:"source,omitempty"`

	// required refuses to seal or open for a request without a principal; false binds to the principal where there is one. Ignored for source None.
	// Default: true.
	// +optional
	// +kubebuilder:default=true
	Required *bool `json:"required,omitempty"`

	// jwt is set exactly if source is JWT.
	// +optional
	JWT *JWTPrincipalSpec `json:"jwt,omitempty"`

	// header is set exactly if source is Header.
	// +optional
	Header *HeaderPrincipalSpec `json:"header,omitempty"`
}

// JWTPrincipalSpec says which bearer tokens are trusted and which of their claims make the principal.
type JWTPrincipalSpec struct {
	// issuer is the https URL of the OpenID Connect issuer, exactly as in the iss claim. At most 512 characters.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer"`

	// audiences are the values of the aud claim of which a token must have one. From 1 to 16, each at most 256 characters.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Audiences []string `json:"audiences"`

	// jwksURI is the https URL of the issuer's keys. Default: found by OpenID Connect discovery. At most 512 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	JWKSURI *string `json:"jwksURI,omitempty"`

	// caBundle holds PEM certificates that vouch for issuer and jwksURI, instead of the system's. At most 64 KiB in base64.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
	CABundle []byte `json:"caBundle,omitempty"`

	// claims make the principal, in this order; a claim that a token lacks counts as null, but iss and sub must be present. From 2 to 16 names, each
	// at most 64 characters. Default: [iss, sub, client_id].
	// +optional
	// +listType=atomic
	// +kubebuilder:default={iss,sub,client_id}
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Claims []string `json:"claims,omitempty"`
}

// HeaderPrincipalSpec says which header names the principal and which peers may set it.
type HeaderPrincipalSpec struct {
	// name is the header's name, such as X-Forwarded-User. At most 64 characters.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`

	// trustedProxies are the CIDRs of the TCP peers whose header counts; from any other peer it is removed. From 1 to 32, no default.
	// +required
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	TrustedProxies []string `json:"trustedProxies"`
}
