#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Replicas that fail in every way that was seen: what had not begun to be answered is not lost. "Failed" is a request
# whose client got anything but 200 and an answer.
# variants: plain, because nothing here is built with a sanitizer: nginx is the distribution's
# long: because nginx is killed again and again
bats_require_minimum_version 1.5.0
load ../route

setup_file() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
}

setup() {
        router_start
        clients=() n_sent=0
}

teardown() {
        router_stop
}

fault() { # REPLICA KIND [N]
        ask "$1" "/replica/fault?kind=$2&n=${3:-0}" -X POST > /dev/null
}

# burst N TOKENS [FIELDS] [TEXT]: so many at once, each with a prompt and a connection of its own, in the background.
# One curl makes them all: to start it costs more than a request.
burst() {
        local i at=$dir/bodies.${#clients[@]}
        mkdir -p "$at"
        for ((i = 1; i <= $1; i++)); do
                chat "request $i of this burst ${4:-}" "$2" "${3:-}" > "$at/$i"
                [ $i -eq 1 ] || echo next
                printf '%s\n' 'url = http://router/v1/chat/completions' "unix-socket = $dir/http" "data-binary = @$at/$i" \
                        'output = /dev/null' 'max-time = 30' 'write-out = "%{http_code}\n"'
        done > "$at/config"
        curl -sS --parallel --parallel-immediate --parallel-max 200 -K "$at/config" > "$dir/burst.${#clients[@]}" 2> /dev/null &
        clients+=($!)
        n_sent=$((n_sent + $1))
}

# one_more TEXT TOKENS: with the burst, by a curl of its own
one_more() {
        code "$(chat "$1" "$2")" > "$dir/burst.${#clients[@]}" 2> /dev/null &
        clients+=($!)
        n_sent=$((n_sent + 1))
}

# All of the burst were answered; it says what they got.
none_failed() {
        wait "${clients[@]}" || true
        clients=()
        # shellcheck disable=SC2046  # a code each
        printf '%s\n' $(for answer in "$dir"/burst.*; do cat "$answer" && echo; done) > "$dir/codes"
        rm -r "$dir"/burst.* "$dir"/bodies.*
        sort "$dir/codes" | uniq -c
        [ "$(wc -l < "$dir/codes")" -eq "$n_sent" ]
        n_sent=0
        [ "$(grep -vc '^200$' "$dir/codes")" -eq 0 ]
}

waiting_at() { # REPLICA N
        [ "$(of "$1" prefilling)" -ge "$2" ]
}

@test "one of three answers errors at once while its /health is well: nobody sees it, and it gets few" {
        for name in a b c; do
                replica $name --scale 50
                put $name
        done
        for kind in 500 503 504 garbage close rst event; do
                put a
                fault a $kind
                before=$(of a sent)
                for _ in 1 2 3; do
                        burst 20 4 "$([ $kind != event ] || echo ',"stream":true')"
                        none_failed
                done
                echo "$kind: $(($(of a sent) - before)) of 60 went there"
                [ $(($(of a sent) - before)) -le 24 ]
                [ "$(of a state)" = '"down"' ]
        done
}

@test "an error of all replicas is the engine's own, and no storm" {
        replica a
        replica b
        put a
        put b
        fault a 500
        fault b 500
        run post "$(chat hi 1)"
        [[ $output == *'told to fail'* ]]
        for i in $(seq 20); do code "$(chat "hi $i" 1)" -H 'X-Sublet-Deadline-Ms: 50' > /dev/null; done
        [ "$(api /metrics | sed -n 's/^sublet_route_retries_total //p')" -le 20 ]
}

@test "a client's own error is passed on, tried once, and trips nothing" {
        replica a
        replica b
        put a
        put b
        for _ in $(seq 10); do [ "$(code '{"model":"m","messages":[]}')" = 400 ]; done
        [ "$(($(of a sent) + $(of b sent)))" -eq 10 ]
        [ "$(of a failures)$(of b failures)" = 00 ]
}

@test "a replica that is busy trips nothing: its requests go elsewhere" {
        replica a --scale 50
        replica b --scale 50
        put a
        put b
        for kind in 429 busy; do
                fault a $kind
                burst 30 4
                none_failed
                [ "$(of a failures)" -eq 0 ]
                [ "$(of a state)" = '"up"' ]
        done
}

@test "the only replica is busy: requests are held until it is not" {
        replica a --scale 50
        put a
        fault a busy 5
        burst 20 4
        none_failed
        [ "$(of a failures)" -eq 0 ]
}

@test "a replica that is busy for longer than a request may wait says so itself" {
        replica a
        put a
        api /v1/settings -X PUT -d '{"hold_ms":300}' > /dev/null
        fault a busy
        run post "$(chat hi 1)" -i
        [[ $output == 'HTTP/1.1 503 '*'Retry-After: '* ]]
}

@test "a replica's own 429, which does not say when to come again, says so when it is passed on" {
        replica a
        put a
        api /v1/settings -X PUT -d '{"hold_ms":0}' > /dev/null
        fault a 429
        run post "$(chat hi 1)" -i
        [[ $output == 'HTTP/1.1 429 '*$'\nRetry-After: 1'* ]]
}

@test "a replica is killed with 50 requests in prefill: all of them are answered elsewhere" {
        replica a --scale 0.01 # in prefill until it is killed, however slow this machine is
        put a
        burst 50 2 '' "$(long 300000)"
        until_ waiting_at a 50
        replica b --scale 200
        put b
        kill -9 "${pid_of[a]}"
        none_failed
        [ "$(of b sent)" -ge 50 ]
}

@test "it had sent the head of its streams, as ASGI servers do: they are answered elsewhere all the same" {
        replica a --early --scale 0.01
        put a
        burst 30 2 ',"stream":true' "$(long 120000)"
        until_ waiting_at a 30
        [ "$(ask a /replica/stats | jq .tokens)" -eq 0 ]
        replica b --scale 200
        put b
        kill -9 "${pid_of[a]}"
        none_failed
}

@test "a stream is passed on from its first token, with what came before" {
        replica a --early
        put a
        run post "$(chat hello 5 ',"stream":true')"
        [ "$(grep -c '"delta":{"content":" ' <<< "$output")" -eq 5 ]
        [[ $output == ': ping'*'data: [DONE]'* ]]
        [ "$(of a failed)" -eq 0 ]
}

@test "a replica that was put out loses what it has in hand to the others" {
        replica a --scale 0.01
        put a
        burst 20 2 '' "$(long 120000)"
        until_ waiting_at a 20
        fault a stall
        replica b --scale 200
        put b
        put a '"state":"down"' # as the agent says of one that hangs
        none_failed
        until_ is 0 of a inflight
}

@test "nobody else is up: what a silent replica has in hand stays there, and may still be answered" {
        replica a
        put a
        burst 3 2 '' "$(long 120000)"
        until_ waiting_at a 3
        put a '"state":"down"'
        none_failed
}

@test "a first byte that is overdue is looked for elsewhere" {
        replica a
        put a
        api /v1/settings -X PUT -d '{"first_byte_ms":500}' > /dev/null
        fault a stall
        burst 8 2
        until_ waiting_at a 8
        replica b
        put b
        none_failed
        [ "$(of a state)" = '"down"' ]
}

@test "a replica that falls silent is left as soon as that is longer than it ever took" {
        replica a --scale 20
        put a
        for i in $(seq 40); do code "$(chat "hi $i" 2 ',"stream":true')" > /dev/null; done
        fault a stall
        burst 8 2 ',"stream":true'
        until_ waiting_at a 8
        replica b
        put b
        began=$(date +%s)
        none_failed
        [ $(($(date +%s) - began)) -lt 15 ] # first_byte is ten minutes
        until_ is '"down"' of a state
}

@test "the only replica restarts: all requests wait for it, those in its hands too" {
        replica a --scale 0.01
        put a
        burst 20 2 '' "$(long 120000)"
        until_ waiting_at a 20
        kill -9 "${pid_of[a]}"
        for i in $(seq 21 30); do
                one_more "hi $i" 2
        done
        until_ eval '[ "$(held)" -ge 20 ]'
        replica a --scale 200
        put a
        none_failed
}

@test "a prompt that took longer than requests are held is held anew when its replica dies" {
        api /v1/settings -X PUT -d '{"hold_ms":3000}' > /dev/null
        replica a
        put a
        fault a stall
        burst 4 2
        until_ waiting_at a 4
        sleep 3.2 # the claim: they are older than that
        # what is held now may be held for long: the machine may take its time to start another one
        api /v1/settings -X PUT -d '{"hold_ms":60000}' > /dev/null
        kill -9 "${pid_of[a]}"
        until_ is 4 held
        replica a --scale 50
        put a
        none_failed
}

@test "nobody is up for longer than a request may wait: 503, and when to come again" {
        put a '"state":"down"'
        api /v1/settings -X PUT -d '{"hold_ms":300}' > /dev/null
        run post "$(chat hi 1)" -i
        [[ $output == 'HTTP/1.1 503 '*'Retry-After: '*'"code":"no_replica"'* ]]
        replica a # and one whose replica dies under it
        put a
        fault a stall
        post "$(chat hi 1)" -i > "$dir/late" &
        client=$!
        until_ waiting_at a 1
        kill -9 "${pid_of[a]}"
        wait $client
        run cat "$dir/late"
        [[ $output == 'HTTP/1.1 503 '*'Retry-After: '*'"code":"no_replica"'* ]]
        [ "$(held)" -eq 0 ]
}

@test "before the agent has said all, a model is waited for; afterwards it does not exist" {
        router_stop
        router_start
        api /v1/settings -X PUT -d '{"complete":false}' > /dev/null
        code "$(chat hi 1)" > "$dir/early" &
        client=$!
        until_ is 1 held
        replica a
        put a
        wait $client
        [ "$(cat "$dir/early")" = 200 ]
        post '{"model":"other","messages":[]}' -o /dev/null -w '%{http_code}' > "$dir/other" &
        client=$!
        until_ is 1 held
        api /v1/settings -X PUT -d '{"complete":true}' > /dev/null
        wait $client
        [ "$(cat "$dir/other")" = 404 ]
}

@test "a client that leaves while its request waits for another replica is no longer counted" {
        replica a
        put a
        fault a stall
        curl -sS --unix-socket "$dir/http" http://router/v1/chat/completions -d "$(chat hi 1)" > /dev/null 2>&1 &
        client=$!
        until_ waiting_at a 1
        kill -9 "${pid_of[a]}"
        until_ is 1 held
        kill $client
        wait $client || true
        until_ is 0 held
        replica a
        put a
        [ "$(code "$(chat hi 1)")" = 200 ]
}

@test "a request that kills each replica does not kill them all" {
        for name in a b c d e f; do
                replica $name
                put $name
                fault $name close
        done
        [ "$(code "$(chat hi 1)")" = 502 ]
        failed=0
        for name in a b c d e f; do failed=$((failed + $(of $name failed))); done
        [ "$failed" -le 5 ]
}

@test "a new replica whose rate nobody gave gets its part of the requests" {
        for name in a b; do
                replica $name --scale 2 # a prompt takes longer than others may hold the machine up
                put $name 'rate: 0'
        done
        text=$(long 16000)
        for round in 1 2 3; do
                burst 12 2 ',"stream":true' "before, $round: $text"
                none_failed
        done
        replica c --scale 2
        put c 'rate: 0'
        for round in 1 2 3 4 5; do
                burst 12 2 ',"stream":true' "after, $round: $text"
                none_failed
        done
        echo "the newcomer got $(of c sent) of 60"
        [ "$(of c sent)" -ge 6 ]
}

# joins_cold FIELDS: a replica whose first answers take 4 s comes to two that work; it gets its part soon afterwards
joins_cold() {
        local text before parts=0
        text=$(long 16000)
        for name in a b; do
                replica $name --scale 10
                put $name 'rate: 0'
        done
        for round in 1 2; do
                burst 12 2 "$1" "before, $round: $text"
                none_failed
        done
        replica c --scale 10 --cold 4
        put c 'rate: 0'
        for round in $(seq 60); do
                before=$(of c sent)
                burst 12 2 "$1" "after, $round: $text"
                none_failed
                [ "$(ask c /replica/stats | jq .done)" -gt 0 ] || continue # still cold, or tried by nobody
                echo "round $round: the newcomer got $(($(of c sent) - before)) of 12"
                [ $(($(of c sent) - before)) -lt 2 ] || parts=$((parts + 1))
                [ "$parts" -lt 3 ] || break
        done
        [ "$parts" -eq 3 ]
        [ "$(of c failed)" -eq 0 ]
}

@test "a replica whose first answers take 4 s gets its part afterwards" {
        joins_cold ''
}

@test "the same with streams" {
        joins_cold ',"stream":true'
}

@test "under load, one replica after another fails in one way after another: nothing that had not begun is lost" {
        for name in a b c d; do
                replica $name --scale 10 --early
                put $name
        done
        "$build/tests/fakes/replay" --to "unix:$dir/http" --model m --shared 100 --limit 3000 --closed 32 --most 2000 > "$dir/replay" &
        load=$!
        for kind in 500 busy close kill garbage 429 event rst kill 503; do
                for name in a b; do
                        if [ $kind = kill ]; then
                                kill -9 "${pid_of[$name]}"
                                replica $name --scale 10 --early
                        else
                                fault $name $kind 10
                        fi
                        put $name # as the agent does when /health answers
                        ! kill -0 $load 2> /dev/null || sleep 0.2 # the load goes on
                done
        done
        wait $load || true
        cat "$dir/replay"
        [ "$(jq .early "$dir/replay")" -eq 0 ]
        [ "$(jq '.refused + .status' "$dir/replay")" -eq 0 ]
}
