// Package codec seals and opens requestState for servers that have a hook of
// their own for it: two calls, HTTP/1.1 and JSON, on a unix socket. Whoever can
// reach the socket may call: the mount is the access control. openapi.yaml
// describes the calls; the handler serves it.
//
// The codec binds a token to what its caller passes, and to nothing else. A call
// is read strictly, since one that two parsers read differently would be bound to
// something else than the caller meant: unknown members, a name twice or in
// another case, and values of another type are errors. Strings keep lone
// surrogates; they are handled as WTF-8, see package mrtr.
//
// A token that does not open gets one answer, whatever the cause. No error and no
// log line holds anything of a call: messages come from a fixed set, and the
// fields that they name are those of the API.
package codec
