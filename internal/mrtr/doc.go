// Package mrtr knows the wire of MCP's Multi Round-Trip Requests: which
// messages can carry a requestState, what a request is bound to, and how to
// exchange that one string in a JSON message or an event stream while every
// other byte stays as it came.
//
// It is pure: it opens and seals nothing itself, serves no HTTP and reads no
// clock. A proxy gives it bodies and a callback that seals, and obeys the
// verdicts.
//
// It has its own JSON scanner because the standard decoder replaces lone
// surrogates and invalid UTF-8 by U+FFFD, matches names without regard to case
// and lets the last of two duplicates win. Each of these would let two parsers
// read the same message differently, and what was checked would not be what
// is obeyed.
//
// Strings are handled as WTF-8: UTF-8 in which a surrogate that JSON's \u
// escapes left alone is encoded by itself, in three bytes.
package mrtr
