package simulator

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden logs")

// TestGoldenLogs runs every scenario with one processor and with two, and compares what happened with its golden log.
func TestGoldenLogs(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			log := withProcessors(1, func() string { return simulate(t, s.seed, s.run) })
			again := withProcessors(2, func() string { return simulate(t, s.seed, s.run) })
			if line, a, b := firstDifference(log, again); line != 0 {
				t.Fatalf("two runs of seed %d differ in line %d:\n  %s\n  %s", s.seed, line, a, b)
			}
			log = "# " + strings.ReplaceAll(s.tell, "\n", "\n# ") + "\n\n" + log
			golden := filepath.Join("testdata", s.name+".log")
			if *update {
				if err := os.WriteFile(golden, []byte(log), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if line, is, should := firstDifference(log, string(want)); line != 0 {
				t.Errorf("line %d of %s differs:\n  is     %s\n  should %s\nIf the change is meant: go test ./simulator -update, and read the difference.", line, golden, is, should)
			}
		})
	}
}

func withProcessors(n int, run func() string) string {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	return run()
}

// firstDifference returns the number of the first line in which two texts differ, and the two lines; 0: in none.
func firstDifference(a, b string) (line int, x, y string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for n := range max(len(as), len(bs)) {
		x, y = "", ""
		if n < len(as) {
			x = as[n]
		}
		if n < len(bs) {
			y = bs[n]
		}
		if x != y || (n < len(as)) != (n < len(bs)) {
			return n + 1, x, y
		}
	}
	return 0, "", ""
}
