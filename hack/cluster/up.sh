#!/usr/bin/env bash
# Starts a one-node Kubernetes in namespaces of its own and waits until its node is ready. Does nothing if it runs. Usage: make cluster-up
set -euo pipefail
. "$(dirname "$0")/paths.sh"
start=$SECONDS

[ "$(id -u)" = 0 ] || { echo "a cluster needs root: containers, mounts and a network of its own" >&2; exit 1; }
alone
if node_pid >/dev/null && "$here/exec.sh" kubectl get --raw /readyz >/dev/null 2>&1; then
  echo "the cluster is up already"
  exit 0
fi
"$here/down.sh"
"$here/runtime.sh"
"$root/hack/tools/control-plane.sh" etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy
[ -e "$pause" ] || { echo "no $pause: run make cluster-up" >&2; exit 1; }

mkdir -p "$state/logs" "$state/images" "$state/volumeplugins"
cp "$pause" "$state/images/"
: >"$state/resolv.conf"
"$here/pki.sh" "$state/pki" $node_ip

# A cgroup of the cluster's own, which cluster-down can remove.
while read -r folder; do
  if unified; then
    # What the machine has, and nobody has forbidden: node.sh says what is missing.
    for controller in cpu cpuset memory pids io hugetlb; do echo +$controller >/sys/fs/cgroup/cgroup.subtree_control; done 2>/dev/null || true
    mkdir -p "$folder/launcher"
    continue
  fi
  mkdir -p "$folder"
  # A new one in cpuset is empty and takes no process until it has processors and memory.
  for setting in cpuset.cpus cpuset.mems; do
    [ ! -e "$folder/$setting" ] || cat "$folder/../$setting" >"$folder/$setting"
  done
done < <(cgroup_folders)

(
  while read -r folder; do echo "$BASHPID" >"$folder/cgroup.procs"; done < <(cgroup_folders)
  exec setsid unshare --mount --cgroup --net --pid --uts --fork --mount-proc --kill-child "$here/node.sh" </dev/null >"$state/logs/node.log" 2>&1 9>&-
) &
unshare_pid=$!
for _ in $(seq 100); do
  pgrep -P $unshare_pid -f hack/cluster/node.sh >"$state/node.pid" && break
  kill -0 $unshare_pid 2>/dev/null || break
  sleep 0.05
done
# The process that made the namespaces leaves the folder at their top, which with version 2 must hold none.
unified && echo $unshare_pid >"$(cgroup_folders)/launcher/cgroup.procs"

# ready is whether the node is, and whether Services and default service accounts work.
ready() {
  "$here/exec.sh" kubectl wait --for=condition=Ready node/node1 --timeout=1s && "$here/exec.sh" kubectl get serviceaccount default
} >/dev/null 2>&1
for ((limit = SECONDS + 300; SECONDS < limit; )); do
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
