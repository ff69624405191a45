#!/usr/bin/env bash
# Ends the cluster and removes everything that it left. Does nothing if there is none. Usage: hack/cluster/down.sh
set -euo pipefail
. "$(dirname "$0")/paths.sh"

alone
# PID 1 of its namespace: the kernel ends every process in it, and with them go mounts and network.
if pid=$(node_pid); then kill -9 "$pid"; fi
while read -r folder; do
  for _ in $(seq 200); do
    [ -d "$folder" ] || break
    # What an interrupted start left has no PID 1 that is known.
    { find "$folder" -name cgroup.procs -exec cat {} + | while read -r pid; do kill -9 "$pid"; done; } 2>/dev/null || true
    find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
    sleep 0.05 # the last processes are still ending
  done
done < <(cgroup_folders)
rm -rf "$state"
