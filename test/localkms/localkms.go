// Package localkms serves local-kms, a stand-in for AWS KMS, in this process, for tests and the demo.
package localkms

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	localconfig "github.com/nsmithuk/local-kms/src/config"
	"github.com/nsmithuk/local-kms/src/data"
	"github.com/nsmithuk/local-kms/src/handler"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
)

// The region and the account of all keys.
const (
	Region  = "eu-west-1"
	Account = "111122223333"
)

// A Server is a running local-kms. It is safe for concurrent use.
type Server struct {
	// URL is where it serves, on 127.0.0.1.
	URL string

	http *httptest.Server
	db   *data.Database

	logger    *logrus.Logger
	mu        sync.Mutex
	counts    map[string]int
	times     []time.Time
	limit     *rate.Limiter // nil: none
	throttled int
	granted   map[string]int // what Limit let through, by operation
}

// Limit makes the server refuse what comes beyond so many requests a second, as AWS does.
func (s *Server) Limit(perSecond int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = rate.NewLimiter(rate.Limit(perSecond), perSecond)
}

// Load returns how many requests came, how many of them were refused by Limit, and the most that came within a second.
func (s *Server) Load() (requests, throttled, peak int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := 0
	for i, t := range s.times {
		for t.Sub(s.times[first]) >= time.Second {
			first++
		}
		peak = max(peak, i-first+1)
	}
	return len(s.times), s.throttled, peak
}

// configure sets what local-kms keeps in variables of its package, once: several servers may start at a time.
var configure = sync.OnceFunc(func() { localconfig.AWSRegion, localconfig.AWSAccountId = Region, Account })

// Start serves on a free port of 127.0.0.1 and keeps its keys in dir. Its own main listens on all interfaces and is not used. observe, if not nil, is told of each
// operation and the status of its answer, before that is passed on.
func Start(dir string, observe func(op string, status int)) *Server {
	configure()
	s := &Server{db: data.NewDatabase(dir), counts: map[string]int{}, granted: map[string]int{}, logger: logrus.New()}
	s.logger.SetOutput(io.Discard)
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op, refused := s.count(r)
		answer := throttling
		defer func() {
			if recover() != nil { // local-kms does, on some blobs; the server would log a page about it
				panic(http.ErrAbortHandler)
			}
		}()
		if !refused {
			answer = s.answer(op, r)
		}
		if observe != nil {
			observe(op, answer.Code)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(answer.Code)
		_, _ = io.WriteString(w, answer.Body) // a client that was killed does not hear it
	}))
	s.URL = s.http.URL
	return s
}

// operations are what is called of local-kms. Its own dispatcher writes each call to standard error.
var operations = map[string]func(*handler.RequestHandler) handler.Response{
	"CreateKey":                       (*handler.RequestHandler).CreateKey,
	"CreateAlias":                     (*handler.RequestHandler).CreateAlias,
	"UpdateAlias":                     (*handler.RequestHandler).UpdateAlias,
	"DescribeKey":                     (*handler.RequestHandler).DescribeKey,
	"DisableKey":                      (*handler.RequestHandler).DisableKey,
	"EnableKey":                       (*handler.RequestHandler).EnableKey,
	"ScheduleKeyDeletion":             (*handler.RequestHandler).ScheduleKeyDeletion,
	"CancelKeyDeletion":               (*handler.RequestHandler).CancelKeyDeletion,
	"GenerateDataKeyWithoutPlaintext": (*handler.RequestHandler).GenerateDataKeyWithoutPlaintext,
	"Decrypt":                         (*handler.RequestHandler).Decrypt,
}

func (s *Server) answer(op string, r *http.Request) handler.Response {
	do := operations[op]
	if do == nil {
		return handler.Response{Code: http.StatusNotImplemented, Body: "{}"}
	}
	return do(handler.NewRequestHandler(r, s.logger, s.db))
}

// Close stops serving.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
	s.db.Close()
}

var throttling = handler.Response{Code: http.StatusBadRequest, Body: `{"__type":"ThrottlingException","message":"You have exceeded the rate at which you may call KMS."}`}

func (s *Server) count(r *http.Request) (op string, refused bool) {
	_, op, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[op]++
	s.times = append(s.times, time.Now())
	if s.limit != nil && !s.limit.Allow() {
		s.throttled++
		return op, true
	}
	s.granted[op]++
	return op, false
}

// Count returns how often an operation, such as "Decrypt", was called.
func (s *Server) Count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[op]
}

// Granted returns how often an operation was called and not refused by Limit.
func (s *Server) Granted(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted[op]
}

// Environment returns the variables with which a process's AWS SDK finds this server, and nothing else.
func (s *Server) Environment() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL_KMS":        s.URL,
		"AWS_ACCESS_KEY_ID":           "test",
		"AWS_SECRET_ACCESS_KEY":       "test",
		"AWS_SESSION_TOKEN":           "",
		"AWS_EC2_METADATA_DISABLED":   "true",
		"AWS_CONFIG_FILE":             "/nonexistent",
		"AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
		"AWS_PROFILE":                 "",
		"AWS_REGION":                  Region,
	}
}

// Client returns a client with every right.
func (s *Server) Client() *awskms.Client {
	return awskms.New(awskms.Options{
		Region: Region, BaseEndpoint: &s.URL,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "admin", SecretAccessKey: "admin"}, nil
		}),
	})
}

// CreateKey makes a symmetric key and returns its ARN.
func (s *Server) CreateKey(ctx context.Context) (arn string, err error) {
	out, err := s.Client().CreateKey(ctx, &awskms.CreateKeyInput{})
	if err != nil {
		return "", fmt.Errorf("creating a key in local-kms: %w", err)
	}
	return aws.ToString(out.KeyMetadata.Arn), nil
}
