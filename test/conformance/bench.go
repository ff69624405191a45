package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/requeststate/operator/internal/testport"
	"github.com/requeststate/operator/test/conformance/plain"
)

// bench runs the suite against a server, bare or behind a sidecar, each time with processes of its own. Nothing of them is left when a method returns.
type bench struct {
	suite    suite
	binaries string // folder with sidecar and everything-server
	dir      string // for logs and results
}

// newBench returns a bench, or an error that says what is missing and how it is made.
func newBench(binaries, dir string) (*bench, error) {
	installed := filepath.Join(binaries, "conformance-suite")
	b := &bench{binaries: binaries, dir: dir, suite: suite{
		node:   filepath.Join(installed, "node"),
		script: filepath.Join(installed, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"),
	}}
	for _, path := range []string{b.suite.node, b.suite.script, b.binary("sidecar"), b.binary("everything-server")} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%w: run make conformance", err)
		}
	}
	return b, nil
}

func (b *bench) binary(name string) string { return filepath.Join(b.binaries, name) }

// everything runs the suite against go-sdk's own server for it.
func (b *bench) everything(ctx context.Context, l leg, proxied bool) (r report, err error) {
	dir, err := b.folder(l.revision, proxied)
	if err != nil {
		return r, err
	}
	address, err := testport.Free()
	if err != nil {
		return r, err
	}
	server, err := startProcess(ctx, dir, "everything-server", b.binary("everything-server"), "-http", address, fmt.Sprintf("-stateless=%t", !l.sessions))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := server.await(ctx, "http://"+address, true); err != nil {
		return r, err
	}
	return b.measure(ctx, dir, address, proxied, l.args)
}

// plain runs the suite against the server of package plain, which has only what the input-required-result scenarios ask for. All others fail.
func (b *bench) plain(ctx context.Context, jsonAnswers, proxied bool, args []string) (r report, err error) {
	dir, err := b.folder(fmt.Sprintf("plain-json-%t", jsonAnswers), proxied)
	if err != nil {
		return r, err
	}
	server, err := plain.Start(jsonAnswers)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	return b.measure(ctx, dir, server.Addr, proxied, args)
}

// measure runs the suite against the server at address, or against a sidecar in front of it.
func (b *bench) measure(ctx context.Context, dir, address string, proxied bool, args []string) (r report, err error) {
	if proxied {
		front, err := testport.Free()
		if err != nil {
			return r, err
		}
		health, err := testport.Free()
		if err != nil {
			return r, err
		}
		sidecar, err := startProcess(ctx, dir, "sidecar", b.binary("sidecar"),
			"--dev", "--codec-listen=", "--upstream", "http://"+address, "--proxy-listen", front, "--health-listen", health)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, sidecar.stop()) }()
		if err := sidecar.await(ctx, "http://"+health+"/readyz", false); err != nil {
			return r, err
		}
		address = front
	}
	return b.suite.run(ctx, filepath.Join(dir, "suite"), address, args...)
}

// folder makes the folder of one run.
func (b *bench) folder(name string, proxied bool) (string, error) {
	if proxied {
		name += "-proxied"
	} else {
		name += "-bare"
	}
	dir := filepath.Join(b.dir, name)
	return dir, os.Mkdir(dir, 0o750)
}
