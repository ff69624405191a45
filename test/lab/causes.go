package lab

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// causes says what the sidecars have counted of tokens that they opened or refused. The wire never says why a token is refused; a fault that is not explained cannot be
// mended.
func (l *Lab) causes() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var b strings.Builder
	for _, r := range l.Endpoints() {
		fmt.Fprintf(&b, "; %s:", r.Name)
		_, body, err := Get(ctx, "http://"+r.Sidecar().Health+"/metrics")
		if err != nil {
			fmt.Fprintf(&b, " no metrics: %v", err)
		}
		for line := range strings.Lines(body) {
			if result, ok := strings.CutPrefix(line, "requeststate_unseal_total{result="); ok {
				b.WriteString(" " + strings.NewReplacer(`"`, "", "} ", "=", "\n", "").Replace(result))
			}
		}
	}
	return b.String()
}

// Logs returns the ends of what all processes have logged, those that have ended too.
func (l *Lab) Logs() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, p := range l.processes {
		fmt.Fprintf(&b, "--- %s\n%s\n", p.name, p.Log())
	}
	return b.String()
}
