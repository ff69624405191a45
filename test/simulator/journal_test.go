package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/requeststate/operator/api/v1alpha1"
)

// A journal is the story that a scenario tells: one line an event.
type journal struct {
	clock func() time.Duration
	quiet func(actor string) bool // of whom it tells nothing; nil: of nobody

	mu      sync.Mutex
	text    strings.Builder
	names   map[string]string // of random ids
	keys    int
	epochs  int
	pending *written
}

// written is a write of status whose reason the controller has yet to say.
type written struct {
	actor, what, state, why string
}

func newJournal(clock func() time.Duration) *journal {
	return &journal{clock: clock, names: map[string]string{}}
}

var randomID = regexp.MustCompile(`\b[0-9a-f]{16}\b`)

func (j *journal) add(actor, what, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.line(actor, what, why)
}

func (j *journal) line(actor, what, why string) {
	if j.quiet != nil && j.quiet(actor) {
		return
	}
	at := j.clock()
	line := fmt.Sprintf("%02d:%02d:%06.3f  %-12s  %-13s %s", int(at.Hours()), int(at.Minutes())%60, (at % time.Minute).Seconds(), actor, what, why)
	line = randomID.ReplaceAllStringFunc(line, func(id string) string {
		if name, ok := j.names[id]; ok {
			return name
		}
		return id
	})
	j.text.WriteString(strings.TrimRight(line, " ") + "\n")
}

// key returns the name of a data key in the journal, which is given when it is first asked for.
func (j *journal) key(id string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.names[id] == "" {
		j.keys++
		j.names[id] = fmt.Sprintf("k%d", j.keys)
	}
	return j.names[id]
}

// epoch is the same for epochs.
func (j *journal) epoch(id string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.names[id] == "" {
		j.epochs++
		j.names[id] = fmt.Sprintf("e%d", j.epochs)
	}
	return j.names[id]
}

// wrote notes a write of status. Its line is complete once the controller has said why, at the same instant, or has said nothing.
func (j *journal) wrote(actor string, key *v1alpha1.RequestStateKey) {
	state, why := j.state(key), "counts and conditions"
	for _, kind := range []string{v1alpha1.ConditionConsumersCurrent, v1alpha1.ConditionReconciling, v1alpha1.ConditionKMSAvailable, v1alpha1.ConditionStalled} {
		if c := meta.FindStatusCondition(key.Status.Conditions, kind); c != nil && c.Reason != v1alpha1.ReasonKMSAvailable {
			why = c.Reason + ": " + c.Message
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending = &written{actor: actor, what: "status", state: state, why: why}
}

// explain adds what the controller says of its write.
func (j *journal) explain(actor, step, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.pending; p != nil && p.actor == actor {
		p.what, p.why = step, why
	}
}

// flush completes the line of a write of status.
func (j *journal) flush() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.pending; p != nil {
		j.pending = nil
		j.line(p.actor, p.what, p.state+" -- "+p.why)
	}
}

// state describes a ring and who acknowledges it.
func (j *journal) state(key *v1alpha1.RequestStateKey) string {
	s := &key.Status
	if s.Keyring == nil {
		return "no ring"
	}
	var verify []string
	for i := range s.Keyring.Keys {
		verify = append(verify, j.key(s.Keyring.Keys[i].ID))
	}
	consumers := ""
	if s.Consumers != nil {
		consumers = "; consumers " + s.Consumers.Summary
	}
	return fmt.Sprintf("%s/%d %s: %s mints; %s verify%s", j.epoch(s.Keyring.Epoch), s.Keyring.Generation, s.Phase,
		j.key(s.Keyring.MintingKeyID), strings.Join(verify, " "), consumers)
}

// An auditSink takes from the controller's log what it says of its writes.
type auditSink struct {
	journal *journal
	actor   string
}

// Init does nothing.
func (s *auditSink) Init(logr.RuntimeInfo) {}

// Enabled leaves out what is for debugging.
func (s *auditSink) Enabled(level int) bool { return level == 0 }

// Info takes the audit line.
func (s *auditSink) Info(_ int, message string, fields ...any) {
	if message != "ring changed" && message != "ring bookkeeping" {
		return
	}
	said := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		said[fmt.Sprint(fields[i])] = fmt.Sprint(fields[i+1])
	}
	s.journal.explain(s.actor, said["step"], said["why"])
}

// Error does nothing: what fails is in the journal already.
func (s *auditSink) Error(error, string, ...any) {}

// WithValues and WithName change nothing.
func (s *auditSink) WithValues(...any) logr.LogSink { return s }

// WithName changes nothing.
func (s *auditSink) WithName(string) logr.LogSink { return s }

// An agentHandler writes an agent's log into the journal, while its process lives.
type agentHandler struct {
	journal *journal
	actor   string
	ended   context.Context
}

// Enabled tells whether the process lives: what a dead one would still say depends on which of its goroutines ends first.
func (h *agentHandler) Enabled(context.Context, slog.Level) bool { return h.ended.Err() == nil }

// Handle writes one line.
func (h *agentHandler) Handle(_ context.Context, r slog.Record) error {
	said := map[string]slog.Value{}
	var rest []string
	r.Attrs(func(a slog.Attr) bool {
		said[a.Key] = a.Value
		rest = append(rest, a.Value.String())
		return true
	})
	switch r.Message {
	case "reported": // the API server's side of it is in the journal
	case "ring in memory":
		h.journal.add(h.actor, "takes up", fmt.Sprintf("%s/%d: %s mints", h.journal.epoch(said["epoch"].String()), said["generation"].Int64(), h.journal.key(said["mintingKeyID"].String())))
	case "joined: serving begins":
		h.journal.add(h.actor, "ready", fmt.Sprintf("a second read still shows generation %d: it serves", said["generation"].Int64()))
	case "keys forgotten":
		h.journal.add(h.actor, "forgets", strings.Trim(strings.Join(rest, " "), "[]"))
	default:
		h.journal.add(h.actor, "note", r.Message+": "+strings.Join(rest, " "))
	}
	return nil
}

// WithAttrs and WithGroup change nothing.
func (h *agentHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup changes nothing.
func (h *agentHandler) WithGroup(string) slog.Handler { return h }
