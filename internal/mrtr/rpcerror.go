package mrtr

import (
	"net/http"
	"strconv"
)

// JSON-RPC error codes of the proxy's own answers.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeInternal       = -32603
)

// refusalError is the one refusal of a requestState, whatever the cause.
const refusalError = `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`

// An Error is the verdict on a message that must not be forwarded. It never
// quotes the message, save for the id that it answers.
type Error struct {
	Status  int    // HTTP status
	Code    int    // JSON-RPC error code
	Message string // names the rule; one of a fixed set
	ID      []byte // the request's id exactly as written; nil if unknown
}

// Error returns the rule that was broken.
func (e *Error) Error() string { return "mrtr: " + e.Message }

// Body returns the JSON-RPC error response.
func (e *Error) Body() []byte { return ErrorBody(e.ID, e.Code, e.Message) }

func invalid(id []byte, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: CodeInvalidRequest, Message: message, ID: id}
}

// ErrorBody returns a JSON-RPC error response. The id is raw JSON, nil for null.
func ErrorBody(id []byte, code int, message string) []byte {
	object := append([]byte(`{"code":`), strconv.Itoa(code)...)
	object = AppendString(append(object, `,"message":`...), []byte(message))
	return errorResponse(id, append(object, '}'))
}

// RefusalBody returns the response to a request whose requestState was refused.
// It is the same for every cause. The id is raw JSON, nil for null.
func RefusalBody(id []byte) []byte { return errorResponse(id, []byte(refusalError)) }

// InternalBody returns the response that stands in for one whose requestState
// could not be sealed. The id is raw JSON, nil for null.
func InternalBody(id []byte) []byte { return ErrorBody(id, CodeInternal, "Internal error") }

func errorResponse(id, object []byte) []byte {
	if id == nil {
		id = []byte("null")
	}
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(append(body, `,"error":`...), object...)
	return append(body, '}')
}
