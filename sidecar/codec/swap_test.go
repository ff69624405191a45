package codec

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/requeststate/operator/internal/envelope"
)

// The ring moves on all the time while many seal and unseal: no call is lost, and none is answered with another's state.
func TestSealAndUnsealWhileTheRingIsSwapped(t *testing.T) {
	b := newBench(t)
	rings := []*envelope.Keyring{keyring(t, idA, idB), keyring(t, idB, idA)}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				b.holder.Swap(rings[i%2], nil)
			}
		}
	}()
	const workers, rounds = 8, 40
	failed := make(chan string, workers)
	seen := sync.Map{}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range rounds {
				if fault := oneRound(b, &seen, w, i); fault != "" {
					failed <- fault
					return
				}
			}
		})
	}
	all.Wait()
	close(stop)
	<-stopped
	close(failed)
	for fault := range failed {
		t.Error(fault)
	}
	for _, id := range []envelope.KeyID{idA, idB} {
		if _, ok := seen.Load(id.String()); !ok {
			t.Errorf("nothing was sealed under %s: the ring did not move while calls were made", id)
		}
	}
	b.holder.Drop(idA, idB)
	if got := b.post(pathSeal, `{"state":"s"}`); got.status != http.StatusServiceUnavailable {
		t.Errorf("without keys: %d %s", got.status, got.body)
	}
}

func oneRound(b *bench, keys *sync.Map, worker, i int) string {
	state := fmt.Sprintf("%d/%d", worker, i)
	members := fmt.Sprintf(`"method":"tools/call","target":"t","arguments":{"n":%d},"principal":"p%d"`, i, worker)
	got := b.post(pathSeal, `{"state":"`+state+`",`+members+`}`)
	var sealed struct{ Token, KeyID string }
	if err := json.Unmarshal([]byte(got.body), &sealed); err != nil || got.status != http.StatusOK {
		return fmt.Sprintf("seal: %d %s %v", got.status, got.body, err)
	}
	keys.Store(sealed.KeyID, true)
	got = b.unseal(sealed.Token, members)
	if want := `{"stateBase64":"` + base64.StdEncoding.EncodeToString([]byte(state)) + `"`; got.status != http.StatusOK || !strings.HasPrefix(got.body, want) {
		return fmt.Sprintf("unseal: %d %s, want %s", got.status, got.body, want)
	}
	if got = b.unseal(sealed.Token, strings.Replace(members, `:"p`, `:"q`, 1)); got.status != http.StatusUnprocessableEntity || got.body != refused {
		return fmt.Sprintf("another principal: %d %s", got.status, got.body)
	}
	return ""
}
