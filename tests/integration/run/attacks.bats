#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0 The suite of attacks (tests/hostile), each first without a gate, where it must
# come past the quota (its positive control), and then as a tenant, where the device holds no more for it than the
# quota. What counts is the device's own figure, read from outside.
# long: because each attack settles several times
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine

QUOTA=1024
SLACK=16 # MiB; the larger of it and half a percent

setup() {
        machine_start --memory 24G
        export QUOTA_MIB=$QUOTA
        before=$(free_mib 0)
}

teardown() {
        [ -z "${attacker:-}" ] || kill -KILL "$attacker" 2> /dev/null || true
        machine_end
}

# attack NAME COMMAND...: what the device holds for it at the worst, in MiB, in $held; what it said in $said
attack() {
        local out=$BATS_TEST_TMPDIR/out in=$BATS_TEST_TMPDIR/in most=0 now name=$1
        shift
        rm -f "$in" "$out" && mkfifo "$in"
        "$@" "$plain/tests/hostile/attack-$name" < "$in" > "$out" 2> "$out.err" 3>&- &
        attacker=$!
        exec 7> "$in"
        while kill -0 "$attacker" 2> /dev/null && ! grep -q '^holding' "$out"; do
                now=$((before - $(free_mib 0)))
                [ "$now" -le "$most" ] || most=$now
                sleep 0.2
        done
        now=$((before - $(free_mib 0)))
        [ "$now" -le "$most" ] || most=$now
        exec 7>&-
        wait "$attacker" || true
        attacker=''
        held=$most said=$(cat "$out" "$out.err")
        echo "$name: the device held $held MiB; $said"
}

# stops NAME [OPTION...]: without a gate past the quota, with one not
stops() {
        local name=$1 allowed=$((QUOTA + SLACK))
        shift
        attack "$name" on
        [[ $said != *cannot=* ]] || skip "${said#*cannot=}"
        [ "$held" -gt $((QUOTA + SLACK)) ] || { echo "no attack: without a gate it had $held MiB"; return 1; }
        wait_for eval '[ $((before - $(free_mib 0))) -eq 0 ]'
        attack "$name" tenant --mem ${QUOTA}M "$@" --
        [ "$held" -le "$allowed" ] || { echo "past the quota: $held MiB of $QUOTA"; return 1; }
        wait_for eval '[ $((before - $(free_mib 0))) -eq 0 ]' # all of it came back
}

@test "managed memory of a process without its main thread stays charged" {
        stops managed-leader-gone
}

@test "managed memory behind thousands of small ranges stays charged" {
        stops managed-many-ranges
}

@test "managed memory that a child mapped before it executed another program stays charged" {
        stops managed-exec-child
}

@test "exported memory in flight in a socket stays charged" {
        stops export-in-socket
}

@test "exported memory that a poll in progress keeps stays charged" {
        stops export-in-poll
}

@test "exported memory that an aio request keeps stays charged" {
        stops export-in-aio
}

@test "exported memory registered with an io_uring stays charged" {
        stops export-in-uring
}

@test "exported memory that a request of an io_uring keeps stays charged" {
        stops export-in-uring-poll
}

@test "exported memory under a number that keeps changing stays charged" {
        stops export-moving
}

@test "exported memory of a process that may not be looked at stays charged" {
        stops export-undumpable
}

@test "exported memory in a thread's own table stays charged" {
        stops export-own-table
}

@test "exported memory in a connection that nobody accepted stays charged" {
        stops export-unaccepted
}

@test "exported memory of a child without driver calls stays charged" {
        stops export-in-child
}

@test "managed memory of a child that has ended stays charged while the driver keeps it" {
        stops managed-zombie
}

@test "managed memory mapped through a thread's own table is charged" {
        stops managed-own-table
}

@test "managed memory mapped through a number that changes is charged" {
        stops managed-swapped
}

@test "managed memory that is unmapped in part stays charged" {
        stops managed-partial
}

@test "managed memory of an ended parent stays charged while the driver keeps it" {
        stops managed-forked
}
