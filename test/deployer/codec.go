package deployer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// codec asks the sidecar of its pod.
type codec struct{ client *http.Client }

// Codec returns a Protector that calls the codec at the path of its socket. It is safe for concurrent use.
func Codec(socket string) Protector {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return codec{&http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 10 * time.Second}}
}

type codecCall struct {
	State     string          `json:"state,omitempty"`
	Token     string          `json:"token,omitempty"`
	Method    string          `json:"method"`
	Target    string          `json:"target"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

func (c codec) Seal(ctx context.Context, state, tool string, args json.RawMessage) (string, error) {
	answer, err := c.call(ctx, "/v1/seal", codecCall{State: state, Method: "tools/call", Target: tool, Arguments: args})
	return answer.Token, err
}

func (c codec) Open(ctx context.Context, token, tool string, args json.RawMessage) (string, error) {
	answer, err := c.call(ctx, "/v1/unseal", codecCall{Token: token, Method: "tools/call", Target: tool, Arguments: args})
	return answer.State, err
}

func (c codec) call(ctx context.Context, path string, call codecCall) (answer codecCall, err error) {
	body, err := json.Marshal(call)
	if err != nil {
		return answer, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return answer, err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return answer, err
	}
	if resp.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("the codec's %s: %s", path, resp.Status)
	}
	return answer, json.Unmarshal(content, &answer)
}
