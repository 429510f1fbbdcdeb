#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The planner beside a daemon: what the machine has, what runs on it, and what would have to change.
# variants: plain address, because there are no threads in the verb, and daemon.bats has those of the daemon
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

# services MEMORY: of chat
services() {
        echo 'services:'
        echo "- {name: chat, memory: $1, requests: 8, time: 40ms, latency: 1500ms}"
        echo '- {name: embed, memory: 6G, requests: 100, time: 1ms, latency: 500ms, count: 2}'
}

setup() {
        machine_start --gpus 2 --memory 64G
        daemon_start
        cd "$BATS_TEST_TMPDIR" || return 1
        services 8G > services.yaml
}

teardown() {
        node_end
        machine_end
}

@test "a file without devices is planned for those that the daemon has" {
        run -0 "$sublet" plan services.yaml
        echo "$output"
        [[ ${lines[0]} == "GPU 0  H200       turns "* ]]
        [[ ${lines[-1]} == "GPU 1  H200       not needed" ]]
}

@test "what others have leased is not planned with, and what runs stays where it is" {
        lodger outsider --gpu 0 --mem 60G -- sleep 60
        lodger embed-2 --gpu 1 --mem 6G -- sleep 60
        run -0 "$sublet" plan --json services.yaml
        [ "$(jq -r '.devices[1].leases | map(.tenant) | sort | join(" ")' <<< "$output")" = "chat-1 embed-1 embed-2" ]
}

@test "without devices and without a daemon the line names both ways out" {
        daemon_end TERM
        run "$sublet" plan services.yaml
        one_line_and_2 "services.yaml names no devices .*--gpus H200=2.*start it with 'sublet daemon'"
}

# A machine whose tenants are as in services.yaml: by the plan's own commands
as_planned() {
        local command
        "$sublet" plan -o run services.yaml > commands
        while read -r command; do
                [[ $command != '#'* ]] || continue
                # shellcheck disable=SC2086  # the words of a command
                set -- ${command#sublet run --name }
                lodger "$1" "${@:2:$#-3}" -- sleep 60
        done < commands
}

@test "tenants started by the plan's commands are as planned, and stay so" {
        as_planned
        [ "$("$sublet" ps -q | sort | tr '\n' ' ')" = "chat-1 embed-1 embed-2 " ]
        run -0 "$sublet" plan --diff services.yaml
        echo "$output"
        [ "${lines[-1]}" = "0 to change, 3 as they are" ]
        run -0 "$sublet" plan --apply services.yaml
        [ "${lines[-1]}" = "0 changed, 0 refused, 3 as they are" ]
}

@test "a changed file is shown as a difference, applied once, and then there is none" {
        as_planned
        services 9G > services.yaml
        run -3 "$sublet" plan --diff services.yaml
        echo "$output"
        [[ $output == *"set      chat-1 "*"memory 8 GiB -> 9 GiB"* ]]
        [ "$(of chat-1 quota_bytes)" = $((8 << 30)) ]
        run -0 "$sublet" plan --apply services.yaml
        [ "${lines[-1]}" = "1 changed, 0 refused, 2 as they are" ]
        [ "$(of chat-1 quota_bytes)" = $((9 << 30)) ]
        run -0 "$sublet" plan --diff services.yaml
}

@test "tenants that shrink are changed before tenants that grow, whatever their order" {
        as_planned
        "$sublet" set chat-1 mem=6G share=10
        "$sublet" set embed-2 mem=1G
        "$sublet" set embed-1 mem=56G share=1
        "$sublet" set embed-2 share=89
        run -3 "$sublet" plan --diff services.yaml
        run -0 "$sublet" plan --apply services.yaml
        echo "$output"
        [ "${lines[-1]}" = "3 changed, 0 refused, 0 as they are" ]
        run -0 "$sublet" plan --diff services.yaml
}

@test "a replica that does not run, runs elsewhere or is one too many is left to its owner, with the command" {
        lodger embed-1 --gpu 0,1 --mem 6G -- sleep 60
        lodger embed-3 --gpu 0 --mem 6G -- sleep 60
        run -3 "$sublet" plan --diff --json services.yaml
        [ "$(jq -r '.changes[] | select(.tenant == "chat-1").action' <<< "$output")" = start ]
        [ "$(jq -r '.changes[] | select(.tenant == "embed-3").command' <<< "$output")" = "sublet end embed-3" ]
        [[ $(jq -r '.changes[] | select(.tenant == "embed-1").command' <<< "$output") == "sublet end embed-1 && sublet run --name embed-1 --gpu 0 --mem 6144M "* ]]
        run -0 "$sublet" plan --apply services.yaml
        [[ ${lines[-1]} == *"; for you: 2 to start, 1 to move, 1 to end" ]]
        [ "$("$sublet" ps -q | sort | tr '\n' ' ')" = "embed-1 embed-3 " ]
}

@test "a plan that leaves a service out changes nothing" {
        as_planned
        services 80G > services.yaml
        run -1 --separate-stderr "$sublet" plan --apply services.yaml
        [[ $stderr == "sublet: chat-1 does not fit: "*": nothing was changed" ]]
        [ "$(of chat-1 quota_bytes)" = $((8 << 30)) ]
}

@test "a plan for other devices than the daemon's is not applied to these" {
        run "$sublet" plan --apply --gpus H200 services.yaml
        one_line_and_2 "no --gpus"
        sed -i '1i gpus: [L4]' services.yaml
        run "$sublet" plan --apply services.yaml
        one_line_and_2 "is for other devices than the daemon has"
}

@test "Deployments have what pods can ask for" {
        run -0 "$sublet" plan -o kubernetes services.yaml
        echo "$output"
        [ "$(grep -c '^kind: Deployment' <<< "$output")" = 2 ]
        grep -A20 'name: chat' <<< "$output" | grep -m1 -q 'gpu-mem: "8", sublet.dev/gpu-share: "[0-9]*"'
        grep -A3 'name: embed' <<< "$output" | grep -q 'replicas: 2'
}
