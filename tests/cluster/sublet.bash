# SPDX-License-Identifier: Apache-2.0
# Sublet's parts in the cluster, as processes of the node: simulated GPUs, daemon, device plugin, extender, webhook.
# shellcheck shell=bash disable=SC2154  # $cluster, $build, $root, $address are the caller's
#
# What a driver's nodes and libraries are on a real node, the simulator's directory and libraries are here: the base
# spec of the runtime mounts them into every container of the handler `sublet`, whatever its pod says.
sublet=$build/src/sublet

sublet_machine() { # OPTION... of `sublet sim`
        # shellcheck disable=SC2016  # for the inner shell
        part_start machine "$sublet" sim --dir "$cluster/machine" "$@" -- sh -c \
                'printf "%s\n" "$SUBLET_SIM" "$LD_PRELOAD" "$LD_LIBRARY_PATH" > "$1.new"; mv "$1.new" "$1"; exec sleep 3600' - "$cluster/machine.env"
        until_ok 10 test -s "$cluster/machine.env"
        chmod -R a+rwX "$cluster/machine" # as a driver's nodes: also for the root of a user namespace
        { read -r machine_dir; read -r machine_preload; read -r machine_libraries; } < "$cluster/machine.env"
        export machine_dir machine_preload machine_libraries
}

# on COMMAND...: on the machine with the GPUs, not supervised
on() {
        env SUBLET_SIM="$machine_dir" LD_PRELOAD="$machine_preload" LD_LIBRARY_PATH="$machine_libraries" "$@"
}

sublet_daemon() {
        part_start daemon env SUBLET_SIM="$machine_dir" LD_PRELOAD="$machine_preload" LD_LIBRARY_PATH="$machine_libraries" \
                "$sublet" daemon --state /var/lib/sublet/sublet.db
        until_ok 20 "$sublet" ps -q
}

# sublet_handler: containerd's handler `sublet` as on a real node, in handler.toml and base.json with the machine
sublet_handler() {
        ctr oci spec | on "$sublet" oci spec --runtime /dev/stdin | jq --arg dir "$machine_dir" --arg preload "$machine_preload" \
                --arg libraries "$machine_libraries" '
                .process.env += ["SUBLET_SIM=" + $dir, "LD_PRELOAD=" + $preload, "LD_LIBRARY_PATH=/lib:" + $libraries] |
                .mounts += ([$dir, ($preload | sub("/[^/]*$"; "")), ($libraries | split(":")[])] | unique |
                        map({destination: ., source: ., type: "bind", options: ["rbind", "rw"]}))' > "$cluster/base.json"
        "$sublet" oci config --file "$cluster/base.json" > "$cluster/handler.toml"
}

# sublet_account NAME: its token, in a file, as a pod would have it
sublet_account() {
        if today; then
                kubectl -n sublet create token --duration=8h "$1" > "$cluster/$1.token"
                return
        fi
        # shellcheck disable=SC2016  # for the inner shell
        until_ok 20 sh -c '[ -n "$(kubectl -n sublet get serviceaccount "$1" -o "jsonpath={.secrets[0].name}")" ]' - "$1"
        kubectl -n sublet get secret "$(kubectl -n sublet get serviceaccount "$1" -o 'jsonpath={.secrets[0].name}')" -o 'jsonpath={.data.token}' |
                base64 -d > "$cluster/$1.token"
}

# What deploy/kubernetes gives them: namespace, accounts, rights, runtime class.
sublet_rights() {
        kubectl apply -f "$root/deploy/kubernetes/namespace.yaml"
        kubectl apply -n sublet -f "$root/deploy/kubernetes/access.yaml"
        printf 'apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: runc}\nhandler: runc\n' | kubectl apply -f - # another way to start
        for account in extender device-plugin; do
                sublet_account "$account"
        done
}

