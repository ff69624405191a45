package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/requeststate/operator/sidecar/cluster"
	"github.com/requeststate/operator/sidecar/codec"
	"github.com/requeststate/operator/sidecar/proxy"
	"github.com/requeststate/operator/sidecar/server"
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
	podIP        string

	ageIdentityFile string
	replicaRegion   string
	codecListen     string // "": no codec
	proxyListen     string
	upstream        string // "": no proxy
	healthListen    string

	maxStateBytes   int
	maxBodyBytes    int64
	maxHeaderBytes  int
	maxJSONDepth    int
	responseBuffer  int
	maxConcurrent   int
	maxStreams      int
	maxIncoming     int
	headerTimeout   time.Duration
	bodyIdleTimeout time.Duration
	bodyTimeout     time.Duration
	writeStall      time.Duration
	bodyMemory      int64

	passthrough []string
	maxRingAge  time.Duration
	logLevel    string
	logFormat   string
	version     bool

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
	f.StringVar(&o.podIP, "pod-ip", os.Getenv("POD_IP"), "the pod's address, on which the MCP server must not answer: looked at now and then, see UpstreamExposed; default: $POD_IP")
	f.StringVar(&o.pod.Node, "node-name", os.Getenv("NODE_NAME"), "with --key: the node's name, for display; default: $NODE_NAME")
	f.StringVar(&o.ageIdentityFile, "age-identity-file", "", "path of a file of age identities, for keys with kms.age")
	f.StringVar(&o.replicaRegion, "kms-replica-region", "", "for keys with kms.aws: the AWS region whose replicas of multi-Region keys unwrap; default: the region that wrapped")
	f.StringVar(&o.codecListen, "codec-listen", codec.DefaultAddress, "unix:// and the path of the codec's socket; '' turns it off; the default is off, too, where its directory does not exist")
	f.StringVar(&o.proxyListen, "proxy-listen", ":8088", "address of the proxy")
	f.StringVar(&o.upstream, "upstream", "", "URL of the MCP server, such as http://127.0.0.1:3000; the proxy runs only with it")
	f.StringVar(&o.healthListen, "health-listen", ":8089", "address of /livez, /startupz, /readyz and /metrics")
	f.IntVar(&o.maxStateBytes, "max-state-bytes", proxy.DefaultMaxStateBytes, "largest state that is sealed or opened; at least 64")
	f.Int64Var(&o.maxBodyBytes, "max-body-bytes", proxy.DefaultMaxBodyBytes, "largest JSON body of a request")
	f.IntVar(&o.maxHeaderBytes, "max-header-bytes", proxy.DefaultMaxHeaderBytes, "largest header of a request to the proxy, its target included")
	f.IntVar(&o.maxJSONDepth, "max-json-depth", proxy.DefaultMaxJSONDepth, "most arrays and objects that may be open at once in a JSON body; arguments of carriers at most 512")
	f.IntVar(&o.responseBuffer, "response-buffer-bytes", proxy.DefaultResponseBufferBytes, "how much is held of a JSON answer or of an event of a stream; longer ones are judged while they pass")
	f.IntVar(&o.maxConcurrent, "max-concurrent", proxy.DefaultMaxConcurrent, "most requests under way at a time, streams not counted, in the proxy and in the codec; more are answered 503")
	f.IntVar(&o.maxStreams, "max-streams", proxy.DefaultMaxStreams, "most event streams, uploads and passthrough exchanges at a time; more are answered 503")
	f.IntVar(&o.maxIncoming, "max-incoming-bodies", proxy.DefaultMaxIncomingBodies, "most requests whose JSON body is being read at a time; more are answered 503")
	f.DurationVar(&o.headerTimeout, "header-timeout", server.DefaultReadHeaderTimeout, "how long a request's header may take to come, from its first byte")
	f.DurationVar(&o.bodyIdleTimeout, "body-idle-timeout", proxy.DefaultBodyIdleTimeout, "longest pause within a request's body; answers have no time limit")
	f.DurationVar(&o.bodyTimeout, "body-timeout", proxy.DefaultBodyTimeout, "how long a JSON body may take to come, and a second more for each 16 KiB of it")
	f.DurationVar(&o.writeStall, "write-stall-timeout", proxy.DefaultWriteStallTimeout, "end an answer of which the client takes nothing for so long")
	f.Int64Var(&o.bodyMemory, "max-body-memory-bytes", proxy.DefaultMaxBodyMemoryBytes, "most bytes of JSON bodies held at a time, the first 64 KiB of each not counted; more are answered 503")
	f.StringArrayVar(&o.passthrough, "passthrough-path", nil, "path whose traffic passes unread, and all below it if it ends in /; repeatable")
	f.DurationVar(&o.maxRingAge, "max-ring-age", 0, "with --key: stop serving when the ring has not been confirmed by its source for so long, at least 1m; 0: serve on")
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
	if !f.Changed("codec-listen") && !hasDirectory(o.codecListen) {
		o.codecListen = ""
	}
	return o, errors.Join(o.checkSource(), o.checkRest())
}

// logger writes to standard error: standard output is for --version.
func (o *options) logger() *slog.Logger {
	handlerOptions := &slog.HandlerOptions{Level: o.level}
	if o.logFormat == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, handlerOptions))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, handlerOptions))
}
