package codec

import (
	"strings"
	"testing"
	"time"

	"github.com/requeststate/operator/sidecar/ring"
)

func TestZeroIsTheDefaultAndNonsenseIsRefused(t *testing.T) {
	sealer := ring.NewHolder(ring.Options{})
	handler, err := New(Config{Sealer: sealer})
	if err != nil {
		t.Fatal(err)
	}
	c := handler.(*codec).config
	if c.MaxStateBytes != DefaultMaxStateBytes || c.MaxBodyBytes != DefaultMaxBodyBytes || c.MaxConcurrent != DefaultMaxConcurrent ||
		c.BodyTimeout != DefaultBodyTimeout || c.Logger == nil || cap(handler.(*codec).active) != DefaultMaxConcurrent {
		t.Errorf("%+v", c)
	}
	for field, c := range map[string]Config{
		"Sealer":        {},
		"MaxStateBytes": {Sealer: sealer, MaxStateBytes: -1},
		"MaxBodyBytes":  {Sealer: sealer, MaxBodyBytes: MaxLimit + 1},
		"MaxConcurrent": {Sealer: sealer, MaxConcurrent: -1},
		"BodyTimeout":   {Sealer: sealer, BodyTimeout: -time.Second},
	} {
		if handler, err := New(c); err == nil || handler != nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, %v", field, handler, err)
		}
	}
}
