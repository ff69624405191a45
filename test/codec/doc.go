// Package codec holds the codec's handlers to their OpenAPI document: real calls
// over a real socket, judged by an implementation of OpenAPI that the project
// itself must not depend on.
package codec
