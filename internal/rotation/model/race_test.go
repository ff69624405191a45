//go:build race

package model

// raced tells that the race detector is on. It makes a search some twenty times slower, and the searches have little to show it.
const raced = true
