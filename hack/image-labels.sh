#!/usr/bin/env bash
# Prints the OCI labels of an image, KEY=VALUE in lines: the one place where both builds, with and without a container engine, have them from.
# The time is that of the commit, so that the same commit makes the same image; SOURCE_DATE_EPOCH, in seconds, is used instead if it is set. Outside a git
# repository, as in an unpacked archive of the sources, what is not known is left out. Usage: hack/image-labels.sh manager|sidecar VERSION
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 version=$2

case $name in
manager) description="Kubernetes controller that rotates the keys of MCP requestState" ;;
sidecar) description="Sidecar that seals and opens MCP requestState for the server in its pod" ;;
*) echo "no image $name: manager and sidecar are known" >&2 && exit 2 ;;
esac

label() { printf 'org.opencontainers.image.%s=%s\n' "$1" "$2"; }
label title "requeststate-$name"
label description "$description"
label version "$version"
label source https://github.com/requeststate/operator
label licenses Apache-2.0
seconds=${SOURCE_DATE_EPOCH:-}
# Only the repository of this folder: the sources may have been unpacked inside of another.
if [ -e .git ] && revision=$(git rev-parse HEAD 2>/dev/null); then
  label revision "$revision"
  seconds=${seconds:-$(git log -1 --format=%ct)}
fi
if [ -n "$seconds" ]; then
  # date is not the same in GNU and BSD.
  label created "$(date -u -d "@$seconds" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$seconds" +%Y-%m-%dT%H:%M:%SZ)"
fi
