package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/requeststate/operator/test/deployer"
	"github.com/requeststate/operator/test/lab"
)

// attacker tries what must be refused.
type attacker struct {
	lab    *lab.Lab
	tokens map[string]taken
}

// taken is a token that a legitimate first round was given.
type taken struct {
	token string
	at    time.Time
}

// The legitimate call whose tokens the attacks abuse.
const (
	victimTool = "deploy"
	victimArgs = `{"env":"prod","replicas":3}`
)

func newAttacker(l *lab.Lab) *attacker { return &attacker{lab: l, tokens: map[string]taken{}} }

// take makes a first round at one replica and keeps its token.
func (a *attacker) take(ctx context.Context, name string) error {
	token, err := a.firstRound(ctx, a.lab.Endpoints()[0])
	a.tokens[name] = taken{token, time.Now()}
	return err
}

func (a *attacker) firstRound(ctx context.Context, r *lab.Replica) (string, error) {
	answer, err := callTool(ctx, r.Sidecar().Proxy, victimTool, victimArgs, "")
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(answer.Result.RequestState, "rsk1.") {
		return "", fmt.Errorf("the first round at %s gave no sealed state", r.Name)
	}
	return answer.Result.RequestState, nil
}

// attack is one try: a token with a request that it was not made for, or at a time when it is no longer good.
type attack struct {
	name, cause       string
	token, tool, args string
}

type attackReport struct {
	attacks, accepted, wrongCause int
	lines                         []string
}

// run makes every attack on the second replica, and once in between shows that the abused token still works for its owner.
func (a *attacker) run(ctx context.Context) (*attackReport, error) {
	foreign, err := a.lab.StartForeignReplica(ctx, "another-service")
	if err != nil {
		return nil, err
	}
	fresh, err := a.firstRound(ctx, a.lab.Endpoints()[0])
	if err != nil {
		return nil, err
	}
	otherAudience, err := a.firstRound(ctx, foreign)
	if err != nil {
		return nil, err
	}
	report := &attackReport{}
	for _, attack := range []attack{
		{"a tampered token", "authentication", tamper(fresh), victimTool, victimArgs},
		{"another tool", "request_mismatch", fresh, deployer.Tools[1], victimArgs},
		{"other arguments", "request_mismatch", fresh, victimTool, `{"env":"prod","replicas":300}`},
		{"a token of another audience", "authentication", otherAudience, victimTool, victimArgs},
		{"a token under the retired key", "unknown_key", a.tokens["old"].token, victimTool, victimArgs},
		{"a plaintext state", "malformed", `{"askedBy":"mallory","tool":"destroy"}`, victimTool, victimArgs},
	} {
		if err := a.try(ctx, report, attack); err != nil {
			return nil, err
		}
	}
	answer, err := callTool(ctx, a.lab.Endpoints()[2].Sidecar().Proxy, victimTool, victimArgs, fresh)
	if err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("after the attacks, the token no longer works for its owner: %s", answer.Error.Message)
	}
	expiring := a.tokens["expiring"]
	if err := lab.Wait(ctx, time.Until(expiring.at.Add(lab.TTL+lab.ClockSkew+time.Second))); err != nil {
		return nil, err
	}
	return report, a.try(ctx, report, attack{"an expired token", "expired", expiring.token, victimTool, victimArgs})
}

// try makes one attack and judges it: the one refusal that there is, for the cause that the sidecar's metric names, and no handler run.
func (a *attacker) try(ctx context.Context, report *attackReport, at attack) error {
	target := a.lab.Endpoints()[1]
	before, err := refusals(ctx, target, at.cause)
	if err != nil {
		return err
	}
	answer, err := callTool(ctx, target.Sidecar().Proxy, at.tool, at.args, at.token)
	if err != nil {
		return err
	}
	after, err := refusals(ctx, target, at.cause)
	if err != nil {
		return err
	}
	report.attacks++
	verdict := "refused"
	switch {
	case answer.Error == nil:
		report.accepted++
		verdict = "ACCEPTED"
	case answer.Error.Code != -32602 || answer.Error.Data.Reason != "invalid_request_state":
		report.wrongCause++
		verdict = fmt.Sprintf("FAULT: error %d", answer.Error.Code)
	case after != before+1:
		report.wrongCause++
		verdict = "FAULT: refused, but not for its cause"
	}
	report.lines = append(report.lines, fmt.Sprintf("  %-32s %-18s %s", at.name, at.cause, verdict))
	return nil
}

func (r *attackReport) print() {
	fmt.Printf("\n  %-32s %-18s %s\n", "attack", "cause by metric", "result")
	for _, line := range r.lines {
		fmt.Println(line)
	}
	fmt.Println()
}

// tamper changes one character in the middle of a token to another of the same alphabet.
func tamper(token string) string {
	b := []byte(token)
	i := len(b) / 2
	if b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

// refusals reads requeststate_unseal_total for one result.
func refusals(ctx context.Context, r *lab.Replica, result string) (int, error) {
	_, page, err := lab.Get(ctx, "http://"+r.Sidecar().Health+"/metrics")
	if err != nil {
		return 0, err
	}
	prefix := fmt.Sprintf("requeststate_unseal_total{result=%q} ", result)
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, prefix); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, nil
}
