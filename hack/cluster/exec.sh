#!/usr/bin/env bash
# Runs a command inside the cluster's namespaces, with KUBECONFIG and kubectl. Usage: hack/cluster/exec.sh COMMAND …
set -euo pipefail
. "$(dirname "$0")/paths.sh"
[ $# -gt 0 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
pid=$(node_pid) || { echo "there is no cluster: make cluster-up" >&2; exit 1; }
export PATH=$k8s:$root/bin:$runtime/usr/bin:$PATH KUBECONFIG=$inside/pki/admin.kubeconfig
exec nsenter --target "$pid" --mount --net --pid --uts --cgroup --wd="$PWD" -- "$@"
