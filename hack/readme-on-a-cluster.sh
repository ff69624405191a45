#!/usr/bin/env bash
# Runs the commands that the README tells a newcomer to run on a cluster, as they stand there. Usage: hack/readme-on-a-cluster.sh
set -euo pipefail
cd "$(dirname "$0")/.."
block=$(awk '/^<!-- hack\/readme-on-a-cluster.sh runs this block -->$/ {found = 1; next} found && /^```$/ {exit} found && !/^```sh$/' README.md)
[ -n "$block" ] || { echo "the README has no block for this script" >&2; exit 1; }
output=$(mktemp)
trap 'rm -f "$output"' EXIT
bash -euo pipefail -c "$block" 2>&1 | tee "$output"
tail -n 1 "$output" | grep -Eq '^deployer +RetireOld +[0-9a-f]{16} +3/3 +True ' ||
  { echo "the last line is not that of a key whose three pods hold the new data key" >&2; exit 1; }
echo "readme: the commands for a cluster work as they stand"
