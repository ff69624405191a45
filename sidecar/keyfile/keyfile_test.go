package keyfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/sidecar/agent"
)

const (
	secretText = "apiVersion: v1\nkind: Secret\nmetadata: {name: deployer-age-1f0a9c3d}\nstringData: {identity.txt: AGE-SECRET-KEY-1X}\n"
	idA        = "000000000000000a"
	idB        = "000000000000000b"
)

// keyText is a RequestStateKey as kubectl prints it, with a ring of the given generation.
func keyText(generation int, ids ...string) string {
	var keys strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&keys, "\n    - id: \"%s\"\n      wrappedKey: d3JhcHBlZA==\n      kms: {age: {recipients: [age1x]}}\n      mintingSince: \"2026-07-28T12:00:00Z\"", id)
	}
	return fmt.Sprintf(`apiVersion: requeststate.dev/v1alpha1
kind: RequestStateKey
metadata: {name: deployer, namespace: prod}
spec: {kms: {age: {recipients: [age1x]}}, revokedKeyIDs: ["%s"]}
status:
  keyring:
    format: 1
    epoch: "00000000000000e1"
    generation: %d
    keys:%s
    mintingKeyID: "%s"
    settings: {audience: prod/deployer, ttl: 10m, clockSkew: 60s, principal: {source: None}}
`, "00000000000000ff", generation, keys.String(), ids[0])
}

