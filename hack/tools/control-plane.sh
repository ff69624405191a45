#!/usr/bin/env bash
# Builds the control plane that the tests and the demo run on, and the other parts of a cluster, from Go modules, into bin/k8s.
# A binary that is there already with the pinned version is kept. Usage: hack/tools/control-plane.sh [NAME ...], default etcd kube-apiserver;
# further names: kubectl kube-controller-manager kube-scheduler kubelet kube-proxy.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/bin/k8s
etcd_version=v3.7.3
k8s_version=v1.37.2

# The version that a component of Kubernetes reports is set at link time; CEL compatibility and /version depend on it.
version_pkg=k8s.io/component-base/version
ldflags="-s -w -X $version_pkg.gitVersion=$k8s_version -X $version_pkg.gitMajor=1 -X $version_pkg.gitMinor=37"
ldflags+=" -X $version_pkg.gitTreeState=clean -X $version_pkg.gitCommit=module-proxy -X $version_pkg.buildDate=2026-01-01T00:00:00Z"
ldflags+=" -X k8s.io/client-go/pkg/version.gitVersion=$k8s_version -X k8s.io/client-go/pkg/version.gitMajor=1 -X k8s.io/client-go/pkg/version.gitMinor=37"

# build NAME VERSION MODULE PACKAGE ESTIMATE builds into a temporary name and renames, so that an interrupted build leaves nothing half done.
build() {
  local name=$1 version=$2 module=$3 pkg=$4 estimate=$5 start=$SECONDS
  if [ -x "$out/$name" ] && [ "$(cat "$out/$name.version" 2>/dev/null)" = "$version" ]; then
    return
  fi
  echo "building $name $version from its Go module; $estimate on 2 cores, once" >&2
  (cd "$root/hack/tools/$module" && CGO_ENABLED=0 go build -trimpath -ldflags="$ldflags" -o "$out/$name.tmp" "$pkg")
  mv "$out/$name.tmp" "$out/$name"
  echo "$version" >"$out/$name.version"
  echo "built $name in $((SECONDS - start)) s" >&2
}

mkdir -p "$out"
[ $# -gt 0 ] || set -- etcd kube-apiserver
for name in "$@"; do
  case $name in
  etcd) build etcd $etcd_version etcd go.etcd.io/etcd/server/v3 "1 to 2 minutes" ;;
  kube-apiserver | kubectl | kube-controller-manager | kube-scheduler | kubelet | kube-proxy)
    build "$name" $k8s_version k8s "k8s.io/kubernetes/cmd/$name" "up to 12 minutes, less after another of Kubernetes' parts," ;;
  *) sed -n '2,4s/^# //p' "$0" >&2; echo "$0: unknown component $name" >&2; exit 2 ;;
  esac
done
