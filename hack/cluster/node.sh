#!/usr/bin/env bash
# PID 1 of the cluster's own mount, cgroup, network, PID and host name namespaces: sets them up, starts every component, and starts one that ends again, as systemd or
# the kubelet would. When this process is killed, the kernel ends all others in its PID namespace. Started by up.sh, which sets the variables.
set -uo pipefail
. "$(dirname "$0")/paths.sh"
logs=$inside/logs
pki=$inside/pki

mount --make-rprivate /
# /sys of this network namespace, with the hierarchies of cgroups rooted at our own cgroup.
unified && v2=yes
mount -t sysfs sysfs /sys
if [ "${v2:-}" = yes ]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  # Controllers can be handed to folders below only when no process is left at the top.
  mkdir -p /sys/fs/cgroup/init
  for _ in $(seq 100); do
    while read -r pid; do echo "$pid" >/sys/fs/cgroup/init/cgroup.procs; done </sys/fs/cgroup/cgroup.procs 2>/dev/null
    sed 's/[^ ]*/+&/g' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null && break
    sleep 0.05
  done
  echo "cgroup controllers: $(cat /sys/fs/cgroup/cgroup.subtree_control)"
else
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  for c in cpu cpuacct cpuset memory devices freezer blkio pids; do
    mkdir -p /sys/fs/cgroup/$c
    mount -t cgroup -o $c $c /sys/fs/cgroup/$c
  done
  mkdir -p /sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd systemd /sys/fs/cgroup/systemd
fi
mount -t tmpfs -o mode=755 tmpfs /run
# Components have paths here that no flag moves, such as /var/lib/kubelet/device-plugins and /var/lib/cni: they get folders of their own, not the machine's.
mkdir -p /run/own/lib /run/own/log
cp -a /etc /run/own/etc
mount --bind /run/own/etc /etc
mount --bind /run/own/lib /var/lib
mount --bind /run/own/log /var/log
mkdir -p /run/lock /run/netns $inside
mount --bind "$state" $inside
mkdir -p /run/cni $inside/cni
mount --bind "$runtime/usr/lib/cni" /run/cni
cp "$here/config/podnet.conflist" $inside/cni/10-podnet.conflist
# The kubelet wants these settings of the kernel. It gets files with the values, so that the machine keeps its own.
mkdir -p $inside/sysctl
while read -r name value; do
  echo "$value" >"$inside/sysctl/$(basename "$name")"
  mount --bind "$inside/sysctl/$(basename "$name")" "/proc/sys/$name"
done <<SETTINGS
vm/overcommit_memory 1
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
SETTINGS
mount --make-rshared /

hostname node1
ip link set lo up
ip link add node0 type bridge
ip address add $node_ip/24 dev node0
ip link set node0 up
ip route add default via 10.99.0.254 dev node0 # nobody: nothing in here reaches the outside
echo 1 >/proc/sys/net/ipv4/ip_forward

export PATH=$runtime/usr/bin:$runtime/usr/sbin:$k8s:/usr/sbin:/usr/bin:/sbin:/bin
LD_LIBRARY_PATH=$(dirname "$(find "$runtime" -name 'libseccomp.so.2')")
export LD_LIBRARY_PATH
cd $inside || exit

# supervise NAME COMMAND… keeps the command running.
supervise() {
  local name=$1
  shift
  while :; do
    "$@" >>"$logs/$name.log" 2>&1
    echo "$name ended with $?" >>"$logs/node.log"
    sleep 0.2
  done &
}

# await WHAT COMMAND… until the command succeeds.
await() {
  local what=$1
  shift
  for _ in $(seq 600); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "$what: not within a minute" >>"$logs/node.log"
}

supervise etcd etcd --data-dir=$inside/etcd --unsafe-no-fsync --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
  --listen-peer-urls=http://127.0.0.1:2380
supervise kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --advertise-address=$node_ip \
  --service-cluster-ip-range=10.96.0.0/16 --client-ca-file=$pki/ca.crt --tls-cert-file=$pki/apiserver.crt --tls-private-key-file=$pki/apiserver.key \
  --kubelet-client-certificate=$pki/apiserver-kubelet-client.crt --kubelet-client-key=$pki/apiserver-kubelet-client.key \
  --kubelet-preferred-address-types=InternalIP --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=$pki/sa.pub \
  --service-account-signing-key-file=$pki/sa.key --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true
supervise containerd containerd --config "$here/config/containerd.toml"
await "the API server" kubectl --kubeconfig $pki/admin.kubeconfig get --raw /readyz
supervise kube-controller-manager kube-controller-manager --kube-api-qps=500 --kube-api-burst=1000 --kubeconfig=$pki/controller-manager.kubeconfig \
  --authentication-kubeconfig=$pki/controller-manager.kubeconfig --authorization-kubeconfig=$pki/controller-manager.kubeconfig --bind-address=127.0.0.1 \
  --leader-elect=false --use-service-account-credentials=true --service-account-private-key-file=$pki/sa.key --root-ca-file=$pki/ca.crt \
  --cluster-signing-cert-file=$pki/ca.crt --cluster-signing-key-file=$pki/ca.key --allocate-node-cidrs=false
supervise kube-scheduler kube-scheduler --kube-api-qps=500 --kube-api-burst=1000 --kubeconfig=$pki/scheduler.kubeconfig \
  --authentication-kubeconfig=$pki/scheduler.kubeconfig --authorization-kubeconfig=$pki/scheduler.kubeconfig --bind-address=127.0.0.1 --leader-elect=false
await containerd ctr version
for image in "$inside"/images/*.tar; do ctr -n k8s.io images import "$image" >>"$logs/images.log" 2>&1; done
supervise kubelet kubelet --config="$here/config/kubelet.yaml" --kubeconfig=$pki/kubelet.kubeconfig --root-dir=$inside/kubelet --hostname-override=node1 \
  --node-ip=$node_ip --cert-dir=$inside/kubelet-pki
supervise kube-proxy kube-proxy --config="$here/config/kube-proxy.yaml"
# PID 1 also inherits what others leave behind.
while :; do wait; done
