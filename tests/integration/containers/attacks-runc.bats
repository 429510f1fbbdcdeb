#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The attacks (tests/hostile) from inside a container: runc with the profile that `sublet oci spec` writes, as root of
# the container and as a user of its image. Each gets past the quota without a gate: run/attacks*.bats show that, here
# they must have come to the point where they hold what they could get. What counts is the device's own figure, read
# from outside.
# long: because each attack settles several times, and runs twice
# waits: for what the gate settles once a second, and for containers
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../container
load ../attacks

ROOT='.'
USER_OF_IMAGE='.process.user = {uid: 1000, gid: 1000}'

setup() {
        needs runc
        rootfs_make
        cp -L /lib/x86_64-linux-gnu/libgcc_s.so.1 "$rootfs/lib/x86_64-linux-gnu/" # a thread of an attack ends
        machine_start --memory 24G
        daemon_start
        chmod -R a+rwX "$machine_dir" # the nodes of the simulated machine are sockets: a user of the image may open them
        before=$(free_mib 0)
}

teardown() {
        runc --root "$machine/runc" delete -f attack 2> /dev/null || true
        node_end
        machine_end
}

# contained PROGRAM: in the bundle that is ready; `attack` of attacks.bash calls it
contained() {
        runc --root "$machine/runc" run -b "$bundles/attack" attack
}

# attacks_as EDIT NAME [ANNOTATIONS]: as a tenant of $QUOTA MiB in a container
attacks_as() {
        local annotations='{"sublet.dev/mem": "'$QUOTA'M"}'
        bundle attack '.annotations = '"${3:-$annotations}"'
                | .process.env += ["QUOTA_MIB='"$QUOTA"'"]
                | .mounts += [{destination: "/h", source: "'"$plain/tests/hostile"'", type: "bind", options: ["ro", "rbind"]}]
                | '"$1" "/h/attack-$2"
        attack "$2" contained
        [[ $said != *cannot=* ]] || { echo "cannot be tried: ${said#*cannot=}"; return 1; }
        [[ $said == *holding* ]] || { echo 'it did not come so far'; return 1; }
        [ "$held" -le $((QUOTA + SLACK)) ] || { echo "past the quota: $held MiB of $QUOTA"; return 1; }
        wait_for has_tenants 0
        wait_for eval '[ $((before - $(free_mib 0))) -eq 0 ]'
}

# stays_in NAME [LEAST]: both ways; it gets LEAST MiB or more, so that it is an attack still
stays_in() {
        local edit
        for edit in "$ROOT" "$USER_OF_IMAGE"; do
                attacks_as "$edit" "$1"
                [ "$held" -ge "${2:-$((QUOTA / 2))}" ] || { echo "no attack: it got $held MiB"; return 1; }
        done
}

@test "exported memory that a poll in progress keeps stays charged" { stays_in export-in-poll; }
@test "exported memory in flight in a socket stays charged" { stays_in export-in-socket; }
@test "exported memory of a process that may not be looked at stays charged" { stays_in export-undumpable; }
@test "managed memory of a process without its main thread stays charged" { stays_in managed-leader-gone 64; }
@test "managed memory behind thousands of small ranges stays charged" { stays_in managed-many-ranges; }
@test "managed memory of a child that executed another program stays charged" { stays_in managed-exec-child; }
@test "page tables of a reservation are charged" { stays_in page-tables; }
@test "buffers of channel groups are charged" { stays_in groups-many; }
@test "calls of children that share their parent's memory take the quota and no more" { stays_in caller-vfork; }
@test "calls of a process that shares memory and descriptors take the quota and no more" { stays_in caller-clone-vm; }
@test "requests of every type byte, direction and upper half take the quota and no more" { stays_in spelling-type; }
@test "requests inside requests take the quota and no more" { stays_in spelling-xfer; }
@test "every request without a rule is refused" {
        stays_in spelling-unknown 0
        [[ $said == *' succeeded=0'* ]]
}
@test "parameters that change while a call is decided take the quota and no more" { stays_in block-changed; }
