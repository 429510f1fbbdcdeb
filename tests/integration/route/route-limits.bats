#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What an API key may use: tokens a minute, by what answers say of them, and requests at once.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain, because nothing here is built with a sanitizer: nginx is the distribution's
bats_require_minimum_version 1.5.0
load ../route

setup_file() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
}

setup() {
        # 2000 tokens a minute are 33 a second: what is refused here is refused for ten seconds and more.
        router_http='sublet_key "small" "sk-small-123" tokens=2000; sublet_key "other" "sk-other-123" tokens=2000;
                     sublet_key "two" "sk-two-12345" concurrent=2; sublet_key "free" "sk-free-1234";'
        router_start
}

teardown() {
        router_stop
}

ended() {
        api /metrics | awk '/^sublet_route_requests_total/ { n += $2 } END { print n }'
}

# settled COMMAND...: a request, and its end. Tokens are settled then, which is after the client has its answer.
settled() {
        local before
        before=$(ended)
        "$@"
        until_ eval '[ "$(ended)" -gt "$before" ]'
}

small() { # BODY [CURL OPTION...]: the status
        local body=$1
        shift
        settled code "$body" -H 'Authorization: Bearer sk-small-123' "$@"
}

@test "a key pays what its answers say, and what was estimated too high is given back" {
        replica a --instant
        put a
        for _ in 1 2 3 4 5 6; do # each is taken for 1024 and more, and uses 20 or so
                [ "$(small '{"model":"m","messages":[{"role":"user","content":"hi"}]}')" = 200 ]
        done
        for _ in 1 2; do
                [ "$(small "$(chat hi 850 ',"stream":true,"stream_options":{"include_usage":true}')")" = 200 ]
        done
        run post "$(chat hi 850)" -H 'x-api-key: sk-small-123' -D -
        [[ $output == 'HTTP/1.1 429'*$'\n'*'Retry-After: '*'"code":"rate_limited"'* ]]
        after=$(sed -n 's/^Retry-After: \([0-9]*\).*/\1/p' <<< "$output")
        [ "$after" -gt 0 ] && [ "$after" -le 30 ]
        [ "$(code "$(chat hi 850)" -H 'Authorization: Bearer sk-other-123')" = 200 ] # each key for itself
        [[ $(api /metrics) == *'outcome="limited"} 1'* ]]
}

@test "an answer that says nothing of its tokens stays as it was estimated" {
        replica a --scale 100
        put a
        eight='"n":8,"stream":true'
        for _ in 1 2; do # 8 x 200, estimated; 200 by what the answer says
                [ "$(small "$(chat hi 200 ",$eight,\"stream_options\":{\"include_usage\":true}")")" = 200 ]
        done
        [ "$(code "$(chat hi 200 ",$eight")" -H 'Authorization: Bearer sk-other-123')" = 200 ]
        [ "$(code "$(chat hi 900)" -H 'Authorization: Bearer sk-other-123')" = 429 ]
        [ "$(small "$(chat hi 600)")" = 200 ]
}

@test "events of a stream are counted whatever its lines end with" {
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/slow.py" "$dir/a" crlf 3>&- &
        pids+=($!)
        until_ ask a /health -f
        put a
        [ "$(small "$(chat hi 10 ',"stream":true')")" = 200 ] # 3000 events, and no word of tokens
        [ "$(small "$(chat hi 10)")" = 429 ]
}

@test "who is refused, or has no answer, pays nothing" {
        put a # nobody is there
        api /v1/settings -X PUT -d '{"hold_ms":100}' > /dev/null
        for _ in 1 2 3 4; do [[ $(small "$(chat hi 1500)") == 50* ]]; done
        replica a --scale 100
        put a
        ask a '/replica/fault?kind=500' -X POST -f > /dev/null
        for _ in 1 2 3; do
                [[ $(small "$(chat hi 1500)") == 50* ]]
                put a '"state":"up"'
        done
        ask a '/replica/fault?kind=none' -X POST -f > /dev/null
        [ "$(small "$(chat hi 1500 ',"stream":true')")" = 200 ]
}

