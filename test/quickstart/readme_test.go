// Package quickstart runs the commands that the README tells a newcomer to run.
package quickstart

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/testport"
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
	ports := map[string]string{}
	for _, port := range []string{"13000", "18081", "18082", "18091", "18092"} {
		address, err := testport.Free()
		if err != nil {
			t.Fatal(err)
		}
		_, ports[port], _ = net.SplitHostPort(address)
	}
	server := "127.0.0.1:" + ports["13000"]
	script = strings.NewReplacer("127.0.0.1:13000", server, "18091 18092", ports["18091"]+" "+ports["18092"], "call 18081", "call "+ports["18081"], "call 18082", "call "+ports["18082"],
		"1808$replica", "${proxy[replica]}", "1809$replica", "${health[replica]}").Replace(script)
	script = fmt.Sprintf("proxy=(0 %s %s) health=(0 %s %s)\n", ports["18081"], ports["18082"], ports["18091"], ports["18092"]) + script

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
		`\"doneBy\":\"` + server + `\"`,
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
