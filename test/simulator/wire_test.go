package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

const namespace, keyName = "prod", "deployer"

// A wire is how one client reaches the API server: it looks like HTTP to it, and there is no network.
type wire struct {
	w     *world
	actor string
	// stored is called at the instant at which a write was stored, before the client can know; if it returns false the answer is lost.
	stored func(*call) bool
}

// config is for the real clients of manager and sidecar.
func (c *wire) config() *rest.Config {
	return &rest.Config{Host: "http://apiserver", Transport: c, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// A call is one request.
type call struct {
	actor, verb, resource, name string
	status                      bool
	labels                      labels.Selector
	fields                      fields.Selector
	object                      client.Object // of a write
	ctx                         context.Context
}

func (c *call) String() string { return c.verb + " " + c.resource }

// answer is what comes back: an object, a list, or an error.
type answer struct {
	body any
	err  error
}

var errUnreachable = errors.New("connection refused")

// RoundTrip sends a request on its way and waits for the answer. The way there takes time, and so does the way back; what the server does, it does at one
// instant. A client that gives up meanwhile cannot call back what it sent: a late write of a dead process arrives all the same.
func (c *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	call, err := c.parse(req)
	if err != nil {
		return nil, err
	}
	answers := make(chan answer, 1)
	c.w.kernel.after(c.w.delay(c.actor, delayAPI, call.String()), func() {
		if c.w.cut[c.actor] {
			answers <- answer{err: errUnreachable}
			return
		}
		a := c.w.serve(call)
		write := call.object != nil && a.err == nil
		if write && c.stored != nil && !c.stored(call) {
			return
		}
		if write && call.status {
			answers <- a // at once: what the controller says of its write belongs to the same line of the journal
			return
		}
		c.w.kernel.after(c.w.delay(c.actor, delayAPI, "answer to "+call.String()), func() {
			if c.w.cut[c.actor] {
				a = answer{err: errUnreachable}
			}
			answers <- a
		})
	})
	select {
	case a := <-answers:
		return respond(req, a)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *wire) parse(req *http.Request) (*call, error) {
	_, path, ok := strings.Cut(req.URL.Path, "/namespaces/"+namespace+"/")
	if !ok {
		return nil, fmt.Errorf("the simulated API server has no %s", req.URL.Path)
	}
	parts := strings.Split(path, "/")
	p := &call{actor: c.actor, resource: parts[0], ctx: req.Context()}
	if len(parts) > 1 {
		p.name = parts[1]
	}
	p.status = len(parts) > 2 && parts[2] == "status"
	var err error
	if p.labels, err = labels.Parse(req.URL.Query().Get("labelSelector")); err != nil {
		return nil, err
	}
	if p.fields, err = fields.ParseSelector(req.URL.Query().Get("fieldSelector")); err != nil {
		return nil, err
	}
	switch req.Method {
	case http.MethodGet:
		p.verb = "get"
		if p.name == "" {
			p.verb = "list"
		}
		return p, nil
	case http.MethodPost:
		p.verb = "create"
	case http.MethodPut:
		p.verb = "update"
	default:
		return nil, fmt.Errorf("the simulated API server does not %s", req.Method)
	}
	switch p.resource {
	case keys:
		p.object = &v1alpha1.RequestStateKey{}
	case reports:
		p.object = &v1alpha1.KeyringReport{}
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	return p, json.Unmarshal(body, p.object)
}

func respond(req *http.Request, a answer) (*http.Response, error) {
	code := http.StatusOK
	if a.err != nil {
		var status apierrors.APIStatus
		if !errors.As(a.err, &status) {
			return nil, a.err
		}
		s := status.Status()
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		a.body, code = s, int(s.Code)
	}
	body, err := json.Marshal(a.body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// serve does what a request asks for.
func (w *world) serve(c *call) answer {
	if w.kernel.chance(w.failing[c.String()], c.actor+" "+c.String()+" fails") {
		return answer{err: apierrors.NewInternalError(errors.New("etcdserver: request timed out"))}
	}
	switch c.verb {
	case "get":
		if object := w.store.get(c.resource, c.name); object != nil {
			return answer{body: typed(object)}
		}
		return answer{err: apierrors.NewNotFound(groupResource(c.resource), c.name)}
	case "list":
		return answer{body: w.listOf(c)}
	case "create":
		if err := w.store.create(c.object); err != nil {
			return answer{err: err}
		}
	case "update":
		before := w.store.get(c.resource, c.name)
		if err := w.store.update(c.object, c.status); err != nil {
			w.refused(c, err)
			return answer{err: err}
		}
		if c.status {
			w.statusWritten(c, before.(*v1alpha1.RequestStateKey))
		}
	}
	w.reportWritten(c)
	return answer{body: typed(c.object)}
}

// typed fills in what a typed object leaves out and JSON needs.
func typed(object client.Object) client.Object {
	switch o := object.(type) {
	case *v1alpha1.RequestStateKey:
		o.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RequestStateKey"}
	case *v1alpha1.KeyringReport:
		o.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "KeyringReport"}
	case *corev1.Pod:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	}
	return object
}

func (w *world) listOf(c *call) runtime.Object {
	version := metav1.ListMeta{ResourceVersion: strconv.FormatInt(w.store.version, 10)}
	if c.resource == pods {
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: version}
		for _, object := range w.store.list(pods) {
			if c.labels.Matches(labels.Set(object.GetLabels())) {
				list.Items = append(list.Items, *object.(*corev1.Pod))
			}
		}
		return list
	}
	list := &v1alpha1.KeyringReportList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "KeyringReportList"}, ListMeta: version}
	for _, object := range w.store.list(reports) {
		report := object.(*v1alpha1.KeyringReport)
		if c.fields.Matches(fields.Set{"spec.keyName": report.Spec.KeyName}) {
			list.Items = append(list.Items, *report)
		}
	}
	return list
}

// A delayKind is a kind of way that something takes.
type delayKind int

const (
	delayAPI delayKind = iota
	delayWatch
	delayKMS
	delayStatus // of a pod, as its kubelet writes it
	delayKinds
)

// usual is how long each way usually takes, at least and at most.
var usual = [delayKinds][2]time.Duration{
	delayAPI:    {2 * time.Millisecond, 30 * time.Millisecond},
	delayWatch:  {5 * time.Millisecond, 150 * time.Millisecond},
	delayKMS:    {20 * time.Millisecond, 150 * time.Millisecond},
	delayStatus: {50 * time.Millisecond, time.Second},
}

// delay draws how long something takes for somebody.
func (w *world) delay(actor string, kind delayKind, what string) time.Duration {
	span := usual[kind]
	w.mu.Lock()
	if slow := w.slow[actor][kind]; slow > 0 {
		span = [2]time.Duration{slow / 2, slow}
	}
	w.mu.Unlock()
	return w.kernel.between(span[0], span[1], actor+" "+what)
}
