// Package quickstart runs the commands that the README tells a newcomer to run.
package quickstart

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPitfall35TwoReplicasByHand runs the README's block as it stands, but for the ports, which may be taken on the machine that tests.
func TestPitfall35TwoReplicasByHand(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(readme), "<!-- test/quickstart runs this block -->\n```sh\n")
	script, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		t.Fatal("the README has no block for this test")
	}
	script = strings.NewReplacer("13000", "43000", ":1808$", ":4308$", ":1809$", ":4309$", "18091 18092", "43091 43092", "call 18081", "call 43081", "call 18082", "call 43082").Replace(script)

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-c", script)
	cmd.Dir = root
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"round 1 on A asks: {", `"requestState":"rsk1.`, "Really deploy?",
		`\"doneBy\":\"127.0.0.1:43000\"`,
		`{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
