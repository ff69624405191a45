package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/sidecar/cluster"
	"github.com/requeststate/operator/sidecar/proxy"
)

// minRingAge keeps --max-ring-age above what a few failed looks at the API server take.
const minRingAge = time.Minute

type options struct {
	key        string
	kubeconfig string
	keyFile    string
	dev        bool

	pod          cluster.Pod
	podNamespace string

	ageIdentityFile string
	proxyListen     string
	upstream        string
	healthListen    string
	maxStateBytes   int
	maxBodyBytes    int64
	responseBuffer  int
	maxIncoming     int
	passthrough     []string
	maxRingAge      time.Duration
	logLevel        string
	logFormat       string
	version         bool

	// What the texts above mean.
	keyName     types.NamespacedName
	upstreamURL *url.URL
	level       slog.Level
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("sidecar", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&o.key, "key", "", "NAMESPACE/NAME: the RequestStateKey whose ring to join, in the pod's own namespace")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "with --key: path of a kubeconfig file; default: the service account of the pod")
	f.StringVar(&o.keyFile, "key-file", "", "path of a file that holds a RequestStateKey with its ring; reloaded on change; not for a fleet whose keys rotate")
	f.BoolVar(&o.dev, "dev", false, "a key in memory, for development: no other process can open its tokens")
	f.StringVar(&o.pod.Name, "pod-name", os.Getenv("POD_NAME"), "with --key: the pod's name; default: $POD_NAME")
	f.StringVar(&o.pod.UID, "pod-uid", os.Getenv("POD_UID"), "with --key: the pod's UID; default: $POD_UID")
	f.StringVar(&o.podNamespace, "pod-namespace", os.Getenv("POD_NAMESPACE"), "with --key: the pod's namespace; default: $POD_NAMESPACE")
	f.StringVar(&o.pod.Node, "node-name", os.Getenv("NODE_NAME"), "with --key: the node's name, for display; default: $NODE_NAME")
	f.StringVar(&o.ageIdentityFile, "age-identity-file", "", "path of a file of age identities, for keys with kms.age")
	f.StringVar(&o.proxyListen, "proxy-listen", ":8088", "address of the proxy")
	f.StringVar(&o.upstream, "upstream", "", "URL of the MCP server, such as http://127.0.0.1:3000; required")
	f.StringVar(&o.healthListen, "health-listen", ":8089", "address of /livez, /startupz, /readyz and /metrics")
	f.IntVar(&o.maxStateBytes, "max-state-bytes", proxy.DefaultMaxStateBytes, "largest state that is sealed or opened")
	f.Int64Var(&o.maxBodyBytes, "max-body-bytes", proxy.DefaultMaxBodyBytes, "largest JSON body of a request")
	f.IntVar(&o.responseBuffer, "response-buffer-bytes", proxy.DefaultResponseBufferBytes, "largest JSON answer that is held, and largest event of a stream")
	f.IntVar(&o.maxIncoming, "max-incoming-bodies", proxy.DefaultMaxIncomingBodies, "most requests whose JSON body is being read at a time; more are answered 503")
	f.StringArrayVar(&o.passthrough, "passthrough-path", nil, "path whose traffic passes unread, and all below it if it ends in /; repeatable")
	f.DurationVar(&o.maxRingAge, "max-ring-age", 0, "stop serving when the ring has not been confirmed by its source for so long; 0: serve on")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "json or text")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: the sidecar takes flags only", f.Arg(0))
	}
	if o.version {
		return o, nil
	}
	return o, errors.Join(o.checkSource(), o.checkRest())
}

