package main

import (
	"context"

	"github.com/go-logr/logr"
)

// orderly gives controller-runtime a logger that does not call the end of the leadership an error once ctx has ended. controller-runtime 0.25 always says
// "leader election lost" while it stops, and whether it is still written depends on how fast the process ends. A Lease that is lost before that ends the manager with
// this error, which main writes.
func orderly(ctx context.Context, logger logr.Logger) logr.Logger {
	return logger.WithSink(stoppingSink{LogSink: logger.GetSink(), stopping: ctx})
}

const leadershipEnded = "leader election lost" // the text in controller-runtime's manager, which has no type for it

type stoppingSink struct {
	logr.LogSink
	stopping context.Context
}

func (s stoppingSink) Error(err error, message string, keysAndValues ...any) {
	if err != nil && err.Error() == leadershipEnded && s.stopping.Err() != nil {
		return
	}
	s.LogSink.Error(err, message, keysAndValues...)
}

func (s stoppingSink) WithValues(keysAndValues ...any) logr.LogSink {
	return stoppingSink{LogSink: s.LogSink.WithValues(keysAndValues...), stopping: s.stopping}
}

func (s stoppingSink) WithName(name string) logr.LogSink {
	return stoppingSink{LogSink: s.LogSink.WithName(name), stopping: s.stopping}
}
