#!/usr/bin/env bash
# Generates what is derived from the API types and the controllers' markers, below a folder: "." updates the tree, any other leaves the tree as it is.
# Usage: hack/generate.sh FOLDER crds|rbac|deepcopy|api-docs|chart ...
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."

for what in "$@"; do
  case $what in
  crds)
    bin/controller-gen crd paths=./api/... output:crd:dir="$out/config/crd/bases"
    # The format date-time admits texts that Go does not parse. Our own fields have a pattern against them; metav1.Condition, a type of others, gets it here.
    for crd in "$out"/config/crd/bases/*.yaml; do
      awk -v pattern='pattern: ^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?Z$' '
        held { if ($1 != "pattern:") { match(held, /^ */); print substr(held, 1, RLENGTH) pattern }; held = "" }
        { print }
        $1 == "format:" && $2 == "date-time" { held = $0 }' "$crd" >"$crd.tmp"
      mv "$crd.tmp" "$crd"
    done
    ;;
  rbac) bin/controller-gen rbac:roleName=requeststate-manager-role paths=./controllers/... output:rbac:dir="$out/config/rbac" ;;
  deepcopy) bin/controller-gen object paths=./api/v1alpha1 output:object:dir="$out/api/v1alpha1" ;;
  api-docs)
    mkdir -p "$out/docs"
    bin/crd-ref-docs --log-level=ERROR --source-path=api --config=hack/api-docs/config.yaml --templates-dir=hack/api-docs/templates \
      --renderer=markdown --output-path="$out/docs/api.md"
    # For GitHub's Markdown: no HTML but <br />, no escaped braces, "Optional" left out as the usual case; and no runs of blank lines, which the templates leave.
    sed -e 's/</\&lt;/g; s/&lt;br \/>/<br \/>/g; s/\\\([{}]\)/\1/g; s/Required: {}/Required/g; s/Optional: {} <br \/>//g; s/[[:space:]]*$//' \
      "$out/docs/api.md" | cat -s >"$out/docs/api.md.tmp"
    mv "$out/docs/api.md.tmp" "$out/docs/api.md"
    ;;
  chart)
    # The chart's copies of what is the same for every release. Its templates read them.
    chart=$out/charts/requeststate-operator/files
    rm -rf "$chart"
    for file in config/crd/bases/*.yaml config/rbac/*.yaml config/policy/*.yaml config/injection/*.yaml; do
      case $file in */kustomization.yaml) continue ;; esac
      part=${file#config/}
      copy=$chart/${part%%/*}/${file##*/}
      mkdir -p "${copy%/*}"
      { echo "# A copy of $file, by make manifests."; cat "$file"; } >"$copy"
    done
    ;;
  *) echo "$0: unknown: $what" >&2; exit 2 ;;
  esac
done
