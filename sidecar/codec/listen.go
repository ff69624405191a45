package codec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

const (
	// DefaultAddress is where the codec listens unless told otherwise.
	DefaultAddress = scheme + "/run/requeststate/codec.sock"

	// Flag is what errors of Listen name.
	Flag = "--codec-listen"

	scheme = "unix://"
	// socketMode lets every user of the containers that mount the directory
	// connect: they run as others than the sidecar does.
	socketMode = 0o666
)

// maxPath is how long the path of a socket may be; a NUL ends it.
const maxPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// Listen opens the socket at address, which is "unix://" and an absolute path,
// with mode 0666. A socket that nobody answers on, such as a process leaves that
// was killed, is removed first. Whatever else is at the path stays, and is an
// error: a socket that somebody serves, a file, a directory, a symbolic link,
// which is never followed either. The directory must exist. One process at a time
// may start at a path.
//
// Closing the listener removes the socket, unless another has taken its place.
// Errors name the flag and what to do.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Flag, err)
	}
	return l, nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	path, err := socketPath(address)
	if err != nil {
		return nil, err
	}
	dir, err := openDirectory(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	s := &socket{dir: dir, name: filepath.Base(path)}
	if err := s.open(ctx, path); err != nil {
		_ = dir.Close() // it was only read
		return nil, err
	}
	return s, nil
}

// socketPath returns the path of an address. It is taken literally, so letters
// that mean something in a URL are refused.
func socketPath(address string) (string, error) {
	path, ok := strings.CutPrefix(address, scheme)
	switch {
	case !ok || !strings.HasPrefix(path, "/"):
		return "", fmt.Errorf("%q is not unix:// and an absolute path; give one such as %s", address, DefaultAddress)
	case path != filepath.Clean(path) || path == "/" || strings.ContainsAny(path, "%?#\x00"):
		return "", fmt.Errorf("%q is not a plain path: it must have no dot segment, no double or final slash, and none of %%, ? and #; give one such as %s", address, DefaultAddress)
	case len(path) > maxPath:
		return "", fmt.Errorf("the path has %d bytes, but that of a socket at most %d; give a shorter one", len(path), maxPath)
	}
	return path, nil
}

// openDirectory opens the socket's directory, so that what is done in it later is
// done there and nowhere else, whatever links somebody puts into it.
func openDirectory(path string) (*os.Root, error) {
	dir, err := os.OpenRoot(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the directory %s does not exist; mount a volume there that the app's container mounts too, such as an emptyDir", path)
	case errors.Is(err, syscall.ENOTDIR) || isFile(path):
		return nil, fmt.Errorf("%s is not a directory; give a path in one", path)
	case err != nil:
		return nil, fmt.Errorf("the directory cannot be opened: %w; let the sidecar's user read and write it", err)
	}
	return dir, nil
}

// isFile reports whether there is something at the path that is no directory; os.OpenRoot has no error of its own for that.
func isFile(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // the path is the one that the flag names
	return err == nil && !info.IsDir()
}

// A socket is a net.Listener that removes its own file only.
type socket struct {
	net.Listener
	dir  *os.Root
	name string
	self fs.FileInfo
	once sync.Once
}

func (s *socket) open(ctx context.Context, path string) error {
	if err := s.clearWay(ctx, path); err != nil {
		return err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", path)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s has come to be a moment ago; see to it that one sidecar at a time starts with this path", path)
	case err != nil:
		return fmt.Errorf("the socket cannot be made: %w; let the sidecar's user write to its directory", err)
	}
	// Not os.Chmod, which follows a link that somebody has just put there.
	err = s.dir.Chmod(s.name, socketMode)
	if err == nil {
		s.self, err = s.dir.Lstat(s.name)
	}
	if err != nil {
		_ = l.Close() // and with it goes the socket
		return fmt.Errorf("the socket's mode cannot be set: %w; let nothing else write to its directory", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // Close looks before
	}
	s.Listener = l
	return nil
}

// clearWay sees to it that there is nothing at the path, or returns an error.
func (s *socket) clearWay(ctx context.Context, path string) error {
	found, err := s.dir.Lstat(s.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("what is at the path cannot be seen: %w; let the sidecar's user read its directory", err)
	case found.Mode().Type() == fs.ModeSymlink:
		return fmt.Errorf("%s is a symbolic link, which is neither followed nor removed; remove it, or give the path that it stands for", path)
	case found.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket, so it stays; remove it, or give another path", path)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // nothing was said
		return fmt.Errorf("another process serves %s; end it, or give another path", path)
	case errors.Is(err, syscall.ENOENT):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("there is no telling whether another process serves the socket: %w; end it and remove the socket, or give another path", err)
	}
	if err := s.dir.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a socket that nobody serves cannot be removed: %w; remove it, or let the sidecar's user write to its directory", err)
	}
	return nil
}

// Close removes the socket and stops listening.
func (s *socket) Close() error {
	s.once.Do(func() {
		// The name first, so that callers find no socket rather than one that
		// nobody answers on.
		if now, err := s.dir.Lstat(s.name); err == nil && os.SameFile(now, s.self) {
			_ = s.dir.Remove(s.name) // the next start removes it
		}
		_ = s.dir.Close() // it was only read
	})
	return s.Listener.Close()
}
