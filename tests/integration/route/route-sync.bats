#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the agent says to the module while one of them is late, or something changes meanwhile: the last word counts.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain address, because there are no threads in the verb, and daemon.bats has those of the daemon
bats_require_minimum_version 1.5.0
load ../route
load ../route-agent

@test "while nginx tests a configuration, replicas are probed as always; what changed meanwhile comes after it" {
        replica a --instant
        listed a
        configure
        agent_start
        until_ is up state a
        # the test of this one hangs: nginx waits for somebody to write its certificate
        mkfifo "$dir/slow.pem"
        configure "certificate: $dir/slow.pem" "certificate_key: $dir/slow.pem" "tls_listen: unix:$dir/tls"
        until_ pgrep -f "nginx.*$dir/run.*nginx.conf.new"
        kill -STOP "${pid_of[a]}"
        until_ is down state a
        kill -CONT "${pid_of[a]}"
        until_ is up state a
        replica b --instant
        listed b
        configure
        sleep 0.6 # the agent has seen that the file is another
        : > "$dir/slow.pem" # no certificate: nginx refuses it
        until_ is up state b
        said 'going on as before'
}

@test "what nginx takes after the agent has given it up is said anew" {
        replica a --instant
        listed a
        configure
        agent_start
        until_ is up state a
        workers=$(pgrep -P "$(cat "$dir/run/nginx.pid")")
        # shellcheck disable=SC2086 # two numbers
        kill -STOP $workers
        sed -i '1s/}$/, drain: true}/' "$dir/replicas"
        configure
        sleep 6 # the call's 5 s are over; it lies in a socket of a worker that will read it
        sed -i '1s/, drain: true}$/}/' "$dir/replicas"
        configure
        sleep 0.6 # the agent has seen that the file is as it was
        # shellcheck disable=SC2086
        kill -CONT $workers
        until_ api /v1/state
        until_ is up state a
        sleep 0.5
        [ "$(state a)" = up ]
}

@test "a call that one worker takes after another has taken a later one changes nothing" {
        replica a --instant
        listed a
        configure
        agent_start
        until_ is up state a
        for worker in $(pgrep -P "$(cat "$dir/run/nginx.pid")"); do # one of them has the agent's connection
                kill -STOP "$worker"
                sed -i '1s/}$/, drain: true}/' "$dir/replicas"
                configure
                for _ in $(seq 60); do # the call's 5 s are over, or it was the other worker's
                        sleep 0.1
                        [ "$(state a)" != draining ] || break
                done
                sed -i '1s/, drain: true}$/}/' "$dir/replicas"
                configure
                sleep 0.6 # the agent has seen that the file is as it was
                until_ is up state a
                kill -CONT "$worker"
                sleep 0.5
                [ "$(state a)" = up ]
        done
}

@test "what changes while a call is under way, or was given up, is said after it" {
        replica a --instant
        listed a
        cp "$dir/replicas" "$dir/all"
        configure
        agent_start
        until_ is up state a
        workers=$(pgrep -P "$(cat "$dir/run/nginx.pid")")
        for pause in 0.6 6; do # the agent has seen the file; the call's 5 s are over
                # shellcheck disable=SC2086 # two numbers
                kill -STOP $workers
                : > "$dir/replicas"
                configure 'queue: 7'
                sleep "$pause"
                cp "$dir/all" "$dir/replicas"
                configure "queue: 1${pause%.*}"
                sleep 0.6
                # shellcheck disable=SC2086
                kill -CONT $workers
                until_ is "1${pause%.*}" eval 'api /v1/settings | jq .queue'
                until_ is up state a
                sleep 0.5
                [ "$(state a)" = up ]
                [ "$(api /v1/settings | jq .queue)" = "1${pause%.*}" ]
        done
}

@test "an agent whose clock is behind that of the one before it goes on after its last word, and says so" {
        replica a --instant
        listed a
        configure
        agent_start
        until_ is up state a
        kill -9 "$agent"
        wait "$agent" || true
        later=$(($(api /v1/state | jq .order) + 3600 * 1000000000)) # an hour
        [ "$(api "/v1/replicas/a?order=$later" -X PUT -d '{"state":"draining"}' -o /dev/null -w '%{http_code}')" = 200 ]
        [ "$(api "/v1/settings?order=$later" -X PUT -d '{"queue":7}' -o /dev/null -w '%{http_code}')" = 200 ]
        agent_start
        until_ is up state a
        until_ is 1000 eval 'api /v1/settings | jq .queue'
        said 'whose clock was 3[56][0-9][0-9] s ahead'
        # and from then on
        sed -i '1s/}$/, drain: true}/' "$dir/replicas"
        configure 'queue: 9'
        until_ is draining state a
        until_ is 9 eval 'api /v1/settings | jq .queue'
}

@test "what an engine says of itself does not let it back when the module has put it out" {
        replica a --scale 0.2
        listed a
        configure 'scrape: 100ms' 'health: off' 'breaker_time: 600s'
        agent_start
        until_ is up state a
        replica b --instant
        listed b
        ask a /v1/chat/completions --max-time 300 -d "$(chat "$(long 40000)" 1000)" > /dev/null 2>&1 & # not by the router
        one=$!
        configure 'scrape: 100ms' 'health: off' 'breaker_time: 600s'
        until_ is up state b
        until_ eval '[ "$(of a kv_permille)" -gt 5 ]'
        ask a '/replica/fault?kind=500' -X POST > /dev/null
        until_ eval 'code "$(chat hi 1)" > /dev/null; is down state a'
        kill "$one"
        until_ is 0 of a kv_permille
        [ "$(of a down_for)" = '"failures"' ]
        [ "$(state a)" = down ]
}
