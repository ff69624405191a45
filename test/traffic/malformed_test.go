package traffic

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// The server behind trusts everybody and answers everything with its state in plain.
func TestSixtyMalformedRequestsByCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed; the proxy's own tests send the same by other means")
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"requestState":"`+plainState+`"}}`)
	}))
	t.Cleanup(web.Close)
	s := startSidecar(t, web.URL)
	out, err := exec.CommandContext(t.Context(), "bash", "malformed.sh", s.proxy, plainState).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "malformed: 60 requests, failed=0") {
		t.Errorf("%v\n%s", err, out)
	}
}
