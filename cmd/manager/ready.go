package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// syncPatience is how long one probe waits for the caches.
const syncPatience = 500 * time.Millisecond

// cachesSynced is ready once every cache has been filled: a manager that cannot list what it reconciles does nothing, and must not look well.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), syncPatience)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet: see the log for what cannot be listed")
		}
		return nil
	}
}
