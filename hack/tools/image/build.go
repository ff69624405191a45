package main

import (
	"fmt"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const (
	// createdLabel is of the OCI image specification, annotations.md.
	createdLabel = "org.opencontainers.image.created"
	// user is nobody of any machine, and given by number: of a name Kubernetes cannot tell that it is not root (runAsNonRoot).
	user = "65532:65532"
	// path is what engines give to any image that has none.
	path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

type options struct {
	binary, tag string
	labels      map[string]string
	maxBytes    int64 // of the layer, uncompressed; 0: no limit
}

// build makes the image.
func build(o options) (v1.Image, error) {
	arch, err := architecture(o.binary)
	if err != nil {
		return nil, err
	}
	created := time.Unix(0, 0).UTC()
	if text, ok := o.labels[createdLabel]; ok {
		if created, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, fmt.Errorf("label %s: %w", createdLabel, err)
		}
	}
	entry := "/" + filepath.Base(o.binary)
	layer, size, err := newLayer(o.binary, entry)
	if err != nil {
		return nil, err
	}
	if o.maxBytes > 0 && size > o.maxBytes {
		return nil, fmt.Errorf("%s takes %d bytes uncompressed; at most %d are allowed", o.tag, size, o.maxBytes)
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: arch,
		OS:           "linux",
		Created:      v1.Time{Time: created},
		Config:       v1.Config{User: user, Entrypoint: []string{entry}, Env: []string{path}, WorkingDir: "/", Labels: o.labels},
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "COPY " + entry},
	})
}
