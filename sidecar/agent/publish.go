package agent

import (
	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/sidecar/ring"
)

// publish shows handlers, probes and metrics how things stand. It comes after the removals of advance: a sidecar that joins and sees a key revoked in the same
// read never serves under that key.
func (a *Agent) publish() {
	serving := a.member.Serving()
	if !serving {
		a.Holder.Explain(a.explanation())
	}
	a.Holder.Serve(serving)
	if serving && !a.wasServing {
		a.Logger.Info("joined: serving begins", "generation", a.member.Held().Ring.Generation)
	}
	a.wasServing = serving

	held, keyring := a.member.Held(), a.Holder.Held()
	if held == nil || keyring == nil {
		a.Metrics.Keyring(0, nil)
		return
	}
	a.Metrics.Keyring(held.Ring.Generation, countKeys(held.Ring, keyring))
}

// explanation says why the sidecar is not ready.
func (a *Agent) explanation() string {
	problem := a.member.Problem()
	switch {
	case a.outOfReach:
		// The error itself is for the log: it holds addresses.
		return "the key cannot be read: the API server is out of reach or does not answer as it should; the log says more, and the sidecar goes on trying"
	case a.obstacle != "":
		return a.obstacle
	case problem != nil:
		return string(problem.Reason) + ": " + problem.Message
	case a.member.Held() != nil:
		return "the key ring is in memory; its acknowledgement is being confirmed"
	default:
		return "the key ring has not been read yet"
	}
}

// countKeys counts the keys in memory by what they are for.
func countKeys(r *v1alpha1.Keyring, held *envelope.Keyring) map[ring.KeyState]int {
	counts := map[ring.KeyState]int{}
	for _, id := range held.KeyIDs() {
		k := rotation.Find(r, id.String())
		switch {
		case k == nil:
		case k.ID == r.MintingKeyID:
			counts[ring.KeyMinting]++
		case k.MintingSince == nil:
			counts[ring.KeyVerifying]++
		default:
			counts[ring.KeyRetiring]++
		}
	}
	return counts
}
