#!/usr/bin/env bats
# Where a tenant's quota is kept, and that the daemon knows it: at a gate, or inside its programs.
bats_require_minimum_version 1.5.0
load machine
load daemon

setup() {
        machine_start --memory 24G
        daemon_start
        sublet=$plain/src/sublet # what goes into programs is not built with a sanitizer; daemon and keepers are
        guest=$plain/tests/gpu/gpu-guest
        tmpfs=$(mktemp -d /dev/shm/sublet-planes-XXXXXX)
}

teardown() {
        node_end
        machine_end
        rm -rf "$tmpfs"
}

# holds NAME MIB: by the daemon's word
holds() { [ "$(of "$1" held_bytes)" = $(($2 * MIB)) ]; }
# the library beside the daemon goes into the directory of a lease: a daemon of the plain build
plain_daemon() { daemon_end KILL; daemon_start; }
is_gone() { [ -z "$("$sublet" ps -q | grep -x "$1")" ]; }

@test "the daemon leases to a tenant with the library inside, lists it and counts what it holds" {
        lodger chat --preload --attach=never --mem 2G -- "$guest" hold 512 "$machine/held"
        lodger batch --mem 1G -- "$guest" hold 256 "$machine/held-2"
        [ "$(of chat plane)" = preload ]
        [ "$(of batch plane)" = gate ]
        [ "$(of chat quota_bytes)" = $((2048 * MIB)) ]
        wait_for holds chat 512
        [ "$(of chat processes)" -eq 1 ]
        "$sublet" ps | grep -q "^chat .* preload "
        run on "$sublet" run --preload --mem 22G -- true # what is leased is leased
        [ "$status" -ne 0 ] && [[ $output == *"do not fit"* ]]
        kill "$(held_in "$machine/held")"
        wait_for is_gone chat
        run "$sublet" ps -a --json
        [ "$(jq -r '.[] | select(.tenant == "chat") | .state + " " + .plane + " " + (.devices[0].peak_bytes | tostring)' <<< "$output")" = "ended preload $((512 * MIB))" ]
}

@test "its quota is the daemon's, and its programs keep it" {
        run on "$sublet" run -q --preload --attach=never --mem 1G -- "$guest" threads 2
        echo "$output"
        [ "$output" = "got_mib=1024" ]
}

@test "its page cannot be changed, so 'set' says what to do; 'end' ends it" {
        lodger chat --preload --attach=never --mem 2G -- "$guest" hold 512 "$machine/held"
        run "$sublet" set chat mem=4G
        [ "$status" -ne 0 ] && [[ $output == *"plane preload"* ]]
        "$sublet" end chat
        wait_for is_gone chat
}

@test "shares of time need a gate, and so do modes" {
        run on "$sublet" run --preload --attach=auto --share 30 -- true
        [ "$status" -eq 2 ] && [[ $output == *"--attach=required"* ]]
        run on "$sublet" run --preload --mode mig -- true
        [ "$status" -eq 2 ] && [[ $output == *"leave --preload out"* ]]
}

@test "a daemon that is killed and replaced knows it again, and what it holds" {
        lodger chat --preload --attach=never --mem 2G -- "$guest" hold 512 "$machine/held"
        local id
        id=$(of chat id)
        daemon_end KILL
        daemon_start
        wait_for holds chat 512
        [ "$(of chat id)" = "$id" ]
        [ "$(of chat state)" = running ]
        kill "$(held_in "$machine/held")"
        wait_for is_gone chat
}

@test "run is killed: the command goes on within its quota, and the lease lasts as long" {
        lodger chat --preload --attach=never --mem 2G -- "$guest" hold 512 "$machine/held"
        wait_for holds chat 512 # the command has begun
        kill -9 "$supervisor"
        sleep 1.5
        holds chat 512
        kill "$(held_in "$machine/held")"
        wait_for is_gone chat
}

@test "a lease as a directory is the daemon's as long as the directory" {
        plain_daemon
        on "$sublet" lease --mem 3G --name web "$tmpfs/web" > "$machine/mounts"
        grep -q "$tmpfs/web:/run/sublet/lease:ro" "$machine/mounts"
        [ "$(of web plane) $(of web quota_bytes)" = "preload $((3072 * MIB))" ]
        daemon_end KILL
        daemon_start
        [ "$(of web state)" = running ]
        "$sublet" lease --end "$tmpfs/web"
        wait_for is_gone web
        on "$sublet" lease --mem 3G --name web "$tmpfs/web"
        rm -r "$tmpfs/web"
        wait_for is_gone web
        on "$sublet" lease --mem 3G --name web "$tmpfs/web"
        "$sublet" end web
        wait_for is_gone web
        [ ! -e "$tmpfs/web" ]
}

@test "what a tenant writes into its region is shown, and breaks nothing" {
        plain_daemon
        on "$sublet" lease --mem 3G --name web "$tmpfs/web" > /dev/null
        tr '\0' '\377' < /dev/zero | dd of="$tmpfs/web/region" bs=4096 seek=1 count=50 conv=notrunc status=none
        sleep 1
        [ "$(of web held_bytes)" -eq 0 ]
        truncate -s 100 "$tmpfs/web/region" # the daemon maps nothing of it
        sleep 1
        [ "$(of web state)" = running ]
        rm -r "$tmpfs/web"
        wait_for is_gone web
}
