package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// serveNode does to processes of the node what a test asks for. It needs a privileged pod with the node's PID namespace.
func serveNode(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("node", flag.ExitOnError)
	address := f.String("listen", ":8095", "address to listen on")
	_ = f.Parse(args)
	mux := http.NewServeMux()
	mux.HandleFunc("/kill", answer(func(r *http.Request) error {
		if name := r.FormValue("name"); name != "" {
			return kill(func(p int) bool { return commandOf(p) == name })
		}
		return kill(inContainer(r.FormValue("container")))
	}))
	mux.HandleFunc("/cut", answer(func(r *http.Request) error {
		return route(r.FormValue("container"), r.FormValue("address"), netlink.RouteAdd)
	}))
	mux.HandleFunc("/mend", answer(func(r *http.Request) error {
		return route(r.FormValue("container"), r.FormValue("address"), netlink.RouteDel)
	}))
	return listen(ctx, *address, mux)
}

func answer(do func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(r); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		_, _ = fmt.Fprintln(w, "done")
	}
}

// processes returns the PIDs that match.
func processes(matches func(pid int) bool) (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && matches(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

func commandOf(pid int) string {
	command, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	first, _, _ := bytes.Cut(command, []byte{0})
	return filepath.Base(string(first))
}

// inContainer matches the processes whose cgroup carries the container's id.
func inContainer(id string) func(pid int) bool {
	return func(pid int) bool {
		groups, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
		return err == nil && id != "" && strings.Contains(string(groups), id)
	}
}

func kill(matches func(pid int) bool) error {
	pids, err := processes(matches)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return errors.New("no such process")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// route adds or removes, in the network namespace of a container, a route to an address that leads nowhere.
func route(container, address string, change func(*netlink.Route) error) error {
	pids, err := processes(inContainer(container))
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return errors.New("no such process")
	}
	ip := net.ParseIP(address)
	if ip == nil {
		return errors.New("address: not an IP address")
	}
	// The thread is never unlocked and ends with the goroutine: it is in another namespace.
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- func() error {
			ns, err := netns.GetFromPid(pids[0])
			if err != nil {
				return err
			}
			defer func() { _ = ns.Close() }()
			if err := netns.Set(ns); err != nil {
				return err
			}
			return change(&netlink.Route{Dst: &net.IPNet{IP: ip.To4(), Mask: net.CIDRMask(32, 32)}, Type: syscall.RTN_BLACKHOLE})
		}()
	}()
	return <-result
}
