package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
)

// What the proxy costs is told by the peer in the same run: net/http/httputil.ReverseProxy, which reads nothing of what passes.
func BenchmarkProxy(b *testing.B) {
	sealed := newBench(b, answering("application/json", plainAnswer))
	token := sealed.seal("deploy", `{"to":"prod"}`, "plain-secret")
	large := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 8<<20) + `"}]}}`
	for _, c := range []struct{ name, body, contentType, answer string }{
		{"ping", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"round", call(`1`, "deploy", `{"to":"prod"}`, `"`+token+`"`), "application/json", plainAnswer},
		{"8MiB", call(`1`, "deploy", `{"to":"prod"}`, `null`), "application/json", large},
		{"8MiB-stream", call(`1`, "deploy", `{"to":"prod"}`, `null`), "text/event-stream", "data: " + large + "\n\n"},
	} {
		upstream := httptest.NewServer(answering(c.contentType, c.answer))
		b.Cleanup(upstream.Close)
		ours := newBenchAt(b, upstream.URL, func(config *Config) { config.Sealer = sealed.sealer })
		peer := httptest.NewServer(httputil.NewSingleHostReverseProxy(ours.upstream))
		b.Cleanup(peer.Close)
		for _, way := range []struct{ name, url string }{{"ours", ours.url}, {"peer", peer.URL}} {
			b.Run(c.name+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(c.answer)))
				for b.Loop() {
					res, err := http.Post(way.url+"/mcp", "application/json", strings.NewReader(c.body))
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					if res.StatusCode != http.StatusOK {
						b.Fatal(res.Status)
					}
				}
			})
		}
	}
}
