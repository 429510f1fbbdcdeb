#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A lease as a directory that a container mounts: nothing is inherited, nothing is in the environment.
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 24G
        sublet=$plain/src/sublet # what goes into programs is not built with a sanitizer
        interposed=$plain/tests/gpu/gpu-interposed
        tmpfs=$(mktemp -d /dev/shm/sublet-lease-XXXXXX)
        lease=$tmpfs/chat
        unshare -m true 2> /dev/null || skip "no mount namespaces here"
}

teardown() {
        node_end
        machine_end
        rm -rf "$tmpfs"
}

# leased [OPTION...]: a lease in $lease
leased() {
        on "$sublet" lease "$@" "$lease" > "$machine/mounts"
        printf '%s\n%s\n' /run/sublet/lease/libsublet.so "$machine_preload" > "$machine/preload"
}

# contained COMMAND...: where a container has it mounted; $mounts says how (default: as it should be)
contained() {
        on unshare -m sh -c 'mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/sublet/lease || exit 99
                eval "$4" || exit 99
                [ -e /etc/ld.so.preload ] || touch /etc/ld.so.preload
                mount --bind "$2" /etc/ld.so.preload || exit 99
                sim=$3 lease=$1; shift 4
                exec env -i SUBLET_SIM="$sim" "$@"' - "$lease" "$machine/preload" "$machine_dir" "${mounts:-
                mount --bind "\$1" /run/sublet/lease && mount -o remount,bind,ro /run/sublet/lease &&
                mount --bind "\$1/region" /run/sublet/lease/region}" "$@"
}

# refused COMMAND...: no driver call is made, and it is said once why ($1)
refused() {
        local why=$1
        shift
        run --separate-stderr contained "$@"
        echo "$output" && echo "$stderr"
        [ "$status" -eq 1 ]
        [[ $stderr == "sublet: no driver call is made: "*"$why"* ]]
        [ "$(grep -c sublet: <<< "$stderr")" -eq 1 ]
}

@test "what is printed is what a container has to mount" {
        leased --mem 1G
        [ "$(cat "$machine/mounts")" = "-v $lease:/run/sublet/lease:ro -v $lease/region:/run/sublet/lease/region -v $lease/ld.so.preload:/etc/ld.so.preload:ro" ]
        [ "$(stat -c %a "$lease/page" "$lease/region" | tr '\n' ' ')" = "444 666 " ]
        on "$sublet" lease --end "$lease"
        [ ! -e "$lease" ]
        on "$sublet" lease --mem 1G --json "$lease" | jq -e --arg d "$lease" '.tenant == "chat" and .dir == $d and
                ([.mounts[] | .target] == ["/run/sublet/lease", "/run/sublet/lease/region", "/etc/ld.so.preload"]) and
                ([.mounts[] | .read_only] == [true, false, true]) and .mounts[1].source == $d + "/region"'
}

@test "a lease that has ended, or never was, is said to be gone when it is ended again; what exists is not made twice" {
        leased --mem 1G
        run -1 on "$sublet" lease --mem 1G "$lease"
        [ "$output" = "sublet: $lease is there already: choose another directory, or 'sublet lease --end $lease'" ]
        on "$sublet" lease --end "$lease"
        for gone in "$lease" "$machine/never"; do
                run -1 on "$sublet" lease --end "$gone"
                [ "$output" = "sublet: there is no lease at $gone: it has ended, or was never made" ]
        done
}

@test "a program in the container has the quota, with an empty environment" {
        leased --mem 1G
        run contained "$interposed" threads 2
        echo "$output"
        [ "$output" = "got_mib=1024" ]
}

@test "the programs of a container share one quota, also those that come from outside" {
        leased --mem 1G
        contained "$interposed" hold 512 "$machine/held" 3>&- &
        local holder=$!
        wait_for [ -s "$machine/held" ]
        run contained "$interposed" threads 2
        echo "$output"
        [ "$output" = "got_mib=512" ]
        kill "$(cat "$machine/held")"
        wait "$holder" || true # what it held has returned
        run contained "$interposed" threads 2
        [ "$output" = "got_mib=1024" ]
}

@test "a lease that the tenant can write to is refused" {
        leased --mem 1G
        mounts='mount --bind "$1" /run/sublet/lease' refused "can be written to" "$interposed" fork
}

@test "a lease that somebody else owns is refused" {
        leased --mem 1G
        chown 1000 "$lease/page"
        refused "damaged" "$interposed" fork
}

