#!/usr/bin/env bash
# Makes the image of one binary, as an archive by bin/image or by the Dockerfile and a container engine. The settings come from the Makefile, by the environment:
# VERSION, GOARCH, IMAGE_TAG and CONTAINER_TOOL, which may have flags of its own. Usage: hack/image.sh archive|engine manager|sidecar [FLAG...]; flags go to the engine's build
set -euo pipefail
cd "$(dirname "$0")/.."
how=$1 name=$2
shift 2
tag=requeststate-$name:$IMAGE_TAG

# Bytes, uncompressed. Each pod pulls a sidecar.
case $name in
manager) most=60000000 ;;
sidecar) most=25000000 ;;
esac
lines=$(hack/image-labels.sh "$name" "$VERSION")
labels=()
while IFS= read -r label; do labels+=(--label "$label"); done <<<"$lines"

case $how in
archive)
  mkdir -p bin/images
  bin/image -binary "bin/linux-$GOARCH/$name" -tag "$tag" -out "bin/images/requeststate-$name.tar" -max-bytes "$most" "${labels[@]}"
  ;;
engine)
  # shellcheck disable=SC2086 # the tool's flags are words of their own
  $CONTAINER_TOOL build --platform "linux/$GOARCH" --target "$name" --tag "$tag" "${labels[@]}" "$@" .
  ;;
*) echo "hack/image.sh: archive or engine, not $how" >&2 && exit 2 ;;
esac
