package kms

import "errors"

// Class says what a failure asks for. In none of them does a running sidecar
// stop: it serves the ring that it holds.
type Class string

// The classes of failure.
const (
	// Retry: nothing is wrong that waiting does not mend. Try again, with
	// back-off and jitter.
	Retry Class = "retry"
	// Alert: configuration or rights are wrong. Keep serving, tell somebody,
	// and try again slowly.
	Alert Class = "alert"
	// KeyOnly: this wrapped key does not unwrap and will not; others may.
	KeyOnly Class = "key_only"
)

// Codes of errors that no service reports but this project's own code finds.
const (
	CodeContextMismatch  = "ContextMismatch"
	CodeWrongIdentity    = "WrongIdentity"
	CodeTampered         = "Tampered"
	CodeInvalidContext   = "InvalidContext"
	CodeInvalidRecipient = "InvalidRecipient"
	CodeInvalidIdentity  = "InvalidIdentity"
	CodeFIPS             = "NotUnderFIPS"
	CodeNotAllowed       = "NotAllowed"
	CodeInvalidSpec      = "InvalidSpec"
	CodeTimeout          = "Timeout"
	CodeOutage           = "Outage"
	CodeCredentials      = "NoCredentials"
	CodeNetwork          = "Network"
	CodeClient           = "ClientConfiguration"
	CodeUnexpected       = "UnexpectedAnswer"
)

// An Error is a failure of a KMS or of the material given to it. Its text is
// fit for a status that others read: it names the operation, the code and what
// to do, and carries no key, no identity and no text that a service or a file
// supplied. That text is in the wrapped error, for the process's own log.
type Error struct {
	// Class says what to do about it.
	Class Class
	// Op is what was attempted, such as "aws Decrypt".
	Op string
	// Code is one word: the service's error code or one of the codes above.
	Code string
	// Remedy says in words what to do.
	Remedy string

	err error
}

// NewError returns an Error that wraps err, which may be nil.
func NewError(class Class, op, code, remedy string, err error) *Error {
	return &Error{Class: class, Op: op, Code: code, Remedy: remedy, err: err}
}

// Error returns operation, code and remedy.
func (e *Error) Error() string { return e.Op + ": " + e.Code + ": " + e.Remedy }

// Unwrap returns the underlying error, whose text may hold whatever a service
// said; nil if there is none.
func (e *Error) Unwrap() error { return e.err }

// ClassOf returns the class of the [*Error] in err's chain. An error that is
// none, such as a context's end, is [Retry].
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Retry
}

// CodeOf returns a label for metrics: "OK" for nil, the code of the [*Error]
// in err's chain, or else "Error".
func CodeOf(err error) string {
	var e *Error
	switch {
	case err == nil:
		return "OK"
	case errors.As(err, &e):
		return e.Code
	default:
		return "Error"
	}
}