@test "a damaged lease, and one of another build, is refused" {
        leased --mem 1G
        printf 'x' | dd of="$lease/page" bs=1 seek=4000 conv=notrunc status=none
        refused "damaged" "$interposed" fork
        truncate -s -8 "$lease/page"
        refused "damaged" "$interposed" fork
}

@test "a region that is damaged, or another tenant's, is refused" {
        leased --mem 1G
        mv "$lease" "$lease-1"
        leased --mem 2G
        cp "$lease-1/region" "$lease/region"
        refused "/region" "$interposed" fork
        truncate -s 4096 "$lease/region"
        refused "/region" "$interposed" fork
}

@test "a region that cannot be written to is refused" {
        leased --mem 1G
        mounts='mount --bind "$1" /run/sublet/lease && mount -o remount,bind,ro /run/sublet/lease' \
                refused "/region" "$interposed" fork
}

@test "no descriptor takes the place of the mounted lease" {
        leased --mem 1G
        run contained bash -c 'exec 1000< /bin/true 1001< /bin/true; exec "$0" threads 2' "$interposed"
        echo "$output"
        [ "$output" = "got_mib=1024" ]
}

@test "a directory that is there, or on a disk, is refused in one line" {
        mkdir "$lease"
        run on "$sublet" lease --mem 1G "$lease"
        [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"is there already"* ]]
        run on "$sublet" lease --mem 1G "$PWD/no-such-lease"
        echo "$output"
        [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"tmpfs"* ]]
        [ ! -e "$PWD/no-such-lease" ]
        run on "$sublet" lease --mem 100G "$lease-1"
        echo "$output"
        [ "$status" -ne 0 ] && [ "${#lines[@]}" -eq 1 ]
        [ ! -e "$lease-1" ]
}

@test "a directory that cannot be made is not asked of the daemon" {
        daemon_start
        mkdir "$lease"
        run -1 on "$sublet" lease --mem 1G "$lease"
        [[ $output == *"is there already"* ]]
        run -1 on "$sublet" lease --mem 1G "$PWD/no-such-lease"
        [[ $output == *"tmpfs"* ]]
        run -1 on "$sublet" lease --mem 1G "$tmpfs/no/such"
        [[ $output == "sublet: making $tmpfs/no/such: No such file or directory" ]]
        [ "$("$sublet" events | grep -c 'TENANT_\|LEASE_')" -eq 0 ]
        [ "$("$sublet" ps -a --json | jq length)" -eq 0 ]
}

@test "a container's first program attaches to the daemon's gate, and again when it is started again" {
        mkdir "$tmpfs/node"
        ln -s "$tmpfs/node" "$machine/node" # attach.sock gets one more name in the lease: one file system
        daemon_start
        leased --mem 1G --name chat
        [ -S "$lease/attach.sock" ]
        for _ in 1 2; do
                wait_for eval '[ "$(of chat plane)" = preload ]'
                rm -f "$machine/held"
                contained "$interposed" hold 512 "$machine/held" 3>&- &
                wait_for [ -s "$machine/held" ]
                [ "$(of chat plane)" = attached ]
                wait_for eval '[ "$(of chat held_bytes)" = $((512 * MIB)) ]'
                refused "under a gate" "$interposed" fork # from outside, as podman exec does
                kill "$(cat "$machine/held")"
        done
        wait_for eval '[ "$(of chat plane)" = preload ]'
        daemon_end KILL
        daemon_start
        wait_for [ "$lease/attach.sock" -ef "$SUBLET_DIR/attach.sock" ] # not the one of the daemon before
        run contained "$interposed" threads 2
        echo "$output"
        [ "$output" = "got_mib=1024" ]
        wait_for eval '[ "$(of chat plane)" = preload ]'
        [ "$("$sublet" events chat | grep -c TENANT_ATTACHED)" -eq 3 ]
}

@test "the daemon refuses a directory lease that does not fit, and users other than root" {
        daemon_start
        run on "$sublet" lease --mem 100G "$lease"
        echo "$output"
        [ "$status" -ne 0 ] && [ "${#lines[@]}" -eq 1 ] && [ ! -e "$lease" ]
        run on "$sublet" lease --mem 1G --attach=required "$lease" # attach.sock is on another file system
        echo "$output"
        [ "$status" -ne 0 ] && [[ $output == *"attach.sock"* ]] && [ ! -e "$lease" ]
        [ -z "$("$sublet" ps -q)" ]
}