responses() { # [FIELDS]: the id
        settled curl -sS --max-time 10 --unix-socket "$dir/http" http://router/v1/responses -H 'x-api-key: sk-small-123' \
                -d "{\"model\":\"m\",\"input\":\"hi\",\"max_output_tokens\":500${1:-}}" | jq -r .id
}

fetch() { # ID
        settled curl -sS --max-time 10 --unix-socket "$dir/http" "http://router/v1/responses/$1" -H 'x-api-key: sk-free-1234'
}

@test "an answer made in the background is paid when it is fetched first, and once" {
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/stored.py" "$dir/a" 3>&- &
        pids+=($!)
        until_ test -S "$dir/a"
        until_ ask a /v1/responses/x -f
        put a
        began_from=$EPOCHREALTIME
        id=$(responses ',"background":true')
        began_to=$EPOCHREALTIME
        [[ $id == resp_* ]]
        [[ $(fetch "$id") == *'"usage": null'* ]] # not ready: nothing is settled
        echo '{"input_tokens":900,"output_tokens":100}' > "$dir/a.usage"
        for _ in 1 2 3; do [[ $(fetch "$id") == *900* ]]; done
        [ "$(small "$(chat hi 900)")" = 200 ] # 1000 are used, whoever fetched it; this one keeps its estimate
        # Of 2000 a minute 100 are left, and what came since: for 1900 it takes 54 s. Not 24, as if nothing had been
        # paid, nor 84, as if it had been paid twice.
        asked_from=$EPOCHREALTIME
        run post "$(chat hi 1900)" -H 'x-api-key: sk-small-123' -D -
        [[ $output == 'HTTP/1.1 429'* ]]
        after=$(sed -n 's/^Retry-After: \([0-9]*\).*/\1/p' <<< "$output")
        read -r least most < <(awk -v r="$after" -v a="$began_from" -v b="$began_to" -v c="$asked_from" -v d="$EPOCHREALTIME" \
                'BEGIN { printf "%d %d\n", r + c - b, r + d - a }')
        echo "$least to $most s after the first"
        [ "$least" -le 60 ]
        [ "$most" -ge 50 ]
}

@test "a background answer that is larger than its estimate is paid in full" {
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/stored.py" "$dir/a" 3>&- &
        pids+=($!)
        until_ ask a /v1/responses/x -f
        put a
        id=$(responses ',"background":true')
        echo '{"input_tokens":900,"output_tokens":100000}' > "$dir/a.usage"
        [[ $(fetch "$id") == *100000* ]]
        run post "$(chat hi 1)" -H 'x-api-key: sk-small-123' -D -
        [[ $output == 'HTTP/1.1 429'*$'\n'*'Retry-After: '* ]]
        [ "$(sed -n 's/^Retry-After: \([0-9]*\).*/\1/p' <<< "$output")" -gt 1000 ]
}

batch() { # PATH: the id
        settled curl -sS --max-time 10 --unix-socket "$dir/http" "http://router$1" -H 'x-api-key: sk-small-123' \
                -d '{"requests":[{"custom_id":"1","params":{"model":"m","max_tokens":5,"messages":[]}}]}' | jq -r .id
}

get() { # PATH
        settled curl -sS --max-time 10 --unix-socket "$dir/http" "http://router$1" -H 'x-api-key: sk-free-1234'
}

@test "a batch is paid by who asked for it, as far as it has come each time it is looked at" {
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/stored.py" "$dir/a" 3>&- &
        pids+=($!)
        until_ ask a /v1/responses/x -f
        put a
        id=$(batch /v1/batches)
        [[ $id == batch_* ]]
        [[ $(get "/v1/batches/$id") == *'"usage": null'* ]]
        echo '{"input_tokens":500,"output_tokens":500}' > "$dir/a.usage"
        for _ in 1 2 3; do get "/v1/batches/$id" > "$dir/said"; done
        [ "$(small "$(chat hi 900)")" = 200 ] # 1000 are used; this one keeps its estimate
        [ "$(small "$(chat hi 400)")" = 429 ]
        echo '{"input_tokens":500,"output_tokens":100500}' > "$dir/a.usage"
        get "/v1/batches/$id" > "$dir/said"
        run post "$(chat hi 1)" -H 'x-api-key: sk-small-123' -D -
        after=$(sed -n 's/^Retry-After: \([0-9]*\).*/\1/p' <<< "$output")
        echo "after $after" # 100000 more are 3000 s
        [ "$after" -gt 2900 ] && [ "$after" -le 3100 ]
}

