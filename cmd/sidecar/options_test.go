package main

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, name := range []string{"POD_NAME", "POD_UID", "POD_NAMESPACE", "NODE_NAME", "POD_IP"} {
		t.Setenv(name, "")
	}
	pod := []string{"--pod-name=mcp-0", "--pod-uid=u", "--pod-namespace=prod"}
	with := func(args ...string) []string { return append(args, pod...) }
	for _, c := range []struct {
		args []string
		want string // in the error; "" if there is none
	}{
		{nil, "exactly one source"},
		{[]string{"--dev", "--key-file=x"}, "exactly one source"},
		{with("--key=prod/deployer", "--dev"), "exactly one source"},
		{[]string{"--dev"}, ""},
		{[]string{"--key-file=x"}, ""},
		{with("--key=prod/deployer"), ""},
		{with("--key=deployer"), "NAMESPACE/NAME"},
		{with("--key=prod/"), "NAMESPACE/NAME"},
		{with("--key=a/b/c"), "NAMESPACE/NAME"},
		{with("--key=test/deployer"), "own namespace"},
		{[]string{"--key=prod/deployer"}, "POD_NAME"},
		{[]string{"--key=prod/deployer", "--pod-name=x"}, "POD_UID"},
		{[]string{"--key=prod/deployer", "--pod-name=x", "--pod-uid=u"}, "POD_NAMESPACE"},
		{[]string{"--dev", "--kubeconfig=x"}, "--kubeconfig"},
		{[]string{"--dev", "--upstream=http://127.0.0.1:3000"}, ""},
		{[]string{"--dev"}, "--upstream is missing"},
		{[]string{"--dev", "--upstream=127.0.0.1:3000"}, "--upstream"},
		{[]string{"--dev", "--upstream=http://127.0.0.1:3000/mcp"}, "--upstream must have no path"},
		{[]string{"--dev", "--upstream=http://127.0.0.1:8088"}, "own --proxy-listen"},
		{[]string{"--dev", "--upstream=http://localhost:9", "--proxy-listen=127.0.0.1:9"}, ""},
		{[]string{"--dev", "--upstream=http://127.0.0.1:9", "--proxy-listen=127.0.0.1:9"}, "own --proxy-listen"},
		{[]string{"--dev", "--upstream=http://127.0.0.1:9", "--proxy-listen=:10"}, ""},
		{[]string{"--dev", "--upstream=unix:///x"}, "--upstream"},
		{[]string{"--dev", "--upstream=http://u:secret@127.0.0.1"}, "--upstream"},
		{[]string{"--dev", "--max-state-bytes=0"}, "positive"},
		{[]string{"--dev", "--max-state-bytes=9223372036854775807"}, "--max-state-bytes must be positive and at most"},
		{[]string{"--dev", "--max-body-bytes=9223372036854775807"}, "--max-body-bytes must be positive and at most"},
		{[]string{"--dev", "--response-buffer-bytes=9223372036854775807"}, "--response-buffer-bytes must be positive and at most"},
		{[]string{"--dev", "--max-incoming-bodies=0"}, "--max-incoming-bodies must be positive and at most"},
		{[]string{"--dev", "--max-body-bytes=1073741824", "--response-buffer-bytes=1073741824", "--max-state-bytes=1073741824"}, ""},
		{[]string{"--dev", "--max-ring-age=1h"}, "--max-ring-age"},
		{with("--key=prod/deployer", "--max-ring-age=1s"), "at least"},
		{with("--key=prod/deployer", "--max-ring-age=1h"), ""},
		{[]string{"--dev", "--log-level=loud"}, "--log-level"},
		{[]string{"--dev", "--log-format=xml"}, "--log-format"},
		{[]string{"--dev", "extra"}, "unexpected argument"},
		{[]string{"--dev", "--codec-listen=unix:///run/x.sock", "--upstream="}, ""},
		{[]string{"--dev", "--codec-listen=", "--upstream="}, "there is no codec"},
		{[]string{"--dev", "--max-state-bytes=63"}, "--max-state-bytes must be at least 64"},
		{[]string{"--dev", "--proxy-listen=8088"}, `--proxy-listen "8088": want HOST:PORT`},
		{[]string{"--dev", "--proxy-listen="}, `--proxy-listen "": want HOST:PORT`},
		{[]string{"--dev", "--health-listen="}, `--health-listen "": want HOST:PORT`},
		{[]string{"--dev", "--passthrough-path=admin"}, `--passthrough-path "admin" can match no request`},
		{[]string{"--dev", "--age-identity-file=x"}, "--age-identity-file is for --key and --key-file only"},
		{[]string{"--dev", "--upstream=http://127.0.0.1:99999"}, "--upstream must be a URL"},
		{[]string{"--dev", "--upstream=http://127.0.0.1:8089"}, "own --health-listen"},
		{[]string{"--dev", "--upstream=http://127.0.0.1:3000?x=1"}, "no user, query or fragment"},
		{[]string{"--dev", "--max-json-depth=10001"}, "--max-json-depth must be positive and at most 10000"},
		{[]string{"--dev", "--max-json-depth=0"}, "--max-json-depth must be positive"},
		{[]string{"--dev", "--max-streams=0"}, "--max-streams must be positive"},
		{[]string{"--dev", "--max-concurrent=-1"}, "--max-concurrent must be positive"},
		{[]string{"--dev", "--max-header-bytes=0"}, "--max-header-bytes must be positive"},
		{[]string{"--dev", "--header-timeout=0s"}, "--header-timeout must be positive"},
		{[]string{"--dev", "--body-idle-timeout=-1s"}, "--body-idle-timeout must be positive"},
		{[]string{"--dev", "--body-timeout=0s"}, "--body-timeout must be positive"},
		{[]string{"--dev", "--pod-ip=here"}, "status.podIP"},
		{[]string{"--dev", "--pod-ip=10.0.0.7"}, ""},
		{[]string{"--version"}, ""},
	} {
		args := c.args
		if !strings.Contains(strings.Join(args, " "), "--upstream") && c.want != "--upstream is missing" {
			args = append([]string{"--upstream=http://127.0.0.1:3000"}, args...)
		}
		_, err := parse(args)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v: %v", c.args, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: %v, want an error with %q", c.args, err, c.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%v: the error repeats a password", c.args)
		}
	}
}

func TestThePodIsKnownFromTheEnvironment(t *testing.T) {
	t.Setenv("POD_NAME", "mcp-0")
	t.Setenv("POD_UID", "u")
	t.Setenv("POD_NAMESPACE", "prod")
	t.Setenv("NODE_NAME", "node")
	o, err := parse([]string{"--key=prod/deployer", "--pod-name=mcp-1", "--upstream=http://127.0.0.1:3000"})
	if err != nil {
		t.Fatal(err)
	}
	if o.pod.Name != "mcp-1" || o.pod.UID != "u" || o.podNamespace != "prod" || o.pod.Node != "node" || o.keyName.Name != "deployer" {
		t.Errorf("%+v", o)
	}
}
