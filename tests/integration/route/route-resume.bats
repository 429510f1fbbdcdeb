#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Streams whose replica dies in the middle (tests/fakes/counting.py: its model counts), and go on at another where the
# client allows it.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain, because nothing here is built with a sanitizer: nginx is the distribution's
bats_require_minimum_version 1.5.0
load ../route

setup_file() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
}

setup() {
        router_start
}

teardown() {
        router_stop
}

counting() { # NAME WHEN [N [SECONDS]]
        local name=$1
        shift
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/counting.py" "$dir/$name" "$@" 3>&- &
        pids+=($!)
        pid_of[$name]=$!
        until_ ask "$name" /health -f
}

# pair WHEN N: a, which ends a stream so, and b, which does not and is slower, so that it is asked second
pair() {
        counting a "$@"
        counting b never
        put a
        put b '"rate":10'
}

body() { # TOKENS [FIELDS]
        printf '{"model":"m","stream":true,"prompt":"snow: \\"\\u2603 0","max_tokens":%s%s}' "$1" "${2:-}"
}

# complete BODY [CURL OPTION...]: what the client sees is in $dir/seen, curl's own status in $rc
complete() {
        local body=$1
        shift
        rc=0
        curl -sS --max-time 30 --unix-socket "$dir/http" http://router/v1/completions -H "X-Sublet-Resume: ${leave-allow}" \
                --data-binary "$body" "$@" > "$dir/seen" || rc=$?
}

# The text of the whole stream; each event is JSON.
text() {
        grep '^data: {' "$dir/seen" | sed 's/^data: //' | jq -j '.choices[0].text'
}

counted() { # N: all numbers once and in order, one end
        [ "$rc" = 0 ]
        [ "$(text)" = "$(for i in $(seq "$1"); do printf ' \xe2\x98\x83"%d' "$i"; done)" ]
        [ "$(grep -c '^data: \[DONE\]' "$dir/seen")" = 1 ]
        [ "$(tail -n 2 "$dir/seen" | head -n 1)" = 'data: [DONE]' ]
        [ "$(grep -c '"finish_reason": "length"' "$dir/seen")" = 1 ]
}

asked() { # NAME FIELD: of the last request
        tail -n 1 "$dir/$1.asked" | jq -r ".$2"
}

@test "a stream whose replica dies goes on at another: the client sees one, and no number twice" {
        for when in close reset; do
                pair $when 7
                complete "$(body 20 ',"temperature":0.7,"n":1,"echo":false,"suffix":null')"
                counted 20
                [ "$(of a sent)/$(of b sent)" = 1/1 ]
                [ "$(of a failures)" = 1 ]
                [ "$(asked b max_tokens)" = 13 ]
                [ "$(asked b temperature)" = 0.7 ]
                [ "$(asked b prompt)" = "$(printf 'snow: "\xe2\x98\x83 0'; for i in $(seq 7); do printf ' \xe2\x98\x83"%d' "$i"; done)" ]
                until_ is 0 of b inflight
                [ "$(of a inflight)/$(of a prefilling)/$(of b prefilling)" = 0/0/0 ]
                for name in a b; do
                        api /v1/replicas/$name -X DELETE
                        kill "${pid_of[$name]}"
                        rm "$dir/$name.asked"
                done
        done
        [ "$(jq -r .tries "$dir/access.log" | sort -u)" = 2 ]
        run ! grep -E 'alert|crit|emerg' "$dir/error.log"
}

@test "over HTTP/2, from replica to replica, and after the first event" {
        counting a close 3
        counting b close 0
        counting c close 5
        counting d never
        put a
        put b '"rate":1000'
        put c '"rate":100'
        put d '"rate":10'
        api /v1/settings -X PUT -d '{"retry_permille":1000}' > /dev/null
        complete "$(body 30)" --http2-prior-knowledge --unix-socket "$dir/http2"
        counted 30
        [ "$(asked b max_tokens)/$(asked c max_tokens)/$(asked d max_tokens)" = 27/27/22 ]
        run ! grep -E 'alert|crit|emerg' "$dir/error.log"
}

@test "without the client's leave, or where the rest would be another, a stream that breaks off has broken off" {
        pair close 7
        refused() {
                [ "$rc" != 0 ]
                run ! grep -q DONE "$dir/seen"
                [ "$(of b sent)" = 0 ]
                put a # it was put out, perhaps
        }
        for leave in '' yes never; do
                complete "$(body 20)"
                refused
        done
        leave=allow
        for field in '"n":2' '"best_of":2' '"echo":true' '"logprobs":0' '"suffix":"x"' '"response_format":{"type":"json_object"}' \
                '"presence_penalty":1' '"guided_regex":"a"' '"nobody":"knows"'; do
                complete "$(body 20 ",$field")"
                refused
        done
        complete '{"model":"m","stream":true,"prompt":"0"}'
        [ "$rc" != 0 ]
        [ "$(of b sent)" = 0 ]
}

@test "nobody else is up: the rest is held, and comes when somebody is" {
        counting a close 7
        counting b never
        put a
        api /v1/settings -X PUT -d '{"breaker_failures":1,"hold_ms":10000}' > /dev/null
        complete "$(body 20)" &
        client=$!
        until_ is 1 held
        put b
        wait "$client"
        rc=0
        counted 20
        [ "$(asked b max_tokens)" = 13 ]
}

@test "the rest comes from nobody: what there is breaks off, and no error follows it" {
        counting a close 7
        counting b compressed
        put a
        put b '"rate":10'
        api /v1/settings -X PUT -d '{"hold_ms":300}' > /dev/null
        complete "$(body 20)"
        [ "$rc" != 0 ]
        [ "$(grep -c 'cmpl-a' "$dir/seen")" = 7 ]
        run ! grep -q 'cmpl-b\|error\|DONE' "$dir/seen"
        api /v1/replicas/b -X DELETE
        api /v1/settings -X PUT -d '{"breaker_failures":1}' > /dev/null
        put a
        complete "$(body 20)"
        [ "$rc" != 0 ]
        run ! grep -q 'error\|DONE' "$dir/seen"
        run ! grep -E 'alert|crit|emerg' "$dir/error.log"
        until_ is 0 of a inflight
}

@test "a stream that has ended but for its last word, or says an error, is not asked for again" {
        pair unended
        complete "$(body 5)"
        [ "$rc" != 0 ]
        [ "$(of b sent)" = 0 ]
        [ "$(text | tail -c 1)" = 5 ]
        counting c error 3
        api /v1/replicas/a -X DELETE
        put c
        complete "$(body 5)"
        [ "$rc" = 0 ]
        grep -q '"error": {"message": "died"}' "$dir/seen"
        [ "$(of b sent)" = 0 ]
}

@test "a client that reads slowly, and one that leaves, while the replica dies" {
        pair reset 3000
        complete "$(body 4000)" --limit-rate 400k
        counted 4000
        [ "$(asked b max_tokens)" = 1000 ]
        api /v1/replicas/b -X DELETE
        put a
        api /v1/settings -X PUT -d '{"breaker_failures":1}' > /dev/null
        complete "$(body 4000)" --max-time 3
        [ "$rc" != 0 ]
        until_ is 0 held
        [ "$(of a inflight)" = 0 ]
        run ! grep -E 'alert|crit|emerg' "$dir/error.log"
}
