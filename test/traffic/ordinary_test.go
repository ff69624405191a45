package traffic

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// An app has more than one door on its port.
func app() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s for %s", r.PostFormValue("grant_type"), r.PostFormValue("requestState"))
	})
	mux.HandleFunc("POST /upload", func(w http.ResponseWriter, r *http.Request) {
		reader, err := r.MultipartReader()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		part, err := reader.NextPart()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		sum := sha256.New()
		n, err := io.Copy(sum, part)
		_, _ = fmt.Fprintf(w, "%d %x %v", n, sum.Sum(nil), err)
	})
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<p>%s</p>", r.URL.RawQuery)
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 12 {
			_, _ = fmt.Fprintf(w, ": keep-alive\n\ndata: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(250 * time.Millisecond): // longer in all than any time limit of the sidecar in this test
			case <-r.Context().Done():
				return
			}
		}
	})
	return mux
}

func TestOrdinaryTrafficOfTheAppPasses(t *testing.T) {
	web := httptest.NewServer(app())
	t.Cleanup(web.Close)
	s := startSidecar(t, web.URL, "--header-timeout=1s", "--body-idle-timeout=1s", "--body-timeout=1s")

	res, text := send(t, http.MethodPost, s.proxy+"/token", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		url.Values{"grant_type": {"authorization_code"}, "requestState": {"of the form's own"}}.Encode())
	if res.StatusCode != http.StatusOK || text != "authorization_code for of the form's own" {
		t.Errorf("token endpoint: %d %s", res.StatusCode, text)
	}
	if res, text := send(t, http.MethodGet, s.proxy+"/page?requestState=x&y=%20", nil, ""); text != "<p>requestState=x&y=%20</p>" || res.Header.Get("Content-Type") != "text/html" {
		t.Errorf("page: %d %s", res.StatusCode, text)
	}
	if res, text := send(t, http.MethodGet, s.proxy+"/none", nil, ""); res.StatusCode != http.StatusNotFound || !strings.Contains(text, "404") {
		t.Errorf("missing page: %d %s", res.StatusCode, text)
	}
	started := time.Now()
	if _, text := send(t, http.MethodGet, s.proxy+"/stream", nil, ""); strings.Count(text, "data: ") != 12 || !strings.HasSuffix(text, "data: 11\n\n") {
		t.Errorf("stream: %s", text)
	}
	if lasted := time.Since(started); lasted < 2*time.Second {
		t.Errorf("the stream lasted %s, no longer than the time limits: the test shows nothing", lasted)
	}
}

func TestA50MiBUploadPasses(t *testing.T) {
	web := httptest.NewServer(app())
	t.Cleanup(web.Close)
	s := startSidecar(t, web.URL)
	const size = 50 << 20
	body, pipe := io.Pipe()
	form := multipart.NewWriter(pipe)
	sum := sha256.New()
	go func() {
		part, err := form.CreateFormFile("file", "large.bin")
		if err == nil {
			_, err = io.CopyN(io.MultiWriter(part, sum), rand.Reader, size)
		}
		if err == nil {
			err = form.Close()
		}
		_ = pipe.CloseWithError(err)
	}()
	res, err := http.Post(s.proxy+"/upload", form.FormDataContentType(), body)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if want := fmt.Sprintf("%d %x <nil>", size, sum.Sum(nil)); err != nil || string(text) != want {
		t.Errorf("%d %s, %v, want %s", res.StatusCode, text, err, want)
	}
}
