// Package proxy is the reverse proxy in front of an MCP server that writes its
// requestState in plain text. It opens the state of tools/call, prompts/get and
// resources/read before they reach the server, and seals the state in their
// answers, JSON or event stream, before they reach the client. Outside that one
// string, bodies pass byte for byte.
//
// The message decides, never the protocol version, a header or a session. What
// the proxy does not understand it does not forward: a request whose body it
// could read otherwise than the server does, an answer that it cannot judge.
//
// Nothing that the proxy logs holds a token, a state, a principal or an argument.
package proxy
