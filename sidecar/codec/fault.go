package codec

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/requeststate/operator/internal/mrtr"
)

// A fault is why a call was not carried out. It holds nothing of the call: its
// texts are from this file, and its field is one of the API's own names.
type fault struct {
	status  int
	message string // what is wrong, and what to do about it
	field   string // the member of the call that is at fault; empty if it is none in particular
	allow   string // for a 405: the method that there is
}

func invalid(field, message string) *fault {
	return &fault{status: http.StatusBadRequest, message: message, field: field}
}

func unavailable(message string) *fault {
	return &fault{status: http.StatusServiceUnavailable, message: message}
}

// What is wrong with the request.
func noSuchPath() *fault {
	return &fault{status: http.StatusNotFound, message: "no such path; there are POST /v1/seal, POST /v1/unseal and GET /openapi.yaml"}
}

func wrongMethod(allow string) *fault {
	return &fault{status: http.StatusMethodNotAllowed, message: "wrong method; use " + allow, allow: allow}
}

func hasQuery() *fault {
	return invalid("", "a call has no query; put everything into the body")
}

func wrongType() *fault {
	return &fault{status: http.StatusUnsupportedMediaType, message: "Content-Type must be application/json, once, with no charset or utf-8"}
}

func wrongEncoding() *fault {
	return &fault{status: http.StatusUnsupportedMediaType, message: "Content-Encoding must be identity; send the body uncompressed"}
}

func bodyTooLarge(limit int64) *fault {
	return &fault{status: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("the body has more than the %d bytes that --max-body-bytes allows", limit)}
}

func bodyTooSlow(limit time.Duration) *fault {
	return &fault{status: http.StatusRequestTimeout, message: fmt.Sprintf("the body did not come within %s; send it at once", limit)}
}

func bodyBroken() *fault {
	return invalid("", "the body could not be read to its end")
}

// What keeps the codec from answering.
func notReady() *fault {
	return unavailable("no key ring is in use; try again, and see /readyz on --health-listen for the cause")
}

func busy() *fault { return unavailable("too many calls at a time; try again") }

func noMintingKey() *fault {
	return unavailable("the minting key has been revoked, and nothing is sealed until the key ring moves on; try again")
}

func internal(message string) *fault {
	return &fault{status: http.StatusInternalServerError, message: message + "; the log of the sidecar says why"}
}

// What is wrong with the body.

// unreadable says why a body could not be read as an object. known are the
// members that it may have.
func unreadable(err error, known []string) *fault {
	switch {
	case errors.Is(err, mrtr.ErrUTF8):
		return invalid("", "the body is not UTF-8; a lone surrogate is written as an escape")
	case errors.Is(err, mrtr.ErrDepth):
		return invalid("", "the body nests too deeply; arguments may have up to 512 arrays and objects open at once")
	case errors.Is(err, mrtr.ErrNotObject):
		return invalid("", "the body must be a JSON object")
	case errors.Is(err, mrtr.ErrTooManyMembers):
		return unknownMember(known)
	case errors.Is(err, mrtr.ErrDuplicate):
		return invalid("", "a member occurs twice; give each name once")
	default:
		return invalid("", "the body must be exactly one JSON value, without a byte order mark")
	}
}

func unknownMember(known []string) *fault {
	return invalid("", "a member is unknown; this call has "+strings.Join(known, ", "))
}

func otherCase(name string) *fault {
	return invalid(name, "a member differs from "+name+" only by case; write it exactly so")
}

func notString(name string) *fault { return invalid(name, name+" must be a string") }

func emptyString(name string) *fault {
	return invalid(name, name+" must not be empty; leave it out if there is none")
}

func needsMethod(name string) *fault {
	return invalid(name, name+" needs method; give the method too, or leave both out")
}

func tokenMissing() *fault { return invalid(memberToken, "token is missing") }

func stateMissing() *fault {
	return invalid(memberState, "state is missing; give state or stateBase64")
}

func stateTwice() *fault {
	return invalid(memberStateBase64, "state and stateBase64 exclude each other; give one of them")
}

func notBase64() *fault {
	return invalid(memberStateBase64, "stateBase64 must be canonical base64 of RFC 4648 section 4: the alphabet with + and /, padded, no line breaks, no stray bits at the end")
}

func stateTooLarge(field string, limit int) *fault {
	return &fault{
		status: http.StatusRequestEntityTooLarge, field: field,
		message: fmt.Sprintf("the state has more than the %d bytes that --max-state-bytes allows; keep large things on the server, and a reference to them in the state", limit),
	}
}

// noCanonicalForm says why arguments cannot be bound to.
func noCanonicalForm(err error) *fault {
	why := "have no canonical form"
	switch {
	case errors.Is(err, mrtr.ErrDuplicate):
		why = "have an object with one name twice, under whatever spelling"
	case errors.Is(err, mrtr.ErrDepth):
		why = "have more than 512 arrays and objects open at once"
	case errors.Is(err, mrtr.ErrExponent):
		why = "have a number whose exponent is beyond 64 bits"
	}
	return invalid(memberArguments, "arguments "+why+"; what two parsers could read differently binds nothing")
}
