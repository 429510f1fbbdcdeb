#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# GPU time on a device whose steering takes as long as on the real one: shares, caps, what is lent, and what becomes of
# it when something breaks. Tolerances are wide: two cores carry machine, daemon and tenants. tests/gpu/time.sh has the
# exact ones.
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 64G --realistic-time
        daemon_start
}

teardown() {
        node_end
        machine_end
}

# worker NAME SECONDS "[OPTION of load...] MODE" [OPTION of run...]: computes once `go` is called
worker() {
        local name=$1 seconds=$2 mode=$3
        shift 3
        mkdir -p "$machine/barrier"
        # shellcheck disable=SC2086 # its words
        lodger "$name" --mem 2G "$@" -- "$load_program" -n "$name" -t "$seconds" -b "$machine/barrier" $mode
        wait_for test -e "$machine/barrier/$name.ready"
}

go() {
        touch "$machine/barrier/go"
        sleep "${1:-1.5}"
}

# within VALUE LOW HIGH
within() {
        [ "$1" -ge "$2" ] && [ "$1" -le "$3" ] || { echo "$1 is not within $2 and $3"; "$sublet" ps; return 1; }
}

# settles TENANT FIELD LOW HIGH: it is seen within them, sooner or later: a machine that is busy elsewhere does no work
settles() {
        wait_for within_quietly "$@" && return 0
        "$sublet" ps
        echo "$1: $2 is not within $3 and $4"
        return 1
}

within_quietly() {
        local is
        is=$(of "$1" "$2")
        [ "$is" -ge "$3" ] && [ "$is" -le "$4" ]
}

# work_of NAME: microseconds of work that it did, when it has ended
work_of() {
        awk '/^name=/ { for (i = 1; i <= NF; i++) { split($i, w, "="); v[w[1]] = w[2] } }
             END { printf "%d", v["pieces"] * v["piece_us"] }' "$machine/$1"
}

@test "time is shared as promised, is measured as it was used, and the sum is nearly all of it" {
        local a b
        worker a 6 deep --share 70
        worker b 6 deep --share 30
        go 2.5
        settles a granted_permille 640 760
        settles b granted_permille 240 360
        settles a promised_permille 650 750
        wait "${supervisors[@]}"
        a=$(work_of a) b=$(work_of b)
        within $((a * 1000 / (a + b))) 640 760
        within $(((a + b) / 6000)) 800 1010
}

# what_of NAME FIELD: in us, what its steps took
what_of() { awk -v f="$2" '/^name=/ { for (i = 1; i <= NF; i++) { split($i, w, "="); v[w[1]] = w[2] } } END { printf "%d", v[f] }' "$machine/$1"; }

@test "a service of class latency that wants more than its share is slowed evenly, not stopped" {
        worker a 5 "-k 800 sync" --share 30 --class latency
        worker b 5 "-k 5000 deep" --share 70 --class batch
        go 2.5
        settles a granted_permille 240 370
        wait "${supervisors[@]}"
        echo "p50 $(what_of a p50_us), p99 $(what_of a p99_us), longest $(what_of a max_us) us"
        within "$(what_of a p50_us)" 700 5000
        within "$(what_of a p99_us)" 700 40000 # by turns of a period it was 70 ms
}

@test "a share counts at once when it is set, and a cap holds" {
        worker a 60 deep --share 70
        worker b 60 deep --share 30
        go 2
        "$sublet" set a share=20
        "$sublet" set b share=80
        sleep 2
        settles a granted_permille 140 260
        "$sublet" set b cap=30
        sleep 2
        settles b granted_permille 240 310
        settles a granted_permille 580 770
}

@test "a tenant that is alone and capped has its cap" {
        worker a 60 deep --cap 30
        go 2.5
        settles a granted_permille 260 310
}

@test "what an idle tenant does not want is lent, and is back when it is wanted" {
        worker a 60 deep --share 50
        worker b 8 deep --share 50
        go 2
        settles a granted_permille 430 570
        wait_for eval '! "$sublet" ps -q | grep -qx b'
        sleep 1.5
        settles a granted_permille 930 1000
}

@test "an idle context that is alone is not charged for" {
        worker a 60 idle
        go 1.5
        settles a granted_permille 0 100
}

@test "a tenant that is alone is billed for its kernels, not for the pauses between them" {
        worker a 60 "-k 5000 -p 50000 periodic" # a tenth of the time; for what is on the device, all of it
        go 1.5
        settles a granted_permille 1 300
        "$sublet" end a
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        rm -rf "$machine/barrier"
        worker b 60 "-k 20000 -q 1 deep" # never a pause, and no launch for 20 ms
        go 1.5
        settles b granted_permille 900 1000
}

@test "a kernel without end takes nothing from others" {
        worker a 60 "-k 90000000 -q 1 deep" --share 50
        worker b 60 deep --share 50
        go 2.5
        settles b granted_permille 430 570
}

@test "a tenant that schedules its groups or sets its slice without end has its share and no more" {
        local preload=$machine_preload mode
        for mode in schedule slice; do
                rm -rf "$machine/barrier"
                machine_preload=$plain/tests/gpu/libsublet-cheat.so:$preload
                SUBLET_CHEAT=$mode worker "$mode" 60 deep --share 30
                machine_preload=$preload
                worker b 60 deep --share 70
                go 2.5
                settles "$mode" granted_permille 230 370
                settles b granted_permille 630 770
                "$sublet" end "$mode" b
                wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        done
}

@test "the trace shows which tenant was on the device, which was disabled, and the calls for that" {
        worker a 5 deep --share 50
        worker b 5 deep --share 50
        go 1.5
        "$sublet" trace -o "$machine/trace.json" --for 1s
        jq -e '[.traceEvents[] | select(.ph == "X") | .name] | (index("a") and index("b") and index("kept off") and index("let on"))' \
                "$machine/trace.json"
        # Nobody is on the device while another is.
        jq -e '[.traceEvents[] | select(.ph == "X" and .cat == "on")] | sort_by(.ts) |
               [range(1; length) as $i | select(.[$i - 1].ts + .[$i - 1].dur > .[$i].ts + 1)] | length == 0' "$machine/trace.json"
}

@test "a lost device is an event, and the daemon goes on" {
        worker a 20 deep --share 50
        worker b 20 deep --share 50
        go 1
        "$plain/src/sublet" sim --dir "$machine" --fault lost-gpu=0
        wait_for eval '"$sublet" events | grep -q DEVICE_LOST'
        wait "${supervisors[@]}" || true
        kill -0 "$daemon"
        "$sublet" ps
}

@test "an Xid is in the events" {
        worker a 20 deep
        go 1
        "$plain/src/sublet" sim --dir "$machine" --fault xid=13
        wait_for eval '"$sublet" events | grep XID | grep -q 13'
}
