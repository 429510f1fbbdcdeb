#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Jobs on a machine with several devices: their steps wait for each other, so they come on and go off on all of their
# devices at once. Tolerances are wide, as in time.bats; tests/gpu/jobs.sh has the exact ones.
# variants: plain, because it is about time
# alone: because shares of steps are compared
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --gpus 2 --memory 64G --realistic-time
        daemon_start
        mkdir -p "$machine/barrier"
}

teardown() {
        node_end
        machine_end
}

# job NAME SECONDS [OPTION of run...]: a job on all devices that it is given, which begins with `go`, and logs its steps
job() {
        local name=$1 seconds=$2
        shift 2
        lodger "$name" --mem 2G "$@" -- "$plain/tests/gpu/gpu-steps" -k 8000 -n "$name" -t "$seconds" -o "$machine/$name.steps" -b "$machine/barrier"
        wait_for test -e "$machine/barrier/$name.ready"
}

steps_of() { awk '{ for (i = 1; i <= NF; i++) { split($i, w, "="); if (w[1] == "steps") print w[2] } }' "$machine/$1"; }

# is_done NAME...: they have said how many steps they made
is_done() {
        local name
        for name; do [ -n "$(steps_of "$name")" ] || return 1; done
}

# within VALUE LOW HIGH
within() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ] || { echo "$1 is not within $2 and $3"; "$sublet" ps; return 1; }; }

@test "two jobs of two devices at 70 : 30 make steps in that proportion, and lose little of what one makes alone" {
        local alone a b
        job solo 3 --gpu 0,1
        touch "$machine/barrier/go"
        wait_for is_done solo
        alone=$(steps_of solo)
        rm "$machine/barrier/go"
        job a 6 --gpu 0,1 --share 70
        job b 6 --gpu 0,1 --share 30
        touch "$machine/barrier/go"
        wait_for is_done a b
        a=$(steps_of a) b=$(steps_of b)
        echo "alone $alone in 3 s; a $a, b $b in 6 s"
        within $((a * 1000 / (a + b))) 620 780
        within $(((a + b) * 500 / alone)) 820 1200
}

n_steps() { wc -l < "$machine/$1.steps"; }

# more_than COUNT NAME: it has made more steps
more_than() { [ "$(n_steps "$2")" -gt "$1" ]; }

@test "when the daemon is killed, both jobs go on, on both devices, whichever was on" {
        job a 8 --gpu 0,1 --share 70
        job b 8 --gpu 0,1 --share 30
        touch "$machine/barrier/go"
        wait_for more_than 50 a
        wait_for more_than 20 b
        daemon_end KILL
        wait_for more_than $(($(n_steps a) + 50)) a
        wait_for more_than $(($(n_steps b) + 50)) b
        wait_for is_done a b
        daemon_start
}

# ranks NAME [OPTION of run...] -- [OPTION of ranks...]: a job whose steps end in an all-reduce, for as long as it may
ranks() {
        local name=$1 before=()
        shift
        while [ "$1" != -- ]; do before+=("$1"); shift; done
        shift
        lodger "$name" --mem 1G "${before[@]}" -- "$plain/tests/gpu/gpu-ranks" -k 8000 -m 1000 -s 1000000 -o "$machine/$name.steps" "$@"
        : >> "$machine/$name.steps"
}

# shares_hold NAME=PERMILLE...: in one answer of the daemon each has its share within 80 permille, on every device; of
# two tenants that take turns as one, NAME+NAME
shares_hold() {
        "$sublet" ps --json > "$machine/ps" || return 1
        jq -e --args '. as $all | $ARGS.positional | map(split("=") | (.[1] | tonumber) as $due | (.[0] | split("+")) as $names
                | [$all[] | select(.tenant as $t | $names | index([$t])) | [.devices[].granted_permille]]
                | length == ($names | length) and (transpose | all(add | . >= $due - 80 and . <= $due + 80))) | all' \
                "$@" < "$machine/ps"
}

