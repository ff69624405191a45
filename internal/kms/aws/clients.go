package aws

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/requeststate/operator/internal/kms"
)

// Clients makes Wrappers from the process's own SDK configuration and keeps
// them, one for each key and region, so that they share credentials and
// connections. It is safe for concurrent use; the zero value is ready.
type Clients struct {
	// Options are those of every Wrapper made. Set before first use.
	Options Options
	// Load loads the configuration; nil means config.LoadDefaultConfig. It is
	// called until it succeeds once.
	Load func(context.Context) (aws.Config, error)

	mu       sync.Mutex
	cfg      *aws.Config
	wrappers map[wrapperKey]*Wrapper
}

type wrapperKey struct{ keyID, region string }

// maxWrappers bounds the cache, since resources name the keys. Wrappers are
// cheap to make anew: credentials and connections belong to the configuration.
const maxWrappers = 256

// Wrapper returns the Wrapper for keyID and region, which are those of [New].
func (c *Clients) Wrapper(ctx context.Context, keyID, region string) (*Wrapper, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := wrapperKey{keyID, region}
	if w, ok := c.wrappers[k]; ok {
		return w, nil
	}
	if c.cfg == nil {
		cfg, err := c.load(ctx)
		if err != nil {
			return nil, kms.NewError(kms.Alert, "aws configuration", kms.CodeClient,
				"the AWS configuration of this process cannot be loaded: check its AWS_ variables and profile", err)
		}
		c.cfg = &cfg
	}
	w, err := New(*c.cfg, keyID, region, c.Options)
	if err != nil {
		return nil, err
	}
	if c.wrappers == nil || len(c.wrappers) >= maxWrappers {
		c.wrappers = make(map[wrapperKey]*Wrapper)
	}
	c.wrappers[k] = w
	return w, nil
}

func (c *Clients) load(ctx context.Context) (aws.Config, error) {
	if c.Load != nil {
		return c.Load(ctx)
	}
	return config.LoadDefaultConfig(ctx)
}
