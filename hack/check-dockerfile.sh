#!/usr/bin/env bash
# Checks with buildah, which needs no daemon, that the Dockerfile makes the images that are in bin/images, and that the images of both kinds start.
# The settings come from the Makefile (make image-check). Everything is kept in a folder that is removed in the end. Exits with 3 if buildah or root is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v buildah >/dev/null || { echo "no buildah: install it (apt-get install --no-install-recommends buildah on Debian)" >&2; exit 3; }
[ "$(id -u)" = 0 ] || { echo "not root: buildah's chroot isolation needs it" >&2; exit 3; }

work=$(mktemp -d)
storage=(--storage-driver vfs --root "$work/root" --runroot "$work/run")
buildah() { command buildah "${storage[@]}" "$@"; }
trap 'rm -rf "$work"' EXIT
export CONTAINER_TOOL="buildah ${storage[*]}" TMPDIR=$work

failed=0
fail() { echo "image-check: $*" >&2; failed=1; }

# starts IMAGE NAME runs the binary. What it prints is not looked at, since buildah 1.28 loses the output of a short process now and then.
starts() {
  local container
  container=$(buildah from --pull-never "$1")
  buildah run --isolation chroot "$container" -- "/$2" --version >/dev/null || fail "$2 does not start in $1"
  buildah rm "$container" >/dev/null
}

for name in manager sidecar; do
  tag=localhost/requeststate-$name:$IMAGE_TAG archive=bin/images/requeststate-$name.tar
  # Its own label apart, which tells buildah's version.
  hack/image.sh engine "$name" --isolation chroot --identity-label=false --quiet >/dev/null
  buildah push --quiet "$tag" "docker-archive:$work/$name.tar:requeststate-$name:$IMAGE_TAG" >/dev/null
  bin/image -describe "$archive" >"$work/archive"
  bin/image -describe "$work/$name.tar" >"$work/engine"
  diff -u --label "$archive" --label "Dockerfile, target $name" "$work/archive" "$work/engine" || fail "$name: the two builds differ"

  if [ "$GOARCH" = "$(go env GOHOSTARCH)" ]; then
    starts "$tag" "$name"
    buildah rmi "$tag" >/dev/null
    # An engine takes the archive, too.
    starts "$(buildah pull --quiet "docker-archive:$archive")" "$name"
  else
    echo "image-check: $name for $GOARCH is not started on $(go env GOHOSTARCH)"
  fi
done
[ $failed = 0 ] && echo "image-check: for linux/$GOARCH the Dockerfile and make images make the same images"
exit $failed
