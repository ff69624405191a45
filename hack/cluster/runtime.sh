#!/usr/bin/env bash
# Unpacks containerd, runc and the network plugins from Debian's packages into bin/runtime, once, and installs the few commands that the node needs. No package of a
# service is installed, so nothing starts by itself. Usage: hack/cluster/runtime.sh
set -euo pipefail
. "$(dirname "$0")/paths.sh"

updated=
update() {
  command -v apt-get >/dev/null || { echo "this needs apt-get, that is Debian or Ubuntu; elsewhere run the tests against kind: docs/cluster.md" >&2; exit 1; }
  [ -n "$updated" ] || apt-get update -qq >&2
  updated=yes
}

# command:package
missing=()
for pair in ip:iproute2 nft:nftables openssl:openssl nsenter:util-linux; do
  command -v "${pair%:*}" >/dev/null || missing+=("${pair#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  update
  echo "installing ${missing[*]}" >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >&2
fi

if [ -e "$runtime/complete" ]; then exit 0; fi
update
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt downloads as another user
echo "unpacking containerd, runc and the network plugins" >&2
(cd "$work" && apt-get download -qq containerd runc containernetworking-plugins libseccomp2 >&2)
rm -rf "$runtime"
mkdir -p "$runtime"
for package in "$work"/*.deb; do
  dpkg -x "$package" "$runtime"
  basename "$package"
done >"$runtime/packages"
touch "$runtime/complete"