// checkSource sees to it that the ring has one source, and that it is complete.
func (o *options) checkSource() error {
	sources := 0
	for _, given := range []bool{o.key != "", o.keyFile != "", o.dev} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return errors.New("give exactly one source of the ring: --key NAMESPACE/NAME, --key-file FILE or --dev")
	}
	if o.key == "" {
		if o.kubeconfig != "" {
			return errors.New("--kubeconfig is for --key only")
		}
		return nil
	}
	namespace, name, ok := strings.Cut(o.key, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") || len(name) > v1alpha1.MaxKeyNameLength {
		return fmt.Errorf("--key %q: want NAMESPACE/NAME", o.key)
	}
	o.keyName = types.NamespacedName{Namespace: namespace, Name: name}
	for _, field := range []struct{ flag, variable, value string }{
		{"--pod-name", "POD_NAME", o.pod.Name}, {"--pod-uid", "POD_UID", o.pod.UID}, {"--pod-namespace", "POD_NAMESPACE", o.podNamespace},
	} {
		if field.value == "" {
			return fmt.Errorf("%s is missing: with --key the sidecar must know its pod; set %s from the downward API", field.flag, field.variable)
		}
	}
	if o.podNamespace != namespace {
		return fmt.Errorf("--key names namespace %q, but the pod is in %q: a pod can use keys of its own namespace only", namespace, o.podNamespace)
	}
	return nil
}

// checkUpstream sees to it that the proxy has somebody to stand in front of.
func (o *options) checkUpstream() error {
	if o.upstream == "" {
		return errors.New("--upstream is missing: give the MCP server's URL, such as http://127.0.0.1:3000; without it this version has nothing to serve")
	}
	u, err := url.Parse(o.upstream)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil:
		// The text is not repeated: it may hold a password.
		return errors.New("--upstream must be a URL such as http://127.0.0.1:3000")
	case u.Path != "" && u.Path != "/":
		return errors.New("--upstream must have no path: requests keep their own, so give http://127.0.0.1:3000 and let clients ask for /mcp")
	case loops(u, o.proxyListen):
		return errors.New("--upstream is the sidecar's own --proxy-listen: give the address on which the MCP server listens")
	}
	o.upstreamURL = u
	return nil
}

func (o *options) checkRest() error {
	var errs []error
	if err := o.checkUpstream(); err != nil {
		errs = append(errs, err)
	}

	for _, limit := range []struct {
		flag  string
		value int64
	}{
		{"--max-state-bytes", int64(o.maxStateBytes)}, {"--max-body-bytes", o.maxBodyBytes},
		{"--response-buffer-bytes", int64(o.responseBuffer)}, {"--max-incoming-bodies", int64(o.maxIncoming)},
	} {
		if limit.value < 1 || limit.value > proxy.MaxLimit {
			errs = append(errs, fmt.Errorf("%s must be positive and at most %d", limit.flag, proxy.MaxLimit))
		}
	}
	if o.maxRingAge != 0 && o.maxRingAge < minRingAge {
		errs = append(errs, fmt.Errorf("--max-ring-age must be 0 or at least %s", minRingAge))
	}
	if o.maxRingAge != 0 && o.key == "" {
		errs = append(errs, errors.New("--max-ring-age is for --key only: nothing else can be out of reach"))
	}
	if err := o.level.UnmarshalText([]byte(o.logLevel)); err != nil {
		errs = append(errs, fmt.Errorf("--log-level %q: use debug, info, warn or error", o.logLevel))
	}
	if o.logFormat != "json" && o.logFormat != "text" {
		errs = append(errs, fmt.Errorf("--log-format %q: use json or text", o.logFormat))
	}
	return errors.Join(errs...)
}

// logger writes to standard error: standard output is for --version.
func (o *options) logger() *slog.Logger {
	handlerOptions := &slog.HandlerOptions{Level: o.level}
	if o.logFormat == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, handlerOptions))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, handlerOptions))
}

// loops tells whether requests to upstream would come back to the proxy's own address.
func loops(upstream *url.URL, listen string) bool {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || upstream.Port() != port {
		return false
	}
	ip := net.ParseIP(upstream.Hostname())
	local := upstream.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	listensAt := net.ParseIP(host)
	return upstream.Hostname() == host || local && (host == "" || listensAt != nil && listensAt.IsUnspecified())
}
