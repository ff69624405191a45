#!/usr/bin/env bash
# Ends the cluster and removes everything that it left. Does nothing if there is none. Usage: hack/cluster/down.sh
set -euo pipefail
. "$(dirname "$0")/paths.sh"

if pid=$(node_pid); then
  kill -9 "$pid" # PID 1 of its namespace: the kernel ends every process in it, and with them go mounts and network
  while [ -e "/proc/$pid" ]; do sleep 0.05; done
fi
while read -r folder; do
  [ -d "$folder" ] || continue
  for _ in $(seq 100); do
    find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
    [ -d "$folder" ] || break
    sleep 0.05 # the last processes are still ending
  done
done < <(cgroup_folders)
rm -rf "$state"
