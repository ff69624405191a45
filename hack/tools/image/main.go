// Command image makes a container image of one static binary, without a container engine and without a base image, and writes it as an archive that docker load,
// podman load, ctr images import and kind load image-archive take.
//
// The image holds the binary and nothing else. The same binary and flags make the same bytes, on whatever machine and whenever.
//
// With -describe it reads an archive, of its own or an engine's, and prints what the image does and holds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	var o options
	var out, described string
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", "", "path of a static ELF binary; it becomes /NAME and the entry point")
	flags.StringVar(&o.tag, "tag", "", "NAME:TAG of the image")
	flags.StringVar(&out, "out", "", "path of the archive")
	flags.StringVar(&described, "describe", "", "path of an archive to print instead of making one")
	flags.Int64Var(&o.maxBytes, "max-bytes", 0, "fail if the image takes more bytes uncompressed; 0: no limit")
	o.labels = map[string]string{}
	flags.Func("label", "KEY=VALUE, repeatable; "+createdLabel+" is the time of creation as well, which is 1970 without it", o.addLabel)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if described != "" && flags.NFlag() == 1 && flags.NArg() == 0 {
		return describe(described, stdout)
	}
	if described != "" || o.binary == "" || o.tag == "" || out == "" || flags.NArg() > 0 {
		return errors.New("give -binary, -tag and -out, or -describe alone, and no arguments")
	}
	image, err := build(o)
	if err != nil {
		return err
	}
	return write(image, o.tag, out)
}

func (o *options) addLabel(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("want KEY=VALUE")
	}
	o.labels[key] = value
	return nil
}
