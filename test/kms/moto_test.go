package kms

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/requeststate/operator/test/child"
)

// motoServer is the process of moto_server that the tests of this package
// share; nil if none was started.
var motoServer *exec.Cmd

var errNoMoto = errors.New("moto is not installed: run make moto")

// motoURL starts moto.
var motoURL = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	python := filepath.Join(root, "bin/moto/bin/python")
	if _, err := os.Stat(python); err != nil {
		return "", errNoMoto
	}
	cmd := exec.Command(python, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0")
	// Not our environment: it reads the AWS settings too, and an empty profile is one that it cannot find.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "PYTHONUNBUFFERED=1"}
	cmd.SysProcAttr = child.Attributes()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	motoServer = cmd
	// It says where it listens once it does, and after that one line a request.
	lines := bufio.NewScanner(stderr)
	address := regexp.MustCompile(`Running on (http://127\.0\.0\.1:[0-9]+)`)
	var said []string
	for lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			go func() {
				for lines.Scan() { // a full pipe would stop it
				}
			}()
			return m[1], nil
		}
		said = append(said, lines.Text())
	}
	return "", errors.New("moto_server ended: " + strings.Join(said, "\n"))
})

func stopMoto() {
	if motoServer != nil {
		_ = motoServer.Process.Kill()
		_ = motoServer.Wait()
	}
}

// moto returns moto_server as a peer, or leaves the test out if it is not installed:
// make test downloads nothing but Go modules.
func moto(t *testing.T) *peer {
	t.Helper()
	url, err := motoURL()
	if errors.Is(err, errNoMoto) {
		t.Skipf("left out, the rest runs: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return behind(t, url)
}
