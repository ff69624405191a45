#!/usr/bin/env bash
# Fails if something generated does not match its source. Generates beside the tree and compares; the tree stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

hack/generate.sh "$fresh" crds rbac deepcopy api-docs chart

stale=0
# check PATH TARGET compares a file or folder with its fresh twin; TARGET is what updates it.
check() {
  if ! diff -ruN "$1" "$fresh/$1"; then
    echo "stale: $1; run make $2" >&2
    stale=1
  fi
}
check config/crd/bases manifests
check config/rbac/role.yaml manifests
check api/v1alpha1/zz_generated.deepcopy.go generate
check docs/api.md api-docs
check charts/requeststate-operator/files manifests
if [ $stale = 0 ]; then
  echo "verify: CRDs, RBAC role, DeepCopy methods, API reference and the chart's copies are up to date"
fi
exit $stale
