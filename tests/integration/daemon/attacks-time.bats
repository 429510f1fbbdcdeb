#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The attacks on time (tests/hostile/time_*.c), each first without a daemon, where it takes more of the device than its
# share (its positive control: whatever it does, it computes), and then as a tenant with a share of 30 beside one with
# 70. What counts is the work that the honest one does. It has a second of it in its queue, so that it does not lack
# work where the host's processors are busy. Its turns still suffer there, by what is not known yet: 343 to 697 permille
# were seen of its 700 beside 16 to 93 others that wanted them. Tolerances are wide: two cores carry machine, daemon and
# tenants. tests/gpu/hostile-time.sh has the exact ones.
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
# alone: because what the honest one does is a matter of the machine's own processors, too
# variants: plain, because the programs are not built with a sanitizer and the claim is about time
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 64G --realistic-time
        daemon=''
        in=$BATS_TEST_TMPDIR/in out=$BATS_TEST_TMPDIR/out
}

teardown() {
        exec 7>&- || true
        [ -z "${attacker:-}" ] || wait "$attacker" || true
        node_end
        machine_end
}

# attack NAME COMMAND...: starts it and waits until it computes
attack() {
        local name=$1
        shift
        rm -f "$in" "$out" && mkfifo "$in"
        "$@" "$plain/tests/hostile/attack-$name" < "$in" > "$out" 2>&1 3>&- &
        attacker=$!
        exec 7> "$in"
        wait_for eval 'grep -q "^computing" "$out" || ! kill -0 "$attacker"'
        grep -q '^computing' "$out" || { cat "$out"; return 1; }
}

attack_ends() {
        exec 7>&-
        wait "$attacker" || true
        attacker=''
        cat "$out"
}

# honest COMMAND...: the permille of the device that it computes, in $work: in three seconds as a tenant. Without a
# daemon, where it gets a quarter, one is enough.
honest() {
        "$@" "$load_program" -k 10000 -q 100 -t "$([ -n "$daemon" ] && echo 3 || echo 1)" deep > "$BATS_TEST_TMPDIR/honest" 3>&- || { cat "$BATS_TEST_TMPDIR/honest"; return 1; }
        work=$(awk '/^name=/ { for (i = 1; i <= NF; i++) { split($i, w, "="); v[w[1]] = w[2] }
                               printf "%d", v["pieces"] * v["piece_us"] / v["seconds"] / 1000 }' "$BATS_TEST_TMPDIR/honest")
}

# honest_has -gt|-lt PERMILLE NAME: beside the attack, in one of six tries: a machine that is busy
# elsewhere starves one of the two. An attack that succeeds leaves the honest one a quarter, however often.
honest_has() {
        local is=$1 than=$2 name=$3 first=(on) second=(on) try
        if [ -n "$daemon" ]; then
                first=(on "$sublet" run -q --name attacker --mem 8G --share 30 --)
                second=(on "$sublet" run -q --name honest --mem 8G --share 70 --)
        fi
        for try in 1 2 3 4 5 6; do
                attack "$name" "${first[@]}"
                honest "${second[@]}"
                attack_ends
                echo "$name, $try: ${daemon:+as a tenant }the honest program had $work permille"
                if test "$work" "$is" "$than"; then return 0; fi
        done
        return 1
}

# keeps_its_share NAME: the honest tenant has most of its share of 70 beside the attack, and had not without a daemon
keeps_its_share() {
        honest_has -lt 600 "$1"
        daemon_start
        honest_has -gt 620 "$1"
}

@test "a group that says it belongs to a copy engine has its tenant's share" {
        keeps_its_share time-says-copy
}

@test "a group that says it belongs to a copy engine with a run list of its own has its tenant's share" {
        keeps_its_share time-says-copy-2
}

@test "a group that says it belongs to a decoder has its tenant's share" {
        keeps_its_share time-says-decoder
}

@test "a group that is bound to the graphics engine later has its tenant's share" {
        keeps_its_share time-bound-later
}

@test "a group of a child's client has its tenant's share" {
        keeps_its_share time-other-client
}

@test "a group whose channels are scheduled one by one has its tenant's share" {
        keeps_its_share time-scheduled-singly
}

@test "a group that is scheduled before its channels are there has its tenant's share" {
        keeps_its_share time-scheduled-early
}

@test "groups that are scheduled again and again have their tenant's share" {
        keeps_its_share time-rescheduled
}

@test "contexts that live for a moment have their tenant's share together" {
        keeps_its_share time-born-off
}

@test "many contexts at once have their tenant's share together" {
        keeps_its_share time-many-contexts
}

@test "processes that compute for a moment, many at once, have their tenant's share together" {
        keeps_its_share time-many-processes
}

@test "a tenant that shows short steps and then has long ones has its share" {
        keeps_its_share time-two-faces
}

@test "a context that never says how it is to be preempted has its tenant's share" {
        keeps_its_share time-no-mode
}

# It computes nothing, so it takes nothing without a daemon. Believed, it would leave the honest one next to nothing.
@test "a tenant that writes to its rings without a doorbell has no turns, and takes no time of another" {
        daemon_start
        honest_has -gt 850 time-waits
        grep -q '^rings=[1-9]' "$out"
}
