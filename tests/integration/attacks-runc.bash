# SPDX-License-Identifier: Apache-2.0
# What the suites of attacks in containers share (tests/hostile), besides attacks.bash and container.bash: each runs in
# a bundle of runc, as root of the container and as a user of its image.
# shellcheck shell=bash disable=SC2034,SC2154  # what the tests read, what bats and the other helpers set
ROOT='.'
USER_OF_IMAGE='.process.user = {uid: 1000, gid: 1000}'

# One for each machine: runc names a control group after it, and ends what is in there with the container.
container_id() {
        echo "attack-${machine##*-}"
}

# contained_machine_start [OPTION...]: with a daemon, and a root directory that the attacks can run in
contained_machine_start() {
        rootfs_make
        cp -L /lib/x86_64-linux-gnu/libgcc_s.so.1 "$rootfs/lib/x86_64-linux-gnu/" # a thread of an attack ends
        machine_start "$@"
        daemon_start
        chmod -R a+rwX "$machine_dir" # its nodes are sockets: a user of the image may open them
}

contained_machine_end() {
        [ -z "${machine_process:-}" ] || runc --root "$machine/runc" delete -f "$(container_id)" 2> /dev/null || true
        node_end
        machine_end
}

setup() {
        needs runc
        contained_machine_start --memory 24G
        before=$(free_mib 0)
}

teardown() {
        contained_machine_end
}

# contained PROGRAM: in the bundle that is ready; `attack` of attacks.bash calls it
contained() {
        runc --root "$machine/runc" run -b "$bundles/attack" "$(container_id)"
}

# attack_bundle EDIT NAME ANNOTATIONS: makes that bundle
attack_bundle() {
        bundle attack '.annotations = '"$3"'
                | .process.env += ["QUOTA_MIB='"${QUOTA:-1024}"'"]
                | .mounts += [{destination: "/h", source: "'"$plain/tests/hostile"'",
                               type: "bind", options: ["ro", "rbind"]}]
                | '"$1" "/h/attack-$2"
}

# in_bundle EDIT NAME: as a tenant of $QUOTA MiB in a container; no more than that, and all comes back
in_bundle() {
        attack_bundle "$1" "$2" '{"sublet.dev/mem": "'"$QUOTA"'M"}'
        attack "$2" contained
        [ "$held" -le $((QUOTA + SLACK)) ] || { echo "past the quota: $held MiB of $QUOTA"; return 1; }
        wait_for has_tenants 0
        wait_for all_back
}

# attacks_as EDIT NAME: the same, and it comes to the point where it holds what it could get
attacks_as() {
        in_bundle "$@"
        [[ $said != *cannot=* ]] || { echo "cannot be tried: ${said#*cannot=}"; return 1; }
        [[ $said == *holding* ]] || { echo 'it did not come so far'; return 1; }
}

# stays_in NAME [LEAST]: both ways; it gets LEAST MiB or more, so that it is an attack still
stays_in() {
        local edit
        for edit in "$ROOT" "$USER_OF_IMAGE"; do
                attacks_as "$edit" "$1"
                [ "$held" -ge "${2:-$((QUOTA / 2))}" ] || { echo "no attack: it got $held MiB"; return 1; }
        done
}

# is_ended NAME: both ways; the gate ends it for what it finds mapped without leave, or it is slower and stays in
is_ended() {
        local edit found
        for edit in "$ROOT" "$USER_OF_IMAGE"; do
                found=$(n_mismatches)
                in_bundle "$edit" "$1"
                [[ $said != *cannot=* ]] || { echo "cannot be tried: ${said#*cannot=}"; return 1; }
                [[ $said == *holding* ]] || [ "$(n_mismatches)" -gt "$found" ] || { echo 'no attack'; return 1; }
        done
}

# how often the daemon's gates found more mapped than they gave leave to
n_mismatches() {
        "$sublet" events --json | jq -s 'map(select(.name == "AUDIT_MISMATCH")) | length'
}

# finds_nothing NAME...: what each would try cannot be tried in a container, and it says so
finds_nothing() {
        local name edit
        for name; do
                for edit in "$ROOT" "$USER_OF_IMAGE"; do
                        in_bundle "$edit" "$name"
                        [[ $said == *cannot=* ]] || { echo "it can be tried: $name"; return 1; }
                done
        done
}
