#!/usr/bin/env bash
# Runs every fuzz target of the main module, one after the other, each for the time given (30s), and says of each how many inputs it tried.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}

failed=0
while read -r package; do
  targets=$(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true)
  for target in $targets; do
    printf '%-32s %-28s ' "${package#github.com/requeststate/operator/}" "$target"
    # Minimizing is for people who read an input; a minute per input would be most of the time.
    if out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 2s "$package" 2>&1); then
      grep -o 'execs: [0-9]*' <<<"$out" | tail -n 1
    else
      printf 'FAILED\n%s\n' "$out"
      failed=1
    fi
  done
done < <(go list -f '{{if .TestGoFiles}}{{.ImportPath}}{{end}}' ./...)
exit $failed