@test "the lines of the results of a batch of messages are paid, once" {
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/stored.py" "$dir/a" 3>&- &
        pids+=($!)
        until_ ask a /v1/responses/x -f
        put a
        id=$(batch /v1/messages/batches)
        [[ $id == msgbatch_* ]]
        echo '{"input_tokens":400,"output_tokens":100}' > "$dir/a.usage"
        for _ in 1 2 3; do [ "$(get "/v1/messages/batches/$id/results" | wc -l)" -eq 2 ]; done
        [ "$(small "$(chat hi 900)")" = 200 ]
        [ "$(small "$(chat hi 400)")" = 429 ]
}

# What came back to each number, and after how long (s).
session() { # KEY NUMBER...
        /usr/bin/python3 -u "$BATS_TEST_DIRNAME/../../fakes/session.py" "$dir/http" "sk-$1-123" "${@:2}"
}

@test "a session pays while it runs, waits when it has used too much, and another is refused then" {
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/stored.py" "$dir/a" 3>&- &
        pids+=($!)
        until_ ask a /v1/responses/x -f
        put a
        run session small 700 700 # 1400 of 2000 are used when it has ended
        echo "$output"
        [ "${#lines[@]}" -eq 2 ]
        [ "$(small "$(chat hi 900)")" = 429 ]
        run session small 700 1 1 # 2100: the rest wait for 3 s, less what came back meanwhile
        echo "$output"
        [ "${#lines[@]}" -eq 3 ]
        awk 'NR == 1 && $2 > 0.9 { exit 1 } NR == 2 && ($2 < 1 || $2 > 9) { exit 1 }' <<< "$output"
        session other 9000 1 > "$dir/left" & # one that leaves while it waits
        left=$!
        until_ test -s "$dir/left"
        is 1 of a inflight
        pkill -P $left || kill $left
        wait $left || true
        until_ is 0 of a inflight
        run session other 1
        [ "$output" = 'HTTP/1.1 429' ]
}

hold_stream() { # KEY: a stream that does not end by itself
        curl -sS --max-time 120 --unix-socket "$dir/http" http://router/v1/chat/completions -N -o "$dir/stream.$1.$#$RANDOM" \
                -H "x-api-key: $1" -d "$(chat "long $RANDOM" 100000 ',"stream":true')" 2> /dev/null 3>&- &
        streams+=($!)
        pids+=($!)
}

two() {
        code "$(chat hi 1)" -H 'x-api-key: sk-two-12345'
}

@test "requests at once are counted over all workers, and a worker that is killed gives back its own" {
        streams=()
        replica a
        put a
        hold_stream sk-two-12345
        hold_stream sk-two-12345
        until_ is 2 of a inflight
        for _ in 1 2 3 4; do [ "$(two)" = 429 ]; done
        [ "$(code "$(chat hi 1)" -H 'x-api-key: sk-free-1234')" = 200 ]
        run post "$(chat hi 1)" -H 'x-api-key: sk-two-12345' -D -
        [[ $output == 'HTTP/1.1 429'*$'\n'*'Retry-After: 1'* ]]
        for worker in $(pgrep -P "$nginx"); do kill -9 "$worker"; done
        until_ is 200 two
        for _ in 1 2 3 4; do [ "$(two)" = 200 ]; done
}

@test "an old worker that is killed while it finishes gives back its own, too" {
        streams=()
        replica a
        put a
        hold_stream sk-two-12345
        hold_stream sk-two-12345
        until_ is 2 of a inflight
        old=$(pgrep -P "$nginx")
        kill -HUP "$nginx"
        until_ is 2 grep -c 'gracefully shutting down' "$dir/error.log"
        [ "$(two)" = 429 ]
        for worker in $old; do kill -9 "$worker" 2> /dev/null || true; done # one that has no stream may be gone
        until_ is 200 two
        until_ is 0 of a inflight
        for _ in 1 2 3 4; do [ "$(two)" = 200 ]; done
}
