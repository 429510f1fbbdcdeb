#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Attacks on time (tests/hostile/time_*.c) from inside a container: runc with the profile that `sublet oci spec` writes,
# as root of the container and as a user of its image, with a share of 30 beside an honest tenant with 70. What counts
# is the work that the honest one does. daemon/attacks-time.bats shows that it has less without a daemon. Tolerances are
# wide: two cores carry machine, daemon and tenants.
# shellcheck disable=SC2154 # what machine.bash, daemon.bash and container.bash set
# alone: because what the honest one does is a matter of the machine's own processors, too
# later: because they take two minutes of the whole machine
# variants: plain, because the programs are not built with a sanitizer and the claim is about time
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../container
load ../attacks-runc

setup() {
        needs runc
        contained_machine_start --memory 64G --realistic-time
        in=$BATS_TEST_TMPDIR/in out=$BATS_TEST_TMPDIR/out
}

teardown() {
        exec 7>&- || true
        [ -z "${attacker:-}" ] || wait "$attacker" || true
        contained_machine_end
}

# attack_begins EDIT NAME: in a container with a share of 30, until it computes
attack_begins() {
        attack_bundle "$1" "$2" '{"sublet.dev/mem": "8G", "sublet.dev/share": "30"}'
        rm -f "$in" "$out" && mkfifo "$in"
        contained < "$in" > "$out" 2>&1 3>&- &
        attacker=$!
        exec 7> "$in"
        wait_for eval 'grep -q "^computing" "$out" || ! kill -0 "$attacker"'
        grep -q '^computing' "$out" || { cat "$out"; return 1; }
}

attack_ends() {
        exec 7>&-
        wait "$attacker" || true
        attacker=''
        wait_for has_tenants 0
}

# honest: the permille of the device that a tenant with a share of 70 computes in three seconds, in $work
honest() {
        local said=$BATS_TEST_TMPDIR/honest
        on "$sublet" run -q --name honest --mem 8G --share 70 -- "$load_program" -t 3 deep > "$said" 3>&- ||
                { cat "$said"; return 1; }
        work=$(awk '/^name=/ { for (i = 1; i <= NF; i++) { split($i, w, "="); v[w[1]] = w[2] }
                               printf "%d", v["pieces"] * v["piece_us"] / v["seconds"] / 1000 }' "$said")
}

# leaves NAME PERMILLE: to the honest tenant, both ways, in one of four tries: a machine that is busy elsewhere starves
# one of the two. An attack that succeeds leaves it a quarter, however often.
leaves() {
        local edit try
        for edit in "$ROOT" "$USER_OF_IMAGE"; do
                for try in 1 2 3 4; do
                        attack_begins "$edit" "$1"
                        honest
                        attack_ends
                        echo "$1, $try: the honest tenant had $work permille"
                        if [ "$work" -gt "$2" ]; then break; fi
                done
                [ "$work" -gt "$2" ]
        done
}

@test "a group that says it belongs to a copy engine has its tenant's share" { leaves time-says-copy 620; }
@test "many contexts at once have their tenant's share together" { leaves time-many-contexts 620; }
@test "a tenant that writes to its rings without a doorbell takes no time of another" {
        leaves time-waits 850
        grep -q '^rings=[1-9]' "$out"
}

@test "a group that says it belongs to a copy engine with a run list of its own has its tenant's share" {
        leaves time-says-copy-2 620
}
@test "a group that says it belongs to a decoder has its tenant's share" { leaves time-says-decoder 620; }
@test "a group that is bound to the graphics engine later has its tenant's share" { leaves time-bound-later 620; }
@test "a group of a child's client has its tenant's share" { leaves time-other-client 620; }
@test "a group whose channels are scheduled one by one has its tenant's share" { leaves time-scheduled-singly 620; }
@test "a group that is scheduled before its channels are there has its tenant's share" { leaves time-scheduled-early 620; }
@test "groups that are scheduled again and again have their tenant's share" { leaves time-rescheduled 620; }
@test "contexts that live for a moment have their tenant's share together" { leaves time-born-off 620; }
@test "processes that compute for a moment, many at once, have their tenant's share together" {
        leaves time-many-processes 620
}
