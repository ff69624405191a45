# Where the cluster's parts are; sourced by the scripts beside this file.
# shellcheck shell=bash disable=SC2034
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/hack/cluster
k8s=$root/bin/k8s          # Kubernetes and etcd, built once
runtime=$root/bin/runtime  # containerd, runc and the network plugins, unpacked once
pause=$root/bin/images/pause.tar # what holds a pod's namespaces; made by make cluster-up
state=$root/bin/cluster    # everything that a running cluster writes; cluster-down removes it
inside=/run/cluster        # the same folder as the cluster's own processes see it: short, since paths of sockets must be
cgroup=requeststate-cluster-$(cksum <<<"$root" | cut -d' ' -f1) # another checkout may have a cluster too
node_ip=10.99.0.1

# node_pid prints the process that is PID 1 of the cluster's namespaces, if it lives.
node_pid() {
  local pid
  pid=$(cat "$state/node.pid" 2>/dev/null) || return 1
  # Another process may have the number by now.
  grep -qz hack/cluster/node.sh "/proc/$pid/cmdline" 2>/dev/null || return 1
  echo "$pid"
}

# alone waits until no other script starts or ends this checkout's cluster. The lock ends with the script; what it starts for good must not inherit it (9>&-).
alone() {
  [ -z "${CLUSTER_LOCKED:-}" ] || return 0
  mkdir -p "$root/bin"
  exec 9>"$root/bin/cluster.lock"
  flock 9
  export CLUSTER_LOCKED=yes
}

# unified is whether cgroups are of version 2.
unified() { [ -e /sys/fs/cgroup/cgroup.controllers ]; }

# cgroup_folders prints the folder of the cluster's cgroup: with version 2 one at the top, since processes live only where there are no folders below; with version 1 one in
# each hierarchy, below that of this process.
cgroup_folders() {
  if unified; then
    echo "/sys/fs/cgroup/$cgroup"
    return
  fi
  local controllers path rest
  while IFS=: read -r rest controllers path; do
    [ -n "$controllers" ] || continue # the unified hierarchy, without controllers where version 1 is in use
    local mount=/sys/fs/cgroup/${controllers#name=}
    [ -d "$mount" ] && echo "$mount${path%/}/$cgroup"
  done </proc/self/cgroup
}
