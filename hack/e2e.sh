#!/usr/bin/env bash
# Runs the end-to-end tests. With KUBECONFIG set: on that cluster, whose nodes must have the images already. Else on the cluster of hack/cluster, which is started for it and
# ended afterwards, unless it was up before. Without flags, the README's commands for a cluster are run there as well. Usage: make e2e; flags go to go test.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tests=(-tags e2e -count=1 -v -timeout 30m "$@" ./e2e)

if [ -n "${KUBECONFIG:-}" ]; then
  cd test
  exec go test "${tests[@]}"
fi

if ! hack/cluster/exec.sh true 2>/dev/null; then
  trap '"$root/hack/cluster/down.sh"' EXIT
fi
hack/cluster/up.sh
hack/cluster/load.sh bin/images/requeststate-{manager,sidecar,e2e-pod}.tar
cd test
go test -exec "$root/hack/cluster/exec.sh" "${tests[@]}"
[ $# -gt 0 ] || "$root/hack/readme-on-a-cluster.sh"