# half_on NAME: of a trace, permille of the time in which it was disabled on some of its devices and not on others, on
# all of them, and how many those are
half_on() {
        jq -r --arg track "$1 kept off" '
                (.traceEvents | map(select(.ph == "M" and .name == "thread_name" and .args.name == $track) | [.pid, .tid])) as $tracks
                | [.traceEvents[] | select(.ph == "X" and ([.pid, .tid] as $t | $tracks | index([$t])))
                        | [.ts, 1], [.ts + .dur, -1]] | sort
                | reduce .[] as [$at, $step] ({n: 0, last: 0, half: 0, off: 0};
                        if .n > 0 and .n < ($tracks | length) then .half += $at - .last else . end
                        | if .n == ($tracks | length) then .off += $at - .last else . end
                        | .n += $step | .last = $at)
                | "\(.half / 3000 | floor) \(.off / 3000 | floor) \($tracks | length)"' "$machine/trace.json"
}

# longest_wait NAME: between two of its steps, in ms
longest_wait() { awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { printf "%d", most * 1000 }' "$machine/$1.steps"; }

all_free_is() {
        local i
        for ((i = 0; i < 8; i++)); do [ "$(free_mib $i)" = "$1" ] || return 1; done
}

@test "on eight devices jobs of 8, 4, 2 and 1 have their shares of each, none is half on, and what is killed leaves nothing" {
        local i before name half off n jobs=(e:8 q:4 a:2 b0:2 b1:2)
        node_end
        machine_end
        machine_start --gpus 8 --nvlink --memory 64G --realistic-time
        before=$(free_mib 0)
        daemon_start
        ranks e --gpu 0,1,2,3,4,5,6,7 --share 20 -- -j 1 -n 8
        ranks q --gpu 0,1,2,3 --share 50 -- -j 2 -n 4
        ranks a --gpu 4,5 --share 50 -- -j 3 -n 2
        ranks b0 --gpu 6,7 --share 25 --job b -- -j 4 -d 0 -n 1 -w 2
        ranks b1 --gpu 6,7 --share 25 --job b -- -j 4 -d 1 -n 1 -w 2
        for ((i = 0; i < 8; i++)); do
                lodger "s$i" --mem 1G --gpu $i --share 30 -- "$load_program" -n "s$i" -t 300 -k 4000 deep
        done
        for name in "${jobs[@]}"; do wait_for more_than 20 "${name%:*}"; done
        wait_for shares_hold e=200 q=500 a=500 b0+b1=500 s{0..7}=300 || { cat "$machine/ps"; return 1; }

        "$sublet" trace --for 3s -o "$machine/trace.json"
        for name in "${jobs[@]}"; do
                read -r half off n <<< "$(half_on "${name%:*}")"
                echo "$name: disabled on some devices for $half of 1000, on all for $off; longest step $(longest_wait "${name%:*}") ms"
                [ "$n" -eq "${name#*:}" ]
                [ "$off" -ge 200 ] && [ "$half" -le 200 ]
                [ "$(longest_wait "${name%:*}")" -lt 5000 ] # half of what a collective is given
        done

        pkill -KILL -f "^$plain/tests/gpu/gpu-ranks .*$machine/b1.steps"
        wait_for eval '! "$sublet" ps -q | grep -qx b1'
        for name in e q a; do wait_for more_than $(($(n_steps $name) + 10)) $name; done
        "$sublet" end b0 # it waits for ever
        wait_for eval '[ -z "$("$sublet" ps -q | grep b)" ]'
        [ "$(free_mib 6)" -gt "$(free_mib 4)" ]
        "$sublet" ps -q | xargs "$sublet" end
        wait_for all_free_is "$before"
}

@test "the tenants of a job are a row each with its name, and the metrics have it" {
        lodger left --gpu 0 --mem 2G --job training -- sleep 30
        lodger right --gpu 1 --mem 2G --job training -- sleep 30
        lodger other --gpu 1 --mem 2G -- sleep 30
        run -0 "$sublet" ps
        [[ $output =~ JOB ]]
        [ "$("$sublet" ps --json | jq -r '[.[] | .job // "-"] | join(" ")')" = "training training -" ]
        "$sublet" ps --json | jq -e 'map(.devices | length) == [1, 1, 1]'
        curl -s --unix-socket "$SUBLET_DIR/sublet.sock" http://localhost/metrics |
                grep -q 'sublet_tenant_job_info{tenant="left",job="training"} 1'
}

@test "a job's name is checked, and needs the daemon" {
        run -2 on "$sublet" run --job 'a b' --gpu 0 -- true
        [[ $output == *"job 'a b'"* ]]
        run -2 on "$sublet" run --no-daemon --job a --gpu 0 -- true
        [[ $output == *"--job"*"need the daemon"* ]]
}
