package faultproxy

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
)

const contentType = "application/x-amz-json-1.1"

// A Fault is how a call fails. Those of AWS are the error codes as it sends
// them; any other code can be made a Fault too, and is sent with status 400.
type Fault string

// The faults.
const (
	Pass Fault = "" // none: the KMS answers

	Throttling         Fault = "ThrottlingException"
	LimitExceeded      Fault = "LimitExceededException"
	KMSInternal        Fault = "KMSInternalException"
	DependencyTimeout  Fault = "DependencyTimeoutException"
	KeyUnavailable     Fault = "KeyUnavailableException"
	IncorrectKey       Fault = "IncorrectKeyException"
	InvalidCiphertext  Fault = "InvalidCiphertextException"
	AccessDenied       Fault = "AccessDeniedException"
	Disabled           Fault = "DisabledException"
	InvalidState       Fault = "KMSInvalidStateException"
	NotFound           Fault = "NotFoundException"
	ExpiredToken       Fault = "ExpiredTokenException"
	UnrecognizedClient Fault = "UnrecognizedClientException"

	HTML      Fault = "503 with a page" // as load balancers and proxies answer
	Hang      Fault = "hang"            // no answer until Release
	Reset     Fault = "reset"           // TCP RST before any answer
	SlowBody  Fault = "slow body"       // half of the KMS's answer, the rest after Release
	Cut       Fault = "cut"             // half of the KMS's answer, then the connection ends
	Truncated Fault = "truncated"       // half of the KMS's answer, as if it were whole
)

// statuses are those of the API reference that are not 400.
var statuses = map[Fault]int{
	KMSInternal:       http.StatusInternalServerError,
	KeyUnavailable:    http.StatusInternalServerError,
	DependencyTimeout: http.StatusServiceUnavailable,
}

// message is what the service says with an error; nothing of it may be shown.
const message = "User: arn:aws:sts::111122223333:assumed-role/role-of-secrets is not authorized"

// answer answers r with d's fault.
func (p *Proxy) answer(w http.ResponseWriter, r *http.Request, body []byte, d decision) {
	switch d.fault {
	case HTML:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("<html><body><h1>503 Service Temporarily Unavailable</h1></body></html>"))
	case Hang:
		if p.wait(d, r) {
			p.pass(w, r, body)
		}
	case Reset:
		reset(w)
	case SlowBody, Cut, Truncated:
		p.half(w, r, body, d)
	default:
		status, ok := statuses[d.fault]
		if !ok {
			status = http.StatusBadRequest
		}
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": string(d.fault), "message": message})
	}
}

// wait waits until what hangs is let go; false if the client has gone.
func (p *Proxy) wait(d decision, r *http.Request) bool {
	select {
	case <-d.released:
		return true
	case <-r.Context().Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.left++
		close(p.came)
		p.came = make(chan struct{})
		return false
	}
}

// reset ends the connection with an RST.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // what is unsent is thrown away, and an RST tells it
	}
	_ = conn.Close()
}

// half sends the first half of the KMS's answer.
func (p *Proxy) half(w http.ResponseWriter, r *http.Request, body []byte, d decision) {
	status, header, answer, err := p.ask(r, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	copyHeader(w, header)
	n := len(answer) / 2
	if d.fault != Truncated {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer[:n])
	switch d.fault {
	case Cut:
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case SlowBody:
		_ = http.NewResponseController(w).Flush()
		if p.wait(d, r) {
			_, _ = w.Write(answer[n:])
		}
	}
}