# secret_file FILE SECRET KEY: that of the manifests in FILE, as a pod would have it mounted, in $cluster/SECRET
secret_file() {
        sed -n "/name: $2,/,/^data/s/^data: .*[{ ]$3: \\([^,}]*\\).*/\\1/p" "$1" | base64 -d > "$cluster/$2/$3"
}

# The scheduler's configuration of deploy/, in the version that this one reads, with the extender where it is here.
sublet_scheduler() {
        local version=v1beta1 name
        ! today || version=v1
        "$root/deploy/kubernetes/scheduler-certificate" > "$cluster/extender.yaml"
        mkdir "$cluster"/{extender,scheduler}-certificate
        for name in tls.crt tls.key callers.crt; do secret_file "$cluster/extender.yaml" extender-certificate $name; done
        for name in tls.crt tls.key ca.crt; do secret_file "$cluster/extender.yaml" scheduler-certificate $name; done
        sed -e "s#kubescheduler.config.k8s.io/v1#kubescheduler.config.k8s.io/$version#" -e 's#^profiles: \[#&{schedulerName: default-scheduler}, #' \
                -e 's#^leaderElection: .*#leaderElection: {leaderElect: false}#' -e 's#https://extender.sublet.svc:12345#https://127.0.0.1:12345#' -e "s#/certificate/#$cluster/scheduler-certificate/#" \
                "$root/deploy/kubernetes/scheduler.yaml" > "$1"
        printf 'clientConnection: {kubeconfig: %s}\n' "$cluster/scheduler.kubeconfig" >> "$1"
}

sublet_extender() {
        part_start extender "$sublet" extender --listen 127.0.0.1:12345 --server "https://$address" \
                --token-file "$cluster/extender.token" --ca-file "$cluster/certificates/apiserver.crt" --lease sublet/extender \
                --cert "$cluster/extender-certificate/tls.crt" --key "$cluster/extender-certificate/tls.key" --host extender.sublet.svc \
                --callers "$cluster/extender-certificate/callers.crt" --caller sublet-scheduler
        kubectl apply -f "$cluster/extender.yaml" # for the extender as a pod
        until_ok 30 curl -skf https://127.0.0.1:12345/readyz
}

# The certificate and the configurations of deploy/; the Service leads to this process.
sublet_webhook() {
        local before=--before-1.28
        ! today || before=
        "$root/deploy/kubernetes/certificate" ${before:+"$before"} > "$cluster/webhook.yaml"
        sed -n 's/^data: {tls.crt: \([^,]*\), tls.key: \([^}]*\)}/\1/p' "$cluster/webhook.yaml" | base64 -d > "$cluster/webhook.crt"
        sed -n 's/^data: {tls.crt: \([^,]*\), tls.key: \([^}]*\)}/\2/p' "$cluster/webhook.yaml" | base64 -d > "$cluster/webhook.key"
        part_start webhook "$sublet" webhook --cert "$cluster/webhook.crt" --key "$cluster/webhook.key" --host webhook.sublet.svc --scheduler sublet-scheduler \
                --trusted system:serviceaccount:sublet:extender
        kubectl apply -f - <<X
apiVersion: v1
kind: Service
metadata: {name: webhook, namespace: sublet}
spec: {ports: [{name: https, port: 443, targetPort: 8443}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: webhook, namespace: sublet}
subsets: [{addresses: [{ip: $address}], ports: [{name: https, port: 8443}]}]
X
        until_ok 20 curl -skf https://127.0.0.1:8443/healthz
        kubectl apply -f "$cluster/webhook.yaml"
        kubectl label --overwrite namespace default sublet.dev/webhook=required # no pod of a test slips past it
}

sublet_plugin() {
        part_start plugin "$sublet" device-plugin --placed --node "$node" --server "https://$address" \
                --token-file "$cluster/device-plugin.token" --ca-file "$cluster/certificates/apiserver.crt"
        until_ok 40 sublet_is_counted
}

sublet_is_counted() {
        [ "$(kubectl get node "$node" -o 'jsonpath={.status.allocatable.sublet\.dev/gpu-mem}')" = "${1:-32}" ]
}
