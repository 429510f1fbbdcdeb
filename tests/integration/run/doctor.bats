#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The verbs that explain: doctor and explain.
# variants: plain address, because there are no threads in the verb, and daemon.bats has those of the daemon
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

teardown() {
        node_end
        machine_end
}

@test "explain lists the events, and each has an explanation" {
        local name n=0
        run "$sublet" explain
        [ "$status" -eq 0 ]
        for name in $(printf '%s\n' "$output" | awk '/^  [A-Z_]+ /{ print $1 }'); do
                run "$sublet" explain "$name"
                [ "$status" -eq 0 ]
                [ "${#lines[@]}" -ge 2 ]
                [[ ${lines[0]} == "$name ("* ]]
                n=$((n + 1))
        done
        [ "$n" -ge 10 ]
        [ "$("$sublet" explain --json | jq 'map(select(.name and .level and .line and .meaning)) | length')" = "$n" ]
        [ "$("$sublet" explain --json quota_refused | jq -r '"\(.name) \(.level)"')" = "$("$sublet" explain QUOTA_REFUSED | sed -n 's/^\([A-Z_]*\) (\([A-Z]*\)).*/\1 \2/p')" ]
        run "$sublet" explain --json 0x801301
        one_line_and_2 '--json goes with an event'
}

@test "an unknown event is one line and exits with 2; case does not matter" {
        run "$sublet" explain NO_SUCH_EVENT
        one_line_and_2 "'NO_SUCH_EVENT'"
        run "$sublet" explain quota_refused
        [ "$status" -eq 0 ]
}

@test "doctor on a simulated machine finds everything and exits with 0" {
        "$sublet" help | grep -q ' doctor ' || skip "no verb doctor"
        machine_start
        run on "$sublet" doctor
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *'580.159.04'* ]]
        [[ $output != *missing* ]]
}

@test "doctor without a driver names what is missing and the next step, and exits with 1" {
        "$sublet" help | grep -q ' doctor ' || skip "no verb doctor"
        [ ! -e /proc/driver/nvidia ] || skip "this machine has a driver"
        run env -u SUBLET_SIM "$sublet" doctor
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *missing*driver* ]]
        [[ $output == *'sublet sim'* ]]
}

@test "a device whose memory is a node of the host is refused in one line, with a daemon and without, and doctor says so" {
        machine_start
        "$sublet" sim --dir "$machine_dir" --fault numa-node=1
        run on "$sublet" run --no-daemon --mem 1G -- true
        [ "$status" -ne 0 ]
        [[ $output == *"NUMA node of the host"* && ${#lines[@]} -eq 1 ]]
        run on "$sublet" doctor
        [[ $output == *"NUMA node of the host"* ]]
        daemon_start
        run on "$sublet" run --mem 1G -- true
        [ "$status" -ne 0 ]
        [[ $output == *"NUMA node of the host"* && ${#lines[@]} -eq 1 ]]
        node_end
        "$sublet" sim --dir "$machine_dir" --fault numa-node=0
        on "$sublet" run -q --no-daemon --mem 1G -- true
}

@test "doctor reports an unknown release" {
        "$sublet" help | grep -q ' doctor ' || skip "no verb doctor"
        machine_start --driver 610.1
        run on "$sublet" doctor
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *610.1* ]]
        [[ $output == *'of its branch nothing was read'* ]]
        machine_end
        machine_start --driver 580.94.02
        run on "$sublet" doctor
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *"'580.94.02'"*'of branch 580 were read: 580.65.06 to 580.82.09'* ]]
        [[ $output == *'or add this one: HACKING.md'* ]]
}

@test "doctor --json parses" {
        "$sublet" help | grep -q ' doctor ' || skip "no verb doctor"
        machine_start
        on "$sublet" doctor --json | /usr/bin/python3 -c 'import json, sys; json.load(sys.stdin)'
}

# status NAME [OUTPUT]: of a line of doctor's --json
status_of() { jq -r --arg n "$1" 'first(.findings[] | select(.name == $n)).status' <<< "$output"; }

@test "doctor reports each other way to share and to supervise" {
        machine_start --driver 580.159.04
        export SUBLET_DIR=$machine/node PATH=/usr/bin:/bin
        run -0 on "$sublet" doctor --json
        echo "$output"
        [ "$(status_of mps)" = limited ]
        [ "$(status_of mig)" = ok ]
        [ "$(status_of self-attach)" = limited ]
        [ "$(status_of daemon)" = limited ]
        [ "$(status_of directory)" = ok ]
        [ "$(status_of containers)" = limited ]
        [ "$(status_of green)" != null ]
        [ "$(status_of cdi)" != null ]
        [ "$(status_of router)" != null ]
        [ "$(jq '[.findings[] | select(.status != "ok" and (.next | not))] | length' <<< "$output")" = 0 ]
}

@test "with a daemon and NVIDIA's program, self-attach and spatial tenants work" {
        machine_start
        daemon_start
        PATH=$BATS_TEST_DIRNAME/../../fakes/mps:$PATH run -0 on "$sublet" doctor --json
        echo "$output"
        [ "$(status_of mps)" = ok ]
        [ "$(status_of self-attach)" = ok ]
        [ "$(status_of daemon)" = ok ]
        chmod 777 "$SUBLET_DIR"
        run -0 on "$sublet" doctor --json
        [ "$(status_of directory)" = limited ]
}

@test "doctor reports a driver older than green contexts, and MIG instances" {
        machine_start --driver 535.288.01 --mig 20G,10G
        run -0 on "$sublet" doctor
        echo "$output"
        [[ $output == *"limited  green        driver 535 has no green contexts"* ]]
        [[ $output == *"mig "*"device 0: on, 2 instances for tenants of --mode mig"* ]]
}
