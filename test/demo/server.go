package main

import (
	"context"
	"flag"

	"github.com/requeststate/operator/test/deployer"
)

// serveAlone runs one server without a sidecar until it is told to stop, for the README's quick start.
func serveAlone(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo server", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:3000", "address to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := deployer.Start(*listen, *listen, deployer.Options{JSONAnswers: true})
	if err != nil {
		return err
	}
	say("an MCP server with the tools %v listens on http://%s/mcp", deployer.Tools, s.Addr)
	<-ctx.Done()
	return s.Stop()
}
