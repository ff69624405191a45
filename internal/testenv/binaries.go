package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// assetsVariable is the variable under which every envtest user expects to name a folder with etcd and kube-apiserver.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Binaries returns the folder that holds etcd and kube-apiserver: KUBEBUILDER_ASSETS if that is set, else bin/k8s in the repository. The error, if one of
// them is missing, says how to get it.
func Binaries() (string, error) {
	dir, remedy := os.Getenv(assetsVariable), "unset "+assetsVariable+", or let it name a folder that holds it"
	if dir == "" {
		root, err := Root()
		if err != nil {
			return "", err
		}
		dir, remedy = filepath.Join(root, "bin", "k8s"), "run make control-plane"
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return "", fmt.Errorf("no %s in %s: %s", name, dir, remedy)
		}
	}
	return dir, nil
}

// Root returns the root of the repository, found upwards from the working folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if info, err := os.Stat(filepath.Join(dir, "config", "crd", "bases")); err == nil && info.IsDir() {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no config/crd/bases in the working folder or above it: run this inside the repository")
		}
		dir = parent
	}
}