func TestParse(t *testing.T) {
	whole := keyText(3, idA, idB)
	key, err := Parse([]byte(secretText + "---\n" + whole))
	if err != nil {
		t.Fatal(err)
	}
	if r := key.Status.Keyring; r.Generation != 3 || len(r.Keys) != 2 || string(r.Keys[0].WrappedKey) != "wrapped" || len(key.Spec.RevokedKeyIDs) != 1 {
		t.Errorf("%+v", key)
	}
	same := strings.Replace(whole, "spec: {", "spec: {ttl: 600s, clockSkew: 1m, audience: prod/deployer, principal: {source: None, required: true}, ", 1)
	if _, err := Parse([]byte(same)); err != nil {
		t.Errorf("spec and ring agree: %v", err)
	}
	noRing, _, _ := strings.Cut(whole, "status:")
	for name, c := range map[string]struct{ text, want string }{
		"empty":               {"", "kubectl requeststate init NAME --with-ring"},
		"other kinds":         {secretText, "kubectl requeststate init NAME --with-ring"},
		"no ring":             {noRing, "kubectl requeststate init NAME --with-ring"},
		"two keys":            {whole + "---\n" + whole, "more than one"},
		"a list":              {"apiVersion: v1\nkind: List\nitems: []\n", "kubectl get requeststatekey NAME"},
		"another version":     {strings.Replace(whole, "v1alpha1", "v9", 1), "apiVersion"},
		"no namespace":        {strings.Replace(whole, ", namespace: prod", "", 1), "metadata.namespace"},
		"not YAML":            {"{{{", "not YAML"},
		"wrong type":          {strings.Replace(whole, "generation: 3", "generation: many", 1), "wrong type"},
		"epoch unquoted":      {strings.Replace(whole, `"00000000000000e1"`, "00000000000000e1", 1), "epoch"}, // a number to YAML
		"not base64":          {strings.Replace(whole, "d3JhcHBlZA==", `"***"`, 1), "wrong type"},
		"minting key missing": {strings.Replace(whole, `mintingKeyID: "`+idA, `mintingKeyID: "00000000000000cc`, 1), "minting key"},
		"later format":        {strings.Replace(whole, "format: 1", "format: 2", 1), "format"},
		"epoch's name":        {strings.Replace(whole, `"00000000000000e1"`, "00000000000000e1", 1), "status.keyring.epoch has the wrong type"},
		"misspelt":            {strings.Replace(whole, "clockSkew:", "clockskew:", 1), "status.keyring.settings.clockskew"},
		"principal misspelt":  {strings.Replace(whole, "source: None", "sorce: JWT", 1), "status.keyring.settings.principal.sorce"},
		"jwt without source":  {strings.Replace(whole, "source: None", "source: None, jwt: {issuer: https://x, audiences: [a]}", 1), "jwt is set exactly if source is JWT"},
		"twice":               {strings.Replace(whole, "format: 1", "format: 1\n    format: 1", 1), "twice"},
		"spec's ttl":          {strings.Replace(whole, "spec: {", "spec: {ttl: 3m, ", 1), "spec.ttl differs from status.keyring.settings.ttl"},
		"spec's skew":         {strings.Replace(whole, "spec: {", "spec: {clockSkew: 3s, ", 1), "spec.clockSkew differs"},
		"spec's audience":     {strings.Replace(whole, "spec: {", "spec: {audience: other, ", 1), "spec.audience differs"},
		"spec's principal":    {strings.Replace(whole, "spec: {", "spec: {principal: {source: Header, header: {name: X-User, trustedProxies: [10.0.0.0/8]}}, ", 1), "spec.principal differs"},
		"too large":           {whole + strings.Repeat("#", MaxBytes), "larger"},
		"many documents":      {strings.Repeat("---\na: b\n", 100), "documents"},
	} {
		if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

// A file that is being written must never pass for a ring with fewer keys.
func TestNoBeginningOfAFilePassesForIt(t *testing.T) {
	whole := keyText(3, idA, idB)
	for n := range len(whole) {
		key, err := Parse([]byte(whole[:n]))
		if err == nil && (len(key.Status.Keyring.Keys) != 2 || key.Status.Keyring.Settings.Audience != "prod/deployer") {
			t.Errorf("the first %d bytes pass for a ring of %d keys", n, len(key.Status.Keyring.Keys))
		}
	}
}

func TestErrorsHoldNothingOfTheFile(t *testing.T) {
	const secret = "AGE-SECRET-KEY-1SECRET"
	for _, text := range []string{secret, "a: [" + secret, "kind: RequestStateKey\napiVersion: " + secret, "kind: [" + secret + "]",
		strings.Replace(keyText(1, idA), "generation: 1", "generation: "+secret, 1),
		strings.Replace(keyText(1, idA), `epoch: "00000000000000e1"`, "epoch: "+secret, 1),
		strings.Replace(keyText(1, idA), `- id: "`+idA, `- id: "`+secret, 1)} {
		if _, err := Parse([]byte(text)); err == nil || strings.Contains(err.Error(), "SECRET-KEY") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(keyText(3, idA, idB)))
	f.Add([]byte(secretText + "---\n" + keyText(1, idA)))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("kind: RequestStateKey\napiVersion: requeststate.dev/v1alpha1\nstatus: {keyring: {keys: [null]}}\n"))
	f.Add([]byte("? {a: b}\n: !!binary x\n--- \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := Parse(text)
		if err == nil && (key.Status.Keyring == nil || rotation.CheckRing(key.Status.Keyring) != nil) {
			t.Error("a ring passed that must not be used")
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	// As editors and kubectl's users do it: whole, under another name, then renamed.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// watch starts a Source on a file and returns what its watch shows.
func watch(t *testing.T, path string) (*Source, <-chan rotation.View) {
	t.Helper()
	s := New(path, time.Millisecond, nil)
	views := make(chan rotation.View)
	go s.Watch(t.Context(), func(v rotation.View) {
		select {
		case views <- v:
		case <-t.Context().Done():
		}
	})
	return s, views
}

func next(t *testing.T, views <-chan rotation.View) rotation.View {
	t.Helper()
	select {
	case v := <-views:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("the watch shows nothing")
		return rotation.View{}
	}
}

func TestChangesAreSeenAndWhatIsMalformedIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.yaml")
	s, views := watch(t, path)
	var unreadable *agent.Unreadable
	if _, err := s.Get(t.Context()); !errors.As(err, &unreadable) {
		t.Errorf("no file: %v", err)
	}
	write(t, path, keyText(1, idA))
	if v := next(t, views); v.Ring.Generation != 1 || v.UID == "" || len(v.Revoked) != 1 {
		t.Errorf("%+v", v)
	}
	write(t, path, keyText(2, idA)[:300])
	// Whatever is half written is passed over; what comes next is the next good one.
	write(t, path, keyText(3, idA, idB))
	if v := next(t, views); v.Ring.Generation != 3 || len(v.Revoked) != 1 || v.Revoked[0] != "00000000000000ff" {
		t.Errorf("%+v", v)
	}
	write(t, path, strings.Replace(keyText(4, idA), "name: deployer", "name: another", 1))
	if _, err := s.Get(t.Context()); !errors.As(err, &unreadable) || !strings.Contains(err.Error(), "restart") {
		t.Errorf("another key: %v", err)
	}
}

func TestAFileThatIsBeingWrittenIsNotTaken(t *testing.T) {
	var l looks
	var got []byte
	for _, content := range []byte("aabbbacddaad") {
		if l.settledAnew([32]byte{content}) {
			got = append(got, content)
		}
	}
	if string(got) != "abda" {
		t.Errorf("taken: %s", got)
	}
}

// A mounted ConfigMap changes by the swap of a symbolic link to a folder.
func TestAConfigMapsSwapIsSeen(t *testing.T) {
	dir := t.TempDir()
	publish := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "key.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	publish("v1", keyText(1, idA))
	if err := os.Symlink(filepath.Join("..data", "key.yaml"), filepath.Join(dir, "key.yaml")); err != nil {
		t.Fatal(err)
	}
	_, views := watch(t, filepath.Join(dir, "key.yaml"))
	if v := next(t, views); v.Ring.Generation != 1 {
		t.Errorf("%+v", v)
	}
	publish("v2", keyText(2, idA, idB))
	if v := next(t, views); v.Ring.Generation != 2 {
		t.Errorf("%+v", v)
	}
}

func TestNotAFile(t *testing.T) {
	s := New(t.TempDir(), 0, nil)
	var unreadable *agent.Unreadable
	if _, err := s.Get(t.Context()); !errors.As(err, &unreadable) || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("%v", err)
	}
}
