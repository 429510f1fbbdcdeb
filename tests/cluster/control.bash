# SPDX-License-Identifier: Apache-2.0
# The cluster's own parts: network, keys, etcd, apiserver, containerd, controller manager, scheduler, kubelet.
# shellcheck shell=bash disable=SC2154  # $cluster is the caller's
address=10.200.0.1
node=n1

# today: is this a cluster of now, or of Kubernetes 1.20?
today() { [ -n "${SUBLET_TODAY:-}" ]; }

# control_gates: sets $gates, which features are switched on: what claims of parts of a device need
control_gates() {
        gates=()
        ! today || gates=("--feature-gates=DRAConsumableCapacity=true${SUBLET_GATES:+,$SUBLET_GATES}")
}

# A network of nobody else's. A veth, because kubelet refuses a loopback address and the kernel may have no dummy.
control_network() {
        ip link set lo up
        ip link add node0 type veth peer name node1
        ip addr add "$address/24" dev node0
        ip addr add 10.96.0.1/32 dev node0 # where pods find the API server; there is no kube-proxy, so no other service
        ip link set node0 up
        ip link set node1 up
        ip route add default dev node0
}

# control_user NAME TOKEN: a kubeconfig
control_user() {
        cat > "$cluster/$1.kubeconfig" <<X
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://$address", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: "$2"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
X
}

control_users() {
        openssl genrsa -out "$cluster/accounts.key" 2048 2> /dev/null
        openssl rsa -in "$cluster/accounts.key" -pubout -out "$cluster/accounts.pub" 2> /dev/null
        cat > "$cluster/tokens.csv" <<X
token-admin,admin,admin,"system:masters"
token-scheduler,system:kube-scheduler,scheduler
token-node,system:node:$node,node,"system:nodes"
token-user,somebody,somebody
X
        for user in admin scheduler node user; do
                control_user "$user" "token-$user"
        done
        export KUBECONFIG=$cluster/admin.kubeconfig
}

# control_front: sets $front, by which servers behind the API server (metrics) know that it is it that asks
control_front() {
        front=()
        today || return 0
        mkdir "$cluster/front"
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=front -keyout "$cluster/front/tls.key" -out "$cluster/front/tls.crt" 2> /dev/null
        front=(--requestheader-client-ca-file="$cluster/front/tls.crt" --requestheader-allowed-names=front
                --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group
                --requestheader-username-headers=X-Remote-User --proxy-client-cert-file="$cluster/front/tls.crt" --proxy-client-key-file="$cluster/front/tls.key")
}

control_api() {
        local gates front
        control_gates
        control_front
        part_start etcd etcd --data-dir "$cluster/etcd" --listen-client-urls http://127.0.0.1:2379 \
                --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync
        part_start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --advertise-address="$address" \
                --secure-port=443 --cert-dir="$cluster/certificates" --service-account-issuer=https://kubernetes.default.svc \
                --service-account-key-file="$cluster/accounts.pub" --service-account-signing-key-file="$cluster/accounts.key" \
                --token-auth-file="$cluster/tokens.csv" --authorization-mode=Node,RBAC --service-cluster-ip-range=10.96.0.0/24 \
                --allow-privileged=true --kubelet-preferred-address-types=InternalIP --enable-aggregator-routing=true "${gates[@]}" "${front[@]}"
        until_ok 60 kubectl get --raw /readyz
}

# control_containerd HANDLERS: with these tables of runtimes besides runc (a file)
control_containerd() {
        local cri='plugins."io.containerd.grpc.v1.cri"'
        mkdir -p "$cluster/cni"
        {
                cat <<X
version = 2
root = "$cluster/containerd/root"
state = "$cluster/containerd/state"
[grpc]
  address = "$cluster/containerd.sock"
[$cri]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
[$cri.cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "$cluster/cni"
[$cri.containerd]
  default_runtime_name = "runc"
[$cri.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
X
                cat "$1"
        } > "$cluster/containerd.toml"
        cat > "$cluster/cni/10-pods.conflist" <<X
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": false,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.89.7.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$cluster/cni/leases"}}]}
X
        part_start containerd containerd -c "$cluster/containerd.toml"
        until_ok 30 ctr -a "$cluster/containerd.sock" version
}

control_images() { # ARCHIVE...
        local archive
        for archive in "$@"; do
                ctr -a "$cluster/containerd.sock" -n k8s.io images import "$archive" > /dev/null
        done
}

# The controller manager as admin: it must take the taint of a node that was not ready off.
control_managers() { # SCHEDULER-CONFIGURATION
        local no_port=(--port=0) # the port without TLS, which newer ones do not have
        local gates
        ! today || no_port=()
        control_gates
        part_start controllers kube-controller-manager --kubeconfig="$cluster/admin.kubeconfig" --root-ca-file="$cluster/certificates/apiserver.crt" \
                --service-account-private-key-file="$cluster/accounts.key" --leader-elect=false --bind-address=127.0.0.1 "${no_port[@]}" \
                --cert-dir="$cluster/controllers" --controllers='*,-ttl' "${gates[@]}"
        part_start scheduler kube-scheduler --config="$1" --bind-address=127.0.0.1 "${no_port[@]}" --cert-dir="$cluster/scheduler" "${gates[@]}"
}

# In the namespace these are folders of ours: kubelet's, wherever it is told to be (its plugins' sockets, and the logs,
# of which it takes those away that it knows no pod of), the pods' networks, and Sublet's.
control_folders() {
        local folder
        for folder in /var/lib/kubelet /var/log/pods /var/log/containers /var/lib/cni /run/netns /run/containerd /var/lib/sublet /run/sublet; do
                mkdir -p "$folder" "$cluster/host$folder"
                mount --bind "$cluster/host$folder" "$folder"
        done
}

control_kubelet() {
        local remote=(--container-runtime=remote) # newer ones know no other
        local gates
        ! today || remote=()
        control_gates
        mkdir -p "$cluster/static"
        cat > "$cluster/kubelet.yaml" <<X
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupsPerQOS: false
enforceNodeAllocatable: []
cgroupDriver: cgroupfs
failSwapOn: false
oomScoreAdj: 0
maxOpenFiles: 20000
resolvConf: ""
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
staticPodPath: $cluster/static
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "1Mi", nodefs.available: "0%", imagefs.available: "0%"}
syncFrequency: 2s
nodeStatusUpdateFrequency: 1s
X
        ! today || echo 'failCgroupV1: false' >> "$cluster/kubelet.yaml"
        part_start kubelet kubelet --config="$cluster/kubelet.yaml" --kubeconfig="$cluster/node.kubeconfig" --root-dir=/var/lib/kubelet \
                "${remote[@]}" --container-runtime-endpoint="unix://$cluster/containerd.sock" --hostname-override="$node" \
                --node-ip="$address" --cert-dir="$cluster/kubelet-certificates" --node-labels=sublet.dev/gpu=true "${gates[@]}"
        until_ok 60 eval "kubectl get node $node | grep -q ' Ready'"
}

# What is left of the pods, whose processes outlive kubelet and containerd: killed and taken away, with their cgroups;
# then the shims end by themselves.
control_end_pods() {
        local ctr=(ctr -a "$cluster/containerd.sock" -n k8s.io) id
        for id in $("${ctr[@]}" tasks ls -q); do
                "${ctr[@]}" tasks delete -f "$id"
                "${ctr[@]}" containers delete "$id"
        done
}
