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
