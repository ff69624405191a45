#!/usr/bin/env bash
# Makes an image known to the cluster's container runtime. Usage: hack/cluster/load.sh FILE.tar …
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
for image in "$@"; do
  [ -f "$image" ] || { echo "$image is no file: make images writes archives to bin/images" >&2; exit 1; }
  # docker save writes manifest.json, and an OCI archive has index.json. What has neither, or is compressed, the runtime refuses without saying what it wants. From
  # its standard input tar does not unpack what is compressed.
  tar tf - <"$image" 2>/dev/null | grep -xE '(\./)?(manifest|index)\.json' >/dev/null ||
    { echo "$image is no archive of an image, as make images and docker save write them: it has neither manifest.json nor index.json, or is compressed" >&2; exit 1; }
done
for image in "$@"; do
  "$here/exec.sh" ctr --namespace k8s.io images import "$(realpath "$image")"
done
