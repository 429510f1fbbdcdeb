#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The test replica itself: what other tests of the router rely on.
# variants: plain, because nothing here is built with a sanitizer: nginx is the distribution's
# waits: for what a replica does with time
bats_require_minimum_version 1.5.0

build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$(cd "$BATS_TEST_DIRNAME/../../../build" && pwd)}}

setup() {
        dir=$(mktemp -d /tmp/sublet-replica-XXXXXX)
        "$build/tests/fakes/replica" --wake 1 --listen "unix:$dir/a" --share 0.5 --metrics vllm-old \
                --listen "unix:$dir/b" 3>&- &
        replica=$!
        for _ in $(seq 100); do
                [ -S "$dir/b" ] && ask a /health > /dev/null && return
                sleep 0.02
        done
        return 1
}

teardown() {
        kill "$replica" 2> /dev/null || true
        wait "$replica" 2> /dev/null || true
        rm -rf "$dir"
}

# ask REPLICA PATH [CURL OPTION...]
ask() {
        local socket=$1 path=$2
        shift 2
        curl -sS --max-time 10 --unix-socket "$dir/$socket" "http://replica$path" "$@"
}

# chat TEXT TOKENS [FIELDS]: the body of a request
chat() {
        printf '{"model":"test","messages":[{"role":"user","content":"%s"}],"max_tokens":%s%s}' "$1" "$2" "${3:-}"
}

long() {
        head -c "$1" /dev/zero | tr '\0' "${2:-a}"
}

field() {
        grep -o "\"$1\":[0-9]*" | head -1 | cut -d: -f2
}

