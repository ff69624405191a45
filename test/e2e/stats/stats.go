// Package stats is what the clients of the end-to-end tests have counted.
package stats

// Stats are the counts of all clients of one pod since it started.
type Stats struct {
	// Rounds are calls of two rounds that ended well.
	Rounds int `json:"rounds"`
	// Refused are answers that were JSON-RPC errors; Failed are results that were wrong, and whatever else is no answer to the call.
	Refused int `json:"refused"`
	Failed  int `json:"failed"`
	// Broken are connections that could not be had or broke, and answers of status 503: of a sidecar that was killed, is starting again and has not joined yet.
	Broken int `json:"broken"`
	// Crossed counts the rounds by "who asked>who acted".
	Crossed map[string]int `json:"crossed"`
	// Errors are the first 5 of each kind, with the time.
	Errors []string `json:"errors,omitempty"`
}

// Bad is the number of calls that did not end well.
func (s Stats) Bad() int { return s.Refused + s.Failed + s.Broken }
