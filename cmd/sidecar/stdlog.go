package main

import (
	"bytes"
	"log"
	"log/slog"
)

// A stdLog takes what libraries write to the standard logger and drops the text: net/http.Transport quotes there what a server sent beyond its answer, and that
// can be a message with a state in plain text.
type stdLog struct{ logger *slog.Logger }

// silenceStdLog takes over the standard logger. slog's default logger writes there too, so it is silenced with it; slog.SetDefault must not be called, since
// it would give the standard logger an output of its own, text and all.
func silenceStdLog(logger *slog.Logger) {
	log.SetFlags(0)
	log.SetPrefix("")
	log.SetOutput(&stdLog{logger: logger})
}

// Write logs a line that says no more than that there was one.
func (l *stdLog) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("Unsolicited response received on idle HTTP channel")) {
		l.logger.Warn("a server sent more than its answer: a body where there is none, or one longer than its Content-Length; the rest was dropped")
		return len(p), nil
	}
	l.logger.Warn("a library wrote to the standard log; its words are left out, since they may quote a message")
	return len(p), nil
}
