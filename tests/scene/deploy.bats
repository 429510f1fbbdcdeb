#!/usr/bin/env bats
# The manifests hold together: what kubectl makes of them names verbs and options that the program has.
# variants: plain, because it is about files
bats_require_minimum_version 1.5.0

root=$BATS_TEST_DIRNAME/../..
build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$root/build}}

setup() {
        command -v kubectl > /dev/null || skip "no kubectl"
        export HOME=$BATS_TEST_TMPDIR
}

@test "every command line in the manifests is one that the program takes" {
        kubectl kustomize "$root/deploy/kubernetes" > "$BATS_TEST_TMPDIR/all.yaml"
        for verb in daemon keepers device-plugin extender webhook; do
                grep -qE "^ +- $verb$" "$BATS_TEST_TMPDIR/all.yaml"
                "$build/src/sublet" "$verb" --help > "$BATS_TEST_TMPDIR/$verb"
                # shellcheck disable=SC2013  # options have no blanks
                for option in $(awk -v v="$verb" '/- args:|args:/ { on = 0 } $0 ~ "^ +- " v "$" { on = 1; next } on && /^ +- --/ { sub(/=.*/, "", $2); print $2 } !/^ +- / { on = 0 }' "$BATS_TEST_TMPDIR/all.yaml"); do
                        grep -q -e "$option\b" "$BATS_TEST_TMPDIR/$verb" || { echo "$verb has no $option"; return 1; }
                done
        done
}

@test "what holds tenants is replaced only by hand, and what may be upgraded holds none" {
        kubectl kustomize "$root/deploy/kubernetes" > "$BATS_TEST_TMPDIR/all.yaml"
        kind_of() { # NAME: how a DaemonSet is replaced
                awk -v RS='---\n' -v name="$1" '/\nkind: DaemonSet\n/ && $0 ~ "\n  name: " name "\n" { print /\n  updateStrategy:\n    type: OnDelete\n/ ? "OnDelete" : "RollingUpdate" }' "$BATS_TEST_TMPDIR/all.yaml"
        }
        [ "$(kind_of keepers)" = OnDelete ]
        [ "$(kind_of daemon)" = RollingUpdate ]
        [ "$(kind_of device-plugin)" = RollingUpdate ]
}

@test "the daemon's pod sees the bundles of the node's containers where the runtime has them" {
        kubectl kustomize "$root/deploy/kubernetes" > "$BATS_TEST_TMPDIR/all.yaml"
        of_daemon=$(awk -v RS='---\n' '/\nkind: DaemonSet\n/ && /\n  name: daemon\n/' "$BATS_TEST_TMPDIR/all.yaml")
        grep -q 'mountPath: /run/containerd$' <<< "$of_daemon"
        grep -q 'path: /run/containerd$' <<< "$of_daemon"
}

@test "monitoring builds, and asks only for figures that are there" {
        kubectl kustomize "$root/deploy/kubernetes/monitoring" > /dev/null
        for figure in $(jq -r '.panels[].targets[].expr' "$root/deploy/kubernetes/monitoring/dashboard.json" | grep -oE 'sublet_[a-z_]+' | sed 's/_bucket$//' | sort -u); do
                grep -rqE "${figure#sublet_}" "$root/src/node/metrics.c" "$root/src/kube" || { echo "no $figure"; return 1; }
        done
}

@test "the certificate is one that the webhook serves and the API server would trust" {
        "$root/deploy/kubernetes/certificate" > "$BATS_TEST_TMPDIR/out"
        sed -n 's/^data: {tls.crt: \([^,]*\),.*/\1/p' "$BATS_TEST_TMPDIR/out" | base64 -d | openssl x509 -noout -checkhost webhook.sublet.svc | grep -q 'does match'
        [ "$(grep -c 'caBundle:' "$BATS_TEST_TMPDIR/out")" -eq 2 ]
}
