#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The router and a real daemon: the share that a tenant has now is the speed that the router reckons with.
# variants: plain address, because there are no threads in the verb, and daemon.bats has those of the daemon
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        dir=$(mktemp -d /tmp/sublet-shares-XXXXXX)
        machine_start
        daemon_start
}

teardown() {
        kill "$agent" "$replica" 2> /dev/null || true
        sleep 0.1
        kill "$agent" 2> /dev/null || true
        wait "$agent" "$replica" 2> /dev/null || true
        node_end
        machine_end
        rm -rf "$dir"
}

rate() {
        curl -sS --unix-socket "$dir/run/api/api.sock" http://router/v1/replicas/chat-1 | jq .rate
}

@test "a share that is set while a replica runs is what the router reckons with" {
        "$plain/tests/fakes/replica" --instant --listen "unix:$dir/a" 3>&- &
        replica=$!
        lodger chat-1 --share 30 -- sleep 60
        printf 'listen: unix:%s/http\nmetrics: off\nuser: %s\nworkers: 1\ndaemons: %s\nreplicas: [{name: chat-1, address: "unix:%s/a", rate: 20000}]\n' \
                "$dir" "$(id -un)" "$SUBLET_DIR" "$dir" > "$dir/route.yaml"
        "$sublet" route --dir "$dir/run" --module "$plain/src/route/nginx/ngx_http_sublet_module.so" "$dir/route.yaml" > "$dir/said" 2>&1 3>&- &
        agent=$!
        wait_for eval '[ "$(rate)" = 6000 ]'
        "$sublet" set chat-1 share=60
        wait_for eval '[ "$(rate)" = 12000 ]'
        grep -q 'replica chat-1: 12000 tokens per second with its present share' "$dir/said"
        daemon_end KILL
        wait_for grep -q 'does not answer: shares stay as they were' "$dir/said"
        [ "$(rate)" = 12000 ]
        kill -9 "$supervisor" # there is no daemon to end it
}
