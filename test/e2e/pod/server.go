package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/requeststate/operator/test/deployer"
)

// serve runs the MCP server. Told to end, it goes on for a while, since those who send requests learn of it only by and by, and then lets what is under way end.
func serve(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("server", flag.ExitOnError)
	address := f.String("listen", "127.0.0.1:3000", "address to listen on")
	drain := f.Duration("drain", 3*time.Second, "for how long requests are taken after SIGTERM")
	socket := f.String("codec", "", "path of the codec's socket; the server seals by it then")
	_ = f.Parse(args)
	options := deployer.Options{}
	if *socket != "" {
		options.Protector = deployer.Codec(*socket)
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	server, err := deployer.Start(name, *address, options)
	if err != nil {
		return err
	}
	<-ctx.Done()
	time.Sleep(*drain)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

// sealOnce seals a state by the codec and opens it again.
func sealOnce(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("once", flag.ExitOnError)
	socket := f.String("codec", "/run/requeststate/codec.sock", "path of the codec's socket")
	_ = f.Parse(args)
	codec, call := deployer.Codec(*socket), json.RawMessage(`{"env":"prod"}`)
	token, err := codec.Seal(ctx, "step=1", deployer.Tools[0], call)
	if err != nil {
		return err
	}
	state, err := codec.Open(ctx, token, deployer.Tools[0], call)
	if err != nil {
		return err
	}
	if state != "step=1" || token == state {
		return errors.New("the state that came back is another")
	}
	if _, err := codec.Open(ctx, token, deployer.Tools[1], call); err == nil {
		return errors.New("a state of one tool opened for another")
	}
	fmt.Println("sealed and opened")
	return nil
}
