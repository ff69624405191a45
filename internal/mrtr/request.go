package mrtr

import (
	"errors"
	"net/http"
	"unicode/utf8"
)

// An Edit replaces the bytes [Start, End) of a text by Text.
type Edit struct {
	Start, End int
	Text       []byte
}

// Replace returns text with the edits made, which are in order and do not
// overlap. Without edits it returns text itself.
func Replace(text []byte, edits ...Edit) []byte {
	if len(edits) == 0 {
		return text
	}
	size := len(text)
	for _, e := range edits {
		size += len(e.Text) - (e.End - e.Start)
	}
	out := make([]byte, 0, size)
	pos := 0
	for _, e := range edits {
		out = append(append(out, text[pos:e.Start]...), e.Text...)
		pos = e.End
	}
	return append(out, text[pos:]...)
}

// A Request is a body that may be forwarded: one message or a batch, judged.
type Request struct {
	// ID is the id of a single message exactly as written, to answer it with;
	// nil in a batch, and where there is no id or no telling which it is.
	ID []byte
	// Batch is true if the body is an array.
	Batch bool
	// Carriers are the messages that can carry a requestState, in order.
	Carriers []Carrier
}

// A Carrier is a tools/call, prompts/get or resources/read.
type Carrier struct {
	ID     []byte   // exactly as written; nil for a notification
	Method string   // one of the three methods
	Target []byte   // name or uri, as WTF-8; empty if absent
	Digest [32]byte // RequestDigest of method, target and arguments
	// State is the requestState as WTF-8, nil if absent: at most one per
	// body, since no batch may carry one. An empty state is not nil.
	State []byte

	state span
	key   string
}

// WithState returns the edit that exchanges the carrier's requestState in its
// body for the given WTF-8 text. The carrier has a state.
func (c *Carrier) WithState(state []byte) Edit {
	return Edit{c.state.start, c.state.end, AppendString(nil, state)}
}

// maxBatchCarriers bounds what is remembered of a batch: each carrier is smaller on the
// wire than here.
const maxBatchCarriers = 1000

// ParseRequest judges the body of a request. It fails with an *Error if the body
// is not exactly one JSON value in UTF-8, or if any message in it could be a
// carrier that two parsers read differently, a batch within a batch among them.
// Messages that are not carriers are not judged. No more than maxDepth arrays and
// objects may be open at once; it is at most MaxDepth. The result aliases body.
func ParseRequest(body []byte, maxDepth int) (*Request, error) {
	if !utf8.Valid(body) {
		return nil, notJSON("not UTF-8")
	}
	root, err := scanText(body, 0, min(maxDepth, MaxDepth))
	if errors.Is(err, errDepth) {
		return nil, invalid(nil, "more arrays and objects are open at once than is allowed")
	}
	if err != nil {
		return nil, notJSON("not exactly one JSON value")
	}
	r := &Request{Batch: isArray(root.of(body))}
	if !r.Batch {
		return r, r.judgeSingle(body, root)
	}
	for message := range elements(body, root) {
		if isArray(message.of(body)) {
			return nil, invalid(nil, "a batch in a batch")
		}
		carrier, _, err := judge(body, message)
		if err != nil {
			return nil, err
		}
		if carrier == nil {
			continue
		}
		if carrier.State != nil {
			return nil, invalid(carrier.ID, "requestState in a batch")
		}
		if r.Carriers = append(r.Carriers, *carrier); len(r.Carriers) > maxBatchCarriers {
			return nil, invalid(nil, "too many carriers in a batch")
		}
	}
	return r, nil
}

func (r *Request) judgeSingle(body []byte, root span) error {
	carrier, id, err := judge(body, root)
	if err != nil {
		return err
	}
	r.ID = id
	if carrier != nil {
		r.Carriers = []Carrier{*carrier}
	}
	return nil
}

func notJSON(message string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: CodeParse, Message: message}
}
