package keyfile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/sidecar/agent"
)

// DefaultPoll is the time between two looks at the file.
const DefaultPoll = time.Second

// A file that was never in a cluster has no UID, yet there it is.
const noUID = "file"

// A Source is an agent.Source that reads a file. It writes no report. It is safe for concurrent use.
type Source struct {
	path   string
	poll   time.Duration
	logger *slog.Logger

	mu  sync.Mutex
	key types.NamespacedName
}

var _ agent.Source = (*Source)(nil)

// New returns a Source for the file at path. poll is the time between two looks at it; 0 means DefaultPoll. A nil logger discards.
func New(path string, poll time.Duration, logger *slog.Logger) *Source {
	if poll <= 0 {
		poll = DefaultPoll
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Source{path: path, poll: poll, logger: logger}
}

// Key returns the name of the key in the file, once Get has read it.
func (s *Source) Key() types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key
}

// Get reads the file. Each of its errors is an *agent.Unreadable.
func (s *Source) Get(context.Context) (rotation.View, error) {
	view, err := s.view()
	if err != nil {
		return rotation.View{}, &agent.Unreadable{Message: "--key-file: " + err.Error()}
	}
	return view, nil
}

func (s *Source) view() (rotation.View, error) {
	text, err := s.read()
	if err != nil {
		return rotation.View{}, err
	}
	key, err := Parse(text)
	if err != nil {
		return rotation.View{}, err
	}
	if key.UID == "" {
		key.UID = noUID
	}
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != (types.NamespacedName{}) && s.key != name {
		return rotation.View{}, errors.New("it now holds another key than at the start: restart the sidecar to serve that one")
	}
	s.key = name
	return rotation.ViewOf(key), nil
}

func (s *Source) read() ([]byte, error) {
	// Before opening: that of a pipe might never return.
	if info, err := os.Stat(s.path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(s.path)
	if err != nil {
		return nil, errors.New("it cannot be opened: check the path and the file's permissions")
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, errors.New("it cannot be read")
	}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxBytes)
	}
	return text, nil
}

// digest tells one content of the file from another, and from none. Times of change are too coarse for that on some file systems.
func (s *Source) digest() [sha256.Size]byte {
	text, err := s.read()
	if err != nil {
		return sha256.Sum256([]byte(err.Error()))
	}
	return sha256.Sum256(text)
}

// Watch shows what the file becomes, once it has stayed the same from one look to the next: a file that is being written is not yet what it will be. What it
// is at the start is shown too, since it may have changed between Get and Watch.
func (s *Source) Watch(ctx context.Context, seen func(rotation.View)) {
	ticker := time.NewTicker(s.poll)
	defer ticker.Stop()
	var looks looks
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !looks.settledAnew(s.digest()) {
			continue
		}
		view, err := s.view()
		if err != nil {
			s.logger.Error("--key-file is not a ring that can be used; if one was read before, it stays in use", "cause", err.Error())
			continue
		}
		seen(view)
	}
}

// looks are what was found at the file, by digest.
type looks struct {
	last, settled [sha256.Size]byte
}

// settledAnew tells whether the file has stayed the same since the last look and differs from what it last settled on.
func (l *looks) settledAnew(now [sha256.Size]byte) bool {
	same := now == l.last
	l.last = now
	if !same || now == l.settled {
		return false
	}
	l.settled = now
	return true
}

// WriteReport does nothing: nobody counts.
func (s *Source) WriteReport(context.Context, *agent.Report) error { return nil }

// ReportIntact is always true.
func (s *Source) ReportIntact(context.Context, *agent.Report) (bool, error) { return true, nil }
