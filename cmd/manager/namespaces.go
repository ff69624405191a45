package main

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// checkNamespaces judges the value of --watch-namespaces. An empty one is refused: where it comes from an empty variable, it would mean every namespace.
func checkNamespaces(given bool, namespaces []string) error {
	if given && len(namespaces) == 0 {
		return errors.New("--watch-namespaces: names no namespace; leave the flag out to watch all")
	}
	for i, name := range namespaces {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("--watch-namespaces: %q is no name of a namespace; write NAME,NAME", name)
		}
		if slices.Contains(namespaces[:i], name) {
			return fmt.Errorf("--watch-namespaces: %s is there twice", name)
		}
	}
	return nil
}
