#!/usr/bin/env bash
# Starts a one-node Kubernetes in namespaces of its own and waits until its node is ready. Does nothing if it runs. Usage: make cluster-up
set -euo pipefail
. "$(dirname "$0")/paths.sh"
start=$SECONDS

[ "$(id -u)" = 0 ] || { echo "a cluster needs root: containers, mounts and a network of its own" >&2; exit 1; }
if node_pid >/dev/null && "$here/exec.sh" kubectl get --raw /readyz >/dev/null 2>&1; then
  echo "the cluster is up already"
  exit 0
fi
"$here/down.sh"
if [ ! -d /sys/fs/cgroup/memory ]; then
  echo "this machine has cgroups of version 2 only, for which these scripts were never tried; run the tests against kind: docs/cluster.md" >&2
  exit 1
fi
"$here/runtime.sh"
"$root/hack/tools/control-plane.sh" etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy
[ -e "$pause" ] || { echo "no $pause: run make cluster-up" >&2; exit 1; }

mkdir -p "$state/logs" "$state/images" "$state/volumeplugins"
cp "$pause" "$state/images/"
: >"$state/resolv.conf"
"$here/pki.sh" "$state/pki" $node_ip

(
  # A cgroup of the cluster's own, which cluster-down can remove. A new one in cpuset is empty and takes no process until it has processors and memory.
  while read -r folder; do
    mkdir -p "$folder"
    for setting in cpuset.cpus cpuset.mems; do
      [ ! -e "$folder/$setting" ] || cat "$folder/../$setting" >"$folder/$setting"
    done
    echo "$BASHPID" >"$folder/cgroup.procs"
  done < <(cgroup_folders)
  exec setsid unshare --mount --cgroup --net --pid --uts --fork --mount-proc --kill-child "$here/node.sh" </dev/null >"$state/logs/node.log" 2>&1
) &
unshare_pid=$!
for _ in $(seq 100); do
  pgrep -P $unshare_pid -f hack/cluster/node.sh >"$state/node.pid" && break
  kill -0 $unshare_pid 2>/dev/null || break
  sleep 0.05
done

# ready is whether the node is, and whether Services and default service accounts work.
ready() {
  "$here/exec.sh" kubectl wait --for=condition=Ready node/node1 --timeout=1s && "$here/exec.sh" kubectl get serviceaccount default
} >/dev/null 2>&1
for _ in $(seq 120); do
  if ready; then
    echo "the cluster is up after $((SECONDS - start)) s; try: hack/cluster/exec.sh kubectl get nodes"
    exit 0
  fi
  node_pid >/dev/null || break
  sleep 0.5
done
echo "the cluster does not come up; the end of its logs in $state/logs:" >&2
tail -n 5 "$state"/logs/*.log >&2
exit 1
