#!/usr/bin/env bash
# Makes an image known to the cluster's container runtime. Usage: hack/cluster/load.sh FILE.tar …
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
for image in "$@"; do
  "$here/exec.sh" ctr --namespace k8s.io images import "$(realpath "$image")"
done