@test "an answer in one piece, and the same as a stream" {
        run ask a /v1/chat/completions -d "$(chat hello 5)"
        [[ $output == *'"completion_tokens":5'* && $output == *'"finish_reason":"stop"'* ]]
        run ask a /v1/chat/completions -d "$(chat hello 5 ',"stream":true')"
        [ "$(grep -c '"delta":{"content":" ' <<< "$output")" -eq 5 ]
        [[ $output == *'data: [DONE]'* ]]
}

@test "a prompt that was there before costs only its last token" {
        ask a /v1/chat/completions -d "$(chat "$(long 40960)" 1)" > /dev/null
        run ask a /v1/chat/completions -d "$(chat "$(long 40960)" 1)"
        [[ $output == *'"cached_tokens":9728'* || $output == *'"cached_tokens":10240'* ]]
        run ask a /v1/chat/completions -d "$(chat "$(long 40960 b)" 1)"
        [[ $output == *'"cached_tokens":0'* ]]
}

@test "half a share takes twice as long" {
        # The best of three, of prompts that were not there before: others may have the machine.
        for which in a b; do
                for letter in x y z; do
                        ask $which /v1/chat/completions -o /dev/null -w '%{time_total}\n' -d "$(chat "$(long 40960 $letter)" 1)"
                done | sort -n | head -1
        done > "$dir/times"
        awk '{ t[NR] = $1 } END { print t[1], t[2]; exit !(t[2] > 1.6 * t[1] && t[2] < 2.6 * t[1]) }' "$dir/times"
}

@test "a client that leaves during prefill is noticed, and its work with it" {
        run curl -sS --max-time 0.2 --unix-socket "$dir/a" http://replica/v1/chat/completions \
                -d "$(chat "$(long 100000)" 500)"
        [ "$status" -eq 28 ]
        sleep 0.05
        run ask a /replica/stats
        [ "$(field aborted <<< "$output")" -eq 1 ]
        [ "$(field running <<< "$output")" -eq 0 ]
}

@test "faults come as often as they were ordered" {
        ask a '/replica/fault?kind=500&n=2' -X POST > /dev/null
        for expected in 500 500 200; do
                [ "$(ask a /v1/chat/completions -o /dev/null -w '%{http_code}' -d "$(chat hi 1)")" = $expected ]
        done
        ask a '/replica/fault?kind=rst&n=1' -X POST > /dev/null
        run ask a /v1/chat/completions -d "$(chat hi 1)"
        [ "$status" -ne 0 ]
        ask a '/replica/fault?kind=mid&n=1' -X POST > /dev/null
        run ask a /v1/chat/completions -d "$(chat hi 9 ',"stream":true')"
        [ "$status" -ne 0 ]
        [ "$(grep -c '"delta":{"content":" ' <<< "$output")" -eq 3 ]
        ask a '/replica/fault?kind=hang' -X POST > /dev/null
        run curl -sS --max-time 0.2 --unix-socket "$dir/a" http://replica/health
        [ "$status" -eq 28 ]
        ask a '/replica/fault?kind=none' -X POST > /dev/null
        ask a /health
}

@test "a sleeper refuses until it was woken, and has forgotten its cache" {
        ask a /v1/chat/completions -d "$(chat "$(long 40960)" 1)" > /dev/null
        ask a /sleep -X POST > /dev/null
        [ "$(ask a /v1/chat/completions -o /dev/null -w '%{http_code}' -d "$(chat hi 1)")" = 503 ]
        [[ $(ask a /is_sleeping) == *true* ]]
        began=$(date +%s%N)
        ask a /wake_up -X POST > /dev/null
        for _ in {1..100}; do
                [[ $(ask a /is_sleeping) == *true* ]] || break
                sleep 0.05
        done
        [ $((($(date +%s%N) - began) / 1000000)) -ge 1000 ] # --wake
        run ask a /v1/chat/completions -d "$(chat "$(long 40960)" 1)"
        [[ $output == *'"cached_tokens":0'* ]]
}

@test "metrics have the engine's names, of either generation" {
        [[ $(ask a /metrics) == *vllm:kv_cache_usage_perc* ]]
        [[ $(ask b /metrics) == *vllm:gpu_cache_usage_perc* ]]
        [[ $(ask b /metrics) == *'num_gpu_blocks="500"'* ]]
}

@test "tools, images, embeddings and responses have their shapes" {
        tools=',"tools":[{"type":"function","function":{"name":"weather","parameters":{}}}]'
        run ask a /v1/chat/completions -d "$(chat hi 3 "$tools")"
        [[ $output == *'"tool_calls":[{"id":'*'"name":"weather"'* ]]
        run ask a /v1/chat/completions -d '{"model":"test","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]}'
        [ "$(field prompt_tokens <<< "$output")" -gt 250 ]
        run ask a /v1/embeddings -d '{"model":"test","input":["a","b"]}'
        [ "$(grep -o '"embedding":\[' <<< "$output" | wc -l)" -eq 2 ]
        run ask a /v1/responses -d '{"model":"test","input":"hi","max_output_tokens":2}'
        [[ $output == *'"status":"completed"'*'"output_text"'* ]]
}

@test "a broken request is refused in the API's own shape" {
        run ask a /v1/chat/completions -d 'not json'
        [[ $output == '{"error":{"message":'* ]]
        [ "$(ask a /v1/chat/completions -o /dev/null -w '%{http_code}' -d '{"model":"other","messages":[]}')" = 404 ]
        [ "$(ask a /v1/chat/completions -o /dev/null -w '%{http_code}' -d '{"model":"test","messages":[]}')" = 400 ]
}

@test "a replayed trace has the reuse that was recorded, whoever leaves" {
        trace=$dir/trace.jsonl
        for i in 0 1 2 3 4 5 6 7; do
                printf '{"timestamp": %d, "input_length": 3100, "output_length": 3, "hash_ids": [0, 1, 2, 3, %d, %d, %d]}\n' \
                        $((i * 400)) $((10 + i)) $((20 + i)) $((30 + i))
        done > "$trace"
        run "$build/tests/fakes/replay" --to "unix:$dir/a" "$trace"
        [ "$status" -eq 0 ]
        [ "$(field ok <<< "$output")" -eq 8 ]
        # four common blocks, the last of them cut by the template before it
        [ "$(ask a /replica/stats | field hit_tokens)" -ge $((7 * 3 * 512)) ]
        run "$build/tests/fakes/replay" --to "unix:$dir/a" --leave 1 --closed 4 --shared 1 --limit 12
        [ "$status" -eq 0 ]
        [ $(($(field ok <<< "$output") + $(field left <<< "$output"))) -eq 12 ]
        [ "$(ask a /replica/stats | field running)" -eq 0 ]
        ask a '/replica/fault?kind=rst&n=2' -X POST > /dev/null
        run "$build/tests/fakes/replay" --to "unix:$dir/a" "$trace"
        [ "$status" -eq 1 ]
        [ "$(field early <<< "$output")" -eq 2 ]
}
