// Command pod is what runs in the pods of the end-to-end tests: an MCP server, clients that call it without pause, a job that seals once, and a hand on the node that kills
// and cuts off.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var commands = map[string]func(ctx context.Context, args []string) error{
	"server": serve, "client": runClients, "once": sealOnce, "node": serveNode, "idle": idle,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: pod server|client|once|node|idle [flags]")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the process ends
	}
}

// idle does nothing until it is told to end.
func idle(ctx context.Context, _ []string) error {
	<-ctx.Done()
	return nil
}

// listen serves until ctx ends.
func listen(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
