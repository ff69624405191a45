// Command sidecar stands beside an MCP server in its pod: it joins the ring of a RequestStateKey and seals and opens requestState with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/requeststate/operator/internal/nodump"
	_ "github.com/requeststate/operator/internal/roots"
)

// version is set when the binary is linked.
var version = "dev"

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "sidecar: %v\nSee sidecar --help.\n", err)
		os.Exit(exitUsage)
	case o.version:
		fmt.Println(version)
		return
	}
	logger := o.logger()
	// The libraries' own lines take the same form.
	klog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	silenceStdLog(logger)
	if err := nodump.Disable(); err != nil {
		logger.Warn("the memory of this process, which holds keys, is not kept out of core dumps", "error", err.Error())
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o, logger)
	stop()
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "sidecar: %v\nSee sidecar --help.\n", err)
		os.Exit(exitUsage)
	case err != nil:
		logger.Error("the sidecar stopped", "error", err.Error())
		os.Exit(exitFailed)
	}
}
