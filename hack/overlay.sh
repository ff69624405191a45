#!/usr/bin/env bash
# Writes a kustomization: config/default with the given images. FOLDER is below the root of the repository.
# Usage: hack/overlay.sh FOLDER MANAGER-IMAGE SIDECAR-IMAGE
set -euo pipefail
[ $# = 3 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
# The sidecar's image becomes a text of CEL: nothing may end it early.
reference='^[a-zA-Z0-9][a-zA-Z0-9._-]*(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$'
for image in "$2" "$3"; do
  [[ $image =~ $reference ]] || { echo "$0: $image is no reference to an image" >&2; exit 2; }
done
mkdir -p "$1"
# shellcheck disable=SC2001 # a pattern of the shell cannot say "all but slashes"
up=$(sed 's#[^/]\{1,\}#..#g' <<<"${1%/}") # kustomize takes no absolute path
cat >"$1/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- $up/config/default
patches:
- target: {kind: Deployment, name: requeststate-manager}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/image, value: "$2"}
- target: {kind: MutatingAdmissionPolicy, name: requeststate-sidecar-injection}
  patch: |
    - {op: test, path: /spec/variables/0/name, value: image}
    - {op: replace, path: /spec/variables/0/expression, value: "'$3'"}
END
