#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Shares on engines beside the graphics engine: two tenants that only copy (tests/gpu/copies.c) on the simulator, where
# each copy takes 2 ms of the copy engine. Tolerances are wide; tests/gpu/engines.sh has the exact figures of a device.
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
# variants: plain, because the claim is about time
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        export SUBLET_SIM_COPY_NS=2000000
        machine_start --memory 64G --realistic-time
        daemon_start
}

teardown() {
        node_end
        machine_end
}

# copier NAME SHARE: a tenant that copies for four seconds once its pipe has a line. It has so many copies in flight
# that the engine has some of it also when a busy machine lets the program wait.
copier() {
        mkfifo "$machine/$1.go"
        on "$sublet" run -q --name "$1" --mem 2G --share "$2" -- "$plain/tests/gpu/gpu-copies" 4 1 32 < "$machine/$1.go" \
                > "$machine/$1" 3>&- &
        supervisors+=($!)
}

# while_both FILE FILE: how many copies each has made while both copied, and how many milliseconds that was
while_both() {
        awk 'FNR == 1 { f++ } /^at=/ { split($1, t, "="); split($2, d, "="); n[f]++; at[f, n[f]] = t[2] / 1e6; done[f, n[f]] = d[2] }
             function by(f, when, i) {
                     for (i = 1; i < n[f] - 1 && at[f, i + 1] < when; i++)
                             ;
                     return done[f, i] + (done[f, i + 1] - done[f, i]) * (when - at[f, i]) / (at[f, i + 1] - at[f, i])
             }
             END {
                     if (n[1] < 2 || n[2] < 2)
                             exit 1
                     begin = at[1, 1] > at[2, 1] ? at[1, 1] : at[2, 1]
                     end = at[1, n[1]] < at[2, n[2]] ? at[1, n[1]] : at[2, n[2]]
                     printf "%d %d %d\n", by(1, end) - by(1, begin), by(2, end) - by(2, begin), end - begin
             }' "$1" "$2"
}

trace_of_one_second() { on "$sublet" trace --for 1s -o "$machine/trace.json"; }

# pair SHARE SHARE: how many copies a and b make while both copy, in $a and $b; ps in $rows. On a busy machine one may
# begin a second after the other, and has the engine to itself for the last one. What $during names is called meanwhile.
pair() {
        local to_a to_b msec
        supervisors=()
        copier a "$1"
        copier b "$2"
        exec {to_a}> "$machine/a.go" {to_b}> "$machine/b.go"
        wait_for eval 'grep -q ready "$machine/a" && grep -q ready "$machine/b"'
        echo >&"$to_a"
        echo >&"$to_b"
        exec {to_a}>&- {to_b}>&-
        wait_for eval 'grep -q "at=.*done=..." "$machine/a" && grep -q "at=" "$machine/b"'
        rows=$(on "$sublet" ps --json)
        ${during:-true}
        wait "${supervisors[@]}"
        supervisors=()
        rm "$machine/a.go" "$machine/b.go"
        read -r a b msec < <(while_both "$machine/a" "$machine/b")
        echo "${try:-1}: a=$a b=$b in $msec ms"
}

# Three times at most: a machine that is busy elsewhere may keep a program, or the daemon, from its processor.
@test "two tenants that only copy have the copy engine by their shares" {
        local try
        for try in 1 2 3; do
                pair 80 20
                if [ "$a" -gt $((b * 5 / 2)) ] && [ "$b" -gt $((a / 8)) ]; then return 0; fi
        done
        return 1
}

@test "what a tenant has had of an engine is in ps and in the metrics" {
        pair 50 50
        jq -e '.[] | select(.tenant == "a") | .devices[0].engines.copy | .used_ns > 0 and .granted_permille >= 0' <<< "$rows"
        jq -e '.[] | select(.tenant == "a") | .devices[0].engines | has("jpeg") | not' <<< "$rows"
        [ "$a" -gt $((b / 2)) ] && [ "$b" -gt $((a / 2)) ]
}

@test "a trace has a track for each engine and tenant, with its work and the time it was held" {
        local spans='.traceEvents as $all | [$all[] | select(.name == "thread_name") | { (.tid | tostring): .args.name }] | add as $names
                     | [$all[] | select(.ph == "X" and (.cat | startswith("engine"))) | . + { track: $names[.tid | tostring] }]'
        during='trace_of_one_second'
        pair 50 50
        during=
        jq -e "$spans"' | map(.track) | unique == ["copy: a", "copy: b"]' "$machine/trace.json"
        jq -e "$spans"' | map(.name) | unique == ["held", "work"]' "$machine/trace.json"
        # Both want the engine all the time: half of it is work, and half is held, and never both.
        jq -e "$spans"' | map(select(.track == "copy: a")) | (map(.dur) | add > 700000 and add < 1010000) and
               (map(select(.name == "work") | .dur) | add > 200000 and add < 800000)' "$machine/trace.json"
        jq -e "$spans"' | map(select(.track == "copy: b")) | sort_by(.ts) |
               [range(1; length) as $i | select(.[$i - 1].ts + .[$i - 1].dur > .[$i].ts + 1)] | length == 0' "$machine/trace.json"
}

@test "what tenants had of each engine is billed, also after they ended and to the next daemon" {
        pair 50 50
        daemon_end KILL
        daemon_start
        run -0 --separate-stderr on "$sublet" usage --json
        # Both copied, mostly at once: a second of the clock is one of the engine, whoever has it.
        jq -e '[.[] | .engine_seconds.copy] | length == 2 and add > 1 and add < 20' <<< "$output"
        jq -e 'all(.engine_seconds.jpeg == 0 and .engine_seconds["optical-flow"] == 0)' <<< "$output"
        run -0 --separate-stderr on "$sublet" usage --json --by user
        jq -e 'length == 1 and .[0].engine_seconds.copy > 1' <<< "$output"
        run -0 --separate-stderr on "$sublet" usage --csv
        [[ ${lines[0]} == *,from,to,copy_seconds,decoder_seconds,encoder_seconds,jpeg_seconds,optical_flow_seconds,host_gib_hours ]]
        [[ ${lines[1]} =~ ,[0-9]+\.[0-9]{3},0\.000,0\.000,0\.000,0\.000,0\.[0-9]+$ ]]
        run -0 --separate-stderr on "$sublet" usage
        [[ ${lines[0]} == *' ENGINE-SECONDS' && ${lines[1]} =~ \ copy\ [0-9.]+$ ]]
}
