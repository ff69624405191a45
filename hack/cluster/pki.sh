#!/usr/bin/env bash
# Makes the cluster's keys, certificates and kubeconfigs in a folder. Usage: hack/cluster/pki.sh FOLDER NODE-IP
set -euo pipefail
mkdir -p "$1"
chmod 700 "$1"
cd "$1"
node_ip=$2

new_key() { openssl ecparam -genkey -name prime256v1 -noout -out "$1"; }

new_key ca.key
openssl req -x509 -new -key ca.key -days 30 -subj /CN=requeststate-cluster -out ca.crt

# certificate NAME SUBJECT EXTENSIONS
certificate() {
  new_key "$1.key"
  openssl req -new -key "$1.key" -subj "$2" |
    openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile <(printf '%b' "$3") -out "$1.crt" 2>/dev/null
}
names=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
certificate apiserver /CN=kube-apiserver "subjectAltName=IP:127.0.0.1,IP:$node_ip,IP:10.96.0.1,$names\nextendedKeyUsage=serverAuth\n"
client="extendedKeyUsage=clientAuth\n"
certificate apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client "$client"
certificate admin /O=system:masters/CN=admin "$client"
certificate controller-manager /CN=system:kube-controller-manager "$client"
certificate scheduler /CN=system:kube-scheduler "$client"
certificate proxy /CN=system:kube-proxy "$client"
certificate kubelet /O=system:nodes/CN=system:node:node1 "$client"

openssl genrsa -out sa.key 2048 2>/dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null

# Paths in a kubeconfig are relative to it, so the folder may be seen by another name.
for user in admin controller-manager scheduler proxy kubelet; do
  cat >$user.kubeconfig <<YAML
apiVersion: v1
kind: Config
clusters: [{name: cluster, cluster: {server: "https://127.0.0.1:6443", certificate-authority: ca.crt}}]
users: [{name: $user, user: {client-certificate: $user.crt, client-key: $user.key}}]
contexts: [{name: cluster, context: {cluster: cluster, user: $user}}]
current-context: cluster
YAML
done
