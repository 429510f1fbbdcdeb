#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The attacks (tests/hostile) on who makes a call: each first without a gate, where it comes past the quota, and then as
# a tenant. What counts is the device's own figure, read from outside.
# long: because some of them start a thousand processes
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine
load ../attacks

@test "calls from a signal handler, of a thread that is in a call, take the quota and no more" {
        stops caller-signal
}

@test "calls of children that share their parent's memory take the quota and no more" {
        stops caller-vfork
}

@test "calls of a process that shares memory and descriptors take the quota and no more" {
        stops caller-clone-vm
}

@test "calls of children with a client of their parent take the quota and no more" {
        stops caller-forked
}

@test "calls by descriptors that were passed on by processes that have ended take the quota and no more" {
        stops caller-passed
}

# A kernel before 6.9 can look into the table of a main thread only: others have no calls then.
is_served() {
        if printf '6.9\n%s\n' "$(uname -r)" | sort -VC; then
                [ "$held" -ge $((QUOTA - 64)) ]
        else
                [ "$(field TENANT_UNREADABLE)" -gt 0 ]
        fi
}

@test "a thread with a table of descriptors of its own gets its quota, and no more" {
        stops caller-own-table
        is_served
}

@test "a program whose main thread has ended gets its quota, and no more" {
        stops caller-without-leader
        is_served
}

@test "calls of processes that are stopped in their midst take the quota and no more" {
        stops caller-stopped
        [ "$held" -ge $((QUOTA - 64)) ]
}

@test "calls from namespaces of pids, mounts and users take the quota and no more" {
        stops caller-namespaces
        [ "$held" -ge $((QUOTA - 64)) ]
}

@test "a program with a filter of its own has no listener, and takes the quota and no more" {
        stops caller-own-filter
        [[ $said == *'listener=0'* ]]
        [ "$held" -ge $((QUOTA - 64)) ]
}

@test "bare system calls take the quota and no more" {
        keeps caller-raw
}

@test "calls that a debugger puts into a program take the quota and no more" {
        keeps caller-traced
}

@test "whoever gets the number of a process that was killed in a call is neither written to nor ended" {
        local out=$BATS_TEST_TMPDIR/out bystander=$BATS_TEST_TMPDIR/bystander
        mkfifo "$out.in" "$bystander.in"
        tenant --mem 1G -- "$plain/tests/hostile/attack-number-reused" < "$out.in" > "$out" 3>&- &
        attacker=$!
        exec 7> "$out.in"
        wait_for grep -q '^ready' "$out"
        "$plain/src/sublet" sim --dir "$machine" --fault slow-control=2000000
        echo >&7
        wait_for grep -q '^free' "$out"
        "$plain/tests/hostile/kit-bystander" "$(value pid "$(cat "$out")")" "$(value at "$(cat "$out")")" \
                < "$bystander.in" > "$bystander" 3>&- 7>&- &
        exec 8> "$bystander.in"
        wait_for grep -q '^bystander\|^cannot' "$bystander"
        ! grep -q '^cannot' "$bystander" || skip "no program may be given a number here"
        [ "$(value pid "$(cat "$bystander")")" -eq "$(value pid "$(cat "$out")")" ]
        echo >&7
        wait_for grep -q '^holding' "$out" # the call of the killed one had been answered before
        exec 7>&-
        wait "$attacker"
        attacker=''
        exec 8>&-
        wait_for grep -q '^ended' "$bystander"
        cat "$bystander"
        grep -q '^changed=0$' "$bystander"
        grep -q '^ended=by itself$' "$bystander"
        books_are_empty
}

@test "twelve hundred processes take the quota together and no more" {
        stops many-processes
}

# few SOFT HARD COMMAND...: with so many descriptors
few() {
        ulimit -Sn "$1" && ulimit -Hn "$2" && "${@:3}"
}

@test "a gate that runs out of descriptors refuses, says so, and loses no charge" {
        stops descriptors
        attack descriptors few 300 400 tenant --mem "${QUOTA}M" --
        [ "$held" -le $((QUOTA + SLACK)) ]
        [ "$(field GATE_FULL)" -gt 0 ]
        books_are_empty
}

@test "a gate has all the descriptors that its user may have, a tenant those that it had" {
        attack descriptors few 300 4000 tenant --mem "${QUOTA}M" --
        [ -z "$(field GATE_FULL)" ]
        [ "$(few 300 400 tenant --mem 1G -- sh -c 'ulimit -Sn; ulimit -Hn' | paste -sd' ')" = '300 400' ]
}

@test "a file system that answers nobody delays no call of the tenant, and its quota holds" {
        stops blocked-mount
        [ "$(value slowest_ms "$said")" -lt 3000 ]
}

@test "memory of processes in the midst of an exec stays charged, and they delay no call" {
        stops exec-midway
        [ "$(value slowest_ms "$said")" -lt 8000 ] # the exec goes on after 15 s
}

@test "what threads were asking for when their process executed another program is charged" {
        stops exec-with-calls
        books_are_empty
}

# What would hang does so for 40 s: then the program lets go.
@test "an epoll whose lock nobody gives back delays no call of the tenant, and its quota holds" {
        stops blocked-poll
        [ "$(value slowest_ms "$said")" -lt 30000 ]
}

@test "nor does one of another program on the machine" {
        [ "$(id -u)" -eq 0 ] || skip "not root: cannot mount what everybody would wait for"
        local neighbour=$BATS_TEST_TMPDIR/neighbour other
        mkfifo "$neighbour.in"
        QUOTA_MIB=64 on "$plain/tests/hostile/attack-blocked-mount" < "$neighbour.in" > "$neighbour" 3>&- &
        other=$!
        exec 8> "$neighbour.in"
        wait_for grep -q '^holding\|^cannot' "$neighbour"
        ! grep -q '^cannot' "$neighbour" || skip "$(cat "$neighbour")"
        before=$(free_mib 0)
        local since=$SECONDS
        attack blocked-mount tenant --mem "${QUOTA}M" --
        [ $((SECONDS - since)) -lt 30 ] # the neighbour lets go after 60 s
        exec 8>&-
        wait "$other"
        [ "$held" -le $((QUOTA + SLACK)) ]
        [ "$(value slowest_ms "$said")" -lt 3000 ]
}

@test "files opened again, by a mere path or beside a client's, take the quota and no more" {
        stops caller-reopened # the simulator's nodes cannot be opened again: tests/gpu/hostile.sh has both sides
        [[ $said == *'wrong=0'* ]]
}
