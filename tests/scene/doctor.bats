#!/usr/bin/env bats
# The verbs that explain: doctor and explain.
bats_require_minimum_version 1.5.0
load machine

teardown() {
        machine_end
}

@test "explain lists the events, and each has its explanation" {
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
}

@test "explain of no event is one line and 2; case does not matter" {
        run "$sublet" explain NO_SUCH_EVENT
        one_line_and_2 "'NO_SUCH_EVENT'"
        run "$sublet" explain quota_refused
        [ "$status" -eq 0 ]
}

@test "doctor on a simulated machine finds everything, and 0" {
        "$sublet" help | grep -q ' doctor ' || skip "no verb doctor"
        machine_start
        run on "$sublet" doctor
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *'580.159.04'* ]]
        [[ $output != *missing* ]]
}

@test "doctor without a driver says what is missing and the next step, and 1" {
        "$sublet" help | grep -q ' doctor ' || skip "no verb doctor"
        [ ! -e /proc/driver/nvidia ] || skip "this machine has a driver"
        run env -u SUBLET_SIM "$sublet" doctor
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *missing*driver* ]]
        [[ $output == *'sublet sim'* ]]
}

@test "doctor says that a release is not known" {
        "$sublet" help | grep -q ' doctor ' || skip "no verb doctor"
        machine_start --driver 610.1
        run on "$sublet" doctor
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *610.1* ]]
}

@test "doctor --json parses" {
        "$sublet" help | grep -q ' doctor ' || skip "no verb doctor"
        machine_start
        on "$sublet" doctor --json | /usr/bin/python3 -c 'import json, sys; json.load(sys.stdin)'
}
