package server

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// harmless are how lines of http.Server begin that hold nothing of what peers sent,
// and the level that each deserves.
var harmless = map[string]slog.Level{
	"http: Accept error: ":                 slog.LevelWarn,
	"http: superfluous response.":          slog.LevelDebug,
	"http: response.WriteHeader on hijack": slog.LevelDebug,
	"http: response.Write on hijack":       slog.LevelDebug,
}

// An errorLog passes on what http.Server has to say, save for what might quote a peer: header values, and what a panic was about.
type errorLog struct {
	port   string
	logger *slog.Logger
}

func newErrorLog(port string, logger *slog.Logger) *log.Logger {
	return log.New(&errorLog{port: port, logger: logger}, "", 0)
}

// Write logs one line of http.Server, or something in its place.
func (e *errorLog) Write(p []byte) (int, error) {
	text := strings.TrimSuffix(string(p), "\n")
	ctx := context.Background()
	if strings.HasPrefix(text, "http: panic serving ") {
		// The trace comes last, and of values it holds addresses only.
		_, trace, _ := cutLast(text, "\ngoroutine ")
		e.logger.ErrorContext(ctx, "panic while answering", "port", e.port, "stack", trace)
		return len(p), nil
	}
	for prefix, level := range harmless {
		if strings.HasPrefix(text, prefix) {
			e.logger.Log(ctx, level, text, "port", e.port)
			return len(p), nil
		}
	}
	e.logger.DebugContext(ctx, "an exchange was not in order; net/http's words are left out, since they may quote it", "port", e.port)
	return len(p), nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}
