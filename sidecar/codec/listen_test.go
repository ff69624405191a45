package codec

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func wantError(t *testing.T, l net.Listener, err error, parts ...string) {
	t.Helper()
	if err == nil {
		_ = l.Close()
		t.Fatalf("no error, want %q", parts)
	}
	for _, part := range append(parts, "--codec-listen: ") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func connect(path string) error {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func TestTheSocketIsForEveryUserAndGoesWithTheListener(t *testing.T) {
	path := filepath.Join(shortDir(t), "c.sock")
	for _, mask := range []int{0o022, 0o077, 0o177} {
		before := syscall.Umask(mask)
		l, err := Listen(t.Context(), "unix://"+path)
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != fs.ModeSocket|0o666 {
			t.Errorf("umask %o: %v, %v", mask, info.Mode(), err)
		}
		if l.Addr().Network() != "unix" || l.Addr().String() != path {
			t.Errorf("address %s", l.Addr())
		}
		if err := connect(path); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket stays: %v", err)
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
	}
}

func TestAnAddressIsUnixAndAPlainAbsolutePath(t *testing.T) {
	dir := shortDir(t)
	for _, address := range []string{
		"", "codec.sock", dir + "/c.sock", "unix:" + dir + "/c.sock", "unix://", "unix://c.sock", "unix://@codec", "unix://./c.sock",
		"tcp://127.0.0.1:0", ":8090", "127.0.0.1:0", "http://localhost/", "UNIX://" + dir + "/c.sock", "unixgram://" + dir + "/c.sock",
	} {
		l, err := Listen(t.Context(), address)
		wantError(t, l, err, "is not unix:// and an absolute path", DefaultAddress)
	}
	for _, address := range []string{"unix:///", "unix://" + dir + "/", "unix://" + dir + "//c.sock", "unix://" + dir + "/../c.sock", "unix://" + dir + "/c%20.sock", "unix://" + dir + "/c.sock?mode=0600", "unix://" + dir + "/c.sock#x", "unix://" + dir + "/c\x00.sock"} {
		l, err := Listen(t.Context(), address)
		wantError(t, l, err, "is not a plain path", DefaultAddress)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

func TestAPathTooLongForASocketIsSaidToBe(t *testing.T) {
	dir := shortDir(t)
	name := func(length int) string { return dir + "/" + strings.Repeat("x", length-len(dir)-1) }
	l, err := Listen(t.Context(), "unix://"+name(maxPath+1))
	wantError(t, l, err, "bytes, but that of a socket at most", "give a shorter one")
	l, err = Listen(t.Context(), "unix://"+name(maxPath))
	if err != nil {
		t.Fatalf("%d bytes: %v", maxPath, err)
	}
	_ = l.Close()
}

func TestTheDirectoryMustExist(t *testing.T) {
	dir := shortDir(t)
	l, err := Listen(t.Context(), "unix://"+dir+"/none/c.sock")
	wantError(t, l, err, dir+"/none does not exist", "emptyDir")
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err = Listen(t.Context(), "unix://"+dir+"/file/c.sock")
	wantError(t, l, err, dir+"/file is not a directory")
	l, err = Listen(t.Context(), "unix://"+dir+"/file/below/c.sock")
	wantError(t, l, err, dir+"/file/below is not a directory")
}

func TestAFileOrADirectoryAtThePathStays(t *testing.T) {
	dir := shortDir(t)
	if err := os.WriteFile(dir+"/file", []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/dir", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "dir", "fifo"} {
		before, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		l, err := Listen(t.Context(), "unix://"+dir+"/"+name)
		wantError(t, l, err, dir+"/"+name+" exists and is not a socket, so it stays", "give another path")
		if after, err := os.Lstat(filepath.Join(dir, name)); err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
			t.Errorf("%s: %v, %v", name, after, err)
		}
	}
	if text, err := os.ReadFile(dir + "/file"); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestASymbolicLinkIsNeitherFollowedNorRemoved(t *testing.T) {
	dir := shortDir(t)
	stale(t, dir+"/stale")
	live, err := Listen(t.Context(), "unix://"+dir+"/live")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = live.Close() }()
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"stale", "live", "file", "none", "link", dir + "/stale"} {
		link := dir + "/link"
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(t.Context(), "unix://"+link)
		wantError(t, l, err, link+" is a symbolic link, which is neither followed nor removed", "remove it")
		if got, err := os.Readlink(link); err != nil || got != target {
			t.Errorf("%s: the link is %q, %v", target, got, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"stale", "live", "file"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(dir + "/none"); err == nil {
		t.Error("a socket was made where the link points")
	}
	// The directory may be reached by one: /var/run is a link to /run.
	if err := os.Symlink(dir, dir+"/self"); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), "unix://"+dir+"/self/c.sock")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

// stale leaves a socket that nobody answers on.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestASocketThatSomebodyServesIsNotTakenOver(t *testing.T) {
	path := filepath.Join(shortDir(t), "c.sock")
	first, err := Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, err := Listen(t.Context(), "unix://"+path)
		wantError(t, l, err, "another process serves "+path, "end it, or give another path")
	}
	if err := connect(path); err != nil {
		t.Errorf("the first is gone: %v", err)
	}
	_ = first.Close()
	again, err := Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// A socket of another kind may well be served; it refuses a connection for another reason.
func TestASocketOfWhichNothingCanBeToldStays(t *testing.T) {
	path := filepath.Join(shortDir(t), "c.sock")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	got, err := Listen(t.Context(), "unix://"+path)
	wantError(t, got, err, "there is no telling whether another process serves the socket", "give another path")
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

func TestClosingLeavesASocketThatIsAnothers(t *testing.T) {
	path := filepath.Join(shortDir(t), "c.sock")
	first, err := Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil { // by hand, say
		t.Fatal(err)
	}
	second, err := Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	_ = first.Close()
	if err := connect(path); err != nil {
		t.Errorf("the second has lost its socket: %v", err)
	}
}
