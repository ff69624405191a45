package agent

// maxComplaints bounds the texts that are remembered of one message. A ring has fewer keys.
const maxComplaints = 64

// Complaints are the failures that were logged and have not passed: texts by message.
type complaints map[string]map[string]bool

// isNew tells whether a failure was not remembered, and remembers it.
func (c complaints) isNew(message, text string) bool {
	if c[message][text] {
		return false
	}
	if c[message] == nil || len(c[message]) >= maxComplaints {
		c[message] = map[string]bool{}
	}
	c[message][text] = true
	return true
}

// What is complained of. What failed in another way is another text of the same message.
const (
	complaintKey     = "the key cannot be read"
	complaintNoRing  = "there is no ring to read"
	complaintLook    = "the report cannot be read"
	complaintReport  = "writing the report failed"
	complaintUnwrap  = "a key does not unwrap"
	complaintNotHeld = "a ring cannot be taken up"
)

// complain logs a failure, but not one that it has logged since the last success, however many others came between.
func (a *Agent) complain(message, key, text string) {
	if a.complaints.isNew(message, text) {
		a.Logger.Warn(message, key, text)
	}
}

// succeeded forgets the complaints that a success has settled, so that the next failure is logged.
func (a *Agent) succeeded(messages ...string) {
	for _, message := range messages {
		delete(a.complaints, message)
	}
}
