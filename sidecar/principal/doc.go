// Package principal tells who makes a request, so that the proxy can bind a token to whoever it was sealed for.
//
// A principal comes from the claims of a verified bearer token ([v1alpha1.PrincipalJWT]) or from a header that a trusted proxy sets
// ([v1alpha1.PrincipalHeader]). Three cases are told apart: it is present; it is absent, since the request says nothing of it; or it has failed,
// since the request says something that cannot be believed, or that nobody could verify. Only absence can leave a token unbound, and only if
// spec.principal.required is false: else whoever strips or garbles a credential would be somebody else.
//
// Nothing here decides what a request may do: that is the server's task. What is read is read once and exactly: two lines, two members of one name,
// or two spellings of one token are refused rather than resolved, since the server behind might resolve them otherwise.
//
// No error and no log line holds a credential, a claim, a header's value, or anything that an issuer sent.
package principal
