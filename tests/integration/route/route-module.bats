#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The module in the real nginx: what a request goes through, and what may happen to it on the way.
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

@test "an answer in one piece, as a stream, over HTTP/2, and what else the API has" {
        replica a
        put a
        run post "$(chat hello 5)"
        [[ $output == *'"completion_tokens":5'* ]]
        run post "$(chat hello 5 ',"stream":true')"
        [ "$(grep -c '"delta":{"content":" ' <<< "$output")" -eq 5 ]
        [[ $output == *'data: [DONE]'* ]]
        run curl -sS --http2-prior-knowledge --unix-socket "$dir/http2" http://router/v1/chat/completions -d "$(chat hi 2)"
        [[ $output == *'"completion_tokens":2'* ]]
        run curl -sS --unix-socket "$dir/http" http://router/v1/embeddings -d '{"model":"m","input":["a","b"]}'
        [[ $output == *'"embedding":['* ]]
        run curl -sS --unix-socket "$dir/http" http://router/v1/models
        [ "$(jq -r '.data[].id' <<< "$output")" = m ]
        # a request is counted when it is over, and its client may have the answer before that
        until_ eval "api /metrics | grep -q '^sublet_route_requests_total{outcome=\"answered\"} 4\$'"
        until_ is 0 of a inflight
}

@test "a prompt goes where its beginning is cached, however its body arrives" {
        replica a --scale 20
        replica b --scale 20
        put a
        put b
        for letter in p q r s; do
                post "$(chat "$(long 100000 $letter)" 1)" -o /dev/null # through a file: over client_body_buffer_size
                post "$(chat "$(long 100000 $letter) more" 1)" -o /dev/null -H 'Transfer-Encoding: chunked'
        done
        until_ is 8 grep -c . "$dir/access.log"
        [ "$(jq -r .replica "$dir/access.log" | paste - - | awk '$1 != $2' | wc -l)" -eq 0 ]
        [ "$(jq -r 'select(.reason == "cache") | .matched | tonumber > 24000' "$dir/access.log" | grep -c true)" -eq 4 ]
}

@test "bad requests are answered in the API's own shape and reach no replica" {
        replica a
        put a
        refused() { # STATUS CODE
                [ "$status" -eq 0 ] && [ "$(jq -r .error.code <<< "${lines[0]}")" = "$2" ] && [ "${lines[1]}" = "$1" ]
        }
        run post '{"model":"m","messages":[' -w '%{http_code}'
        refused 400 invalid_json
        run post '[]' -w '%{http_code}'
        refused 400 invalid_json
        put b '"models":["second"],"state":"draining"' # or the only model would be meant
        run post '{"messages":[]}' -w '%{http_code}'
        refused 400 model_required
        run post '{"model":"other","messages":[]}' -w '%{http_code}'
        refused 404 model_not_found
        run post "{\"model\":\"m\",\"prompt\":\"$(long 5000000)\"}" -w '%{http_code}'
        refused 413 body_too_large
        body=$(chat hi 1)
        for smuggled in \
                "Content-Length: ${#body}\r\nTransfer-Encoding: chunked" \
                "Content-Length: ${#body}\r\nContent-Length: 3" \
                "Content-Length: ${#body}\r\nX-A: 1\r\n folded" \
                "Transfer-Encoding: chunked, gzip" \
                "Content-Length: +${#body}"; do
                run raw "$smuggled" "$body"
                [[ $output == *'{"error":{"message"'* || $output == 'HTTP/1.1 501'* ]]
                [[ $output == 'HTTP/1.1 4'* || $output == 'HTTP/1.1 501'* ]]
        done
        [ "$(of a sent)" -eq 0 ]
        [ "$(code "$(chat hi 1)")" = 200 ]
}

@test "a client that leaves during prefill is gone at the replica within milliseconds" {
        replica a
        put a
        run -28 post "$(chat "$(long 200000)" 100)" --max-time 0.3
        sleep 0.02
        run ask a /replica/stats
        [[ $output == *'"aborted":1'* && $output == *'"running":0'* ]]
        [ "$(of a inflight)" -eq 0 ]
        until_ is 1 bash -c "curl -s --unix-socket $dir/api/sock http://x/metrics | grep -c 'outcome=\"left\"} 1'"
}

# half_closed SOCKET: what a client gets that ends its side after the request
half_closed() {
        /usr/bin/python3 - "$dir/$1" "$(chat hi 2)" << 'PYTHON'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
body = sys.argv[2].encode()
s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
s.shutdown(socket.SHUT_WR)
print(len(s.recv(65536)))
PYTHON
}

@test "a client that half-closes while it waits has left, to the router as to nginx" {
        replica a
        put a
        router_http="server { listen unix:$dir/plain; location / { proxy_pass http://unix:$dir/a; } }"
        router_configure
        kill -HUP "$nginx"
        until_ test -S "$dir/plain"
        ask a '/replica/fault?kind=stall' -X POST > /dev/null
        for socket in plain http; do
                [ "$(half_closed $socket)" = 0 ]
                until_ is 0 eval 'ask a /replica/stats | jq .running'
        done
        [ "$(of a failed)" -eq 0 ]
        until_ is 1 bash -c "curl -s --unix-socket $dir/api/sock http://x/metrics | grep -c 'outcome=\"left\"} 1'"
}

@test "a request for a replica that sleeps is held, the agent hears of it, and it is answered" {
        replica a
        put a '"state":"asleep"'
        serial=$(api /v1/state | jq .serial)
        post "$(chat hi 2)" > "$dir/answer" &
        client=$!
        run api "/v1/wait?serial=$serial"
        [ "$(jq '.replicas[0].wanted' <<< "$output")" -eq 1 ]
        [ "$(held)" -eq 1 ]
        put a '"state":"up"'
        wait $client
        [[ $(cat "$dir/answer") == *'"completion_tokens":2'* ]]
        [ "$(held)" -eq 0 ]
        [ "$(of a wanted)" -eq 0 ]
}

@test "who is held too long or too many is told so, and when to come again" {
        replica a
        put a '"state":"asleep"'
        api /v1/settings -X PUT -d '{"queue":1,"hold_ms":600000}' > /dev/null
        post "$(chat hi 2)" -o /dev/null --max-time 300 &
        client=$!
        until_ is 1 held
        run post "$(chat hi 2)" -i
        [[ $output == 'HTTP/1.1 429 '*'Retry-After: '*'"code":"queue_full"'* ]]
        put a
        wait "$client"
        put a '"state":"asleep"'
        api /v1/settings -X PUT -d '{"hold_ms":500}' > /dev/null
        run post "$(chat hi 2)" -i
        [[ $output == 'HTTP/1.1 503 '*'Retry-After: '*'"code":"deadline"'* ]]
        [ "$(held)" -eq 0 ]
}

@test "a higher priority takes the place of a lower one in a full queue" {
        router_stop
        router_start 1
        replica a
        put a '"state":"asleep"'
        api /v1/settings -X PUT -d '{"queue":1}' > /dev/null
        code "$(chat low 1)" > "$dir/low" &
        low=$!
        until_ is 1 held
        code "$(chat high 1)" -H 'X-Sublet-Priority: 5' > "$dir/high" &
        high=$!
        wait $low
        [ "$(cat "$dir/low")" = 429 ]
        put a '"state":"up"'
        wait $high
        [ "$(cat "$dir/high")" = 200 ]
}

@test "a held client that leaves is no longer counted" {
        replica a
        put a '"state":"asleep"'
        run -28 post "$(chat hi 2)" --max-time 0.3
        until_ is 0 held
        [ "$(of a wanted)" -eq 0 ]
}

@test "a replica never has more than its capacity, and nobody is lost over it" {
        replica a --scale 10
        put a '"capacity":2'
        most=0
        for i in $(seq 12); do code "$(chat "number $i" 20)" > "$dir/code.$i" & clients[i]=$!; done
        for _ in $(seq 20); do
                n=$(ask a /replica/stats | jq '.running + .waiting')
                [ "$n" -le "$most" ] || most=$n
        done
        wait "${clients[@]}"
        [ "$(sort -u "$dir"/code.*)" = 200 ]
        [ "$most" -le 2 ]
        [ "$(held)" -eq 0 ]
        [ "$(of a inflight)" -eq 0 ]
}

@test "a replica that refuses costs nobody an answer and is out at once" {
        replica a
        put a
        put b # nobody listens there
        api /v1/settings -X PUT -d '{"breaker_ms":600000}' > /dev/null # no single request is let through again
        for i in $(seq 20); do [ "$(code "$(chat "hi $i" 1)")" = 200 ]; done
        [ "$(of b state)" = '"down"' ]
        [ "$(of b down_for)" = '"failures"' ]
        [ "$(of b failed)" -le 1 ]
        replica b
        put b '"state":"up"'
        [ "$(of b state)" = '"up"' ]
}

@test "a replica that was put out, went and came back is out again at its next failure" {
        local failed
        replica a
        replica b
        put a
        put b
        api /v1/settings -X PUT -d '{"breaker_ms":600000}' > /dev/null # no single request is let through again
        ask a '/replica/fault?kind=500&n=1000' -X POST > /dev/null
        until_ eval 'code "$(chat "hi $RANDOM" 1)" > /dev/null; is '"'\"down\"'"' of a state'
        put a '"state":"down"'
        put a '"state":"up"'
        [ "$(of a state)" = '"up"' ]
        failed=$(of a failed)
        until_ eval 'code "$(chat "hi $RANDOM" 1)" > /dev/null; [ "$(of a failed)" -gt "$failed" ]'
        [ "$(of a failed)" -eq $((failed + 1)) ]
        [ "$(of a state)" = '"down"' ]
}

@test "a replica that came back is not blamed for connections that its predecessor had" {
        replica a
        put a
        for i in 1 2 3 4 5 6; do code "$(chat "hi $i" 20)" > /dev/null & clients[i]=$!; done
        wait "${clients[@]}"
        kill -9 "${pid_of[a]}"
        replica a
        for i in 1 2 3 4; do [ "$(code "$(chat "hi $i" 1)")" = 200 ]; done
        [ "$(of a failed)" -eq 0 ]
}

@test "a replica that is killed under load loses only what it had begun to answer" {
        replica a --scale 20
        replica b --scale 20
        put a
        put b
        "$build/tests/fakes/replay" --to "unix:$dir/http" --model m --shared 200 --limit 300 --closed 8 --most 500 > "$dir/replay" &
        load=$!
        sleep 0.3
        kill -9 "${pid_of[a]}"
        wait $load || true
        run cat "$dir/replay"
        [ "$(jq .early <<< "$output")" -eq 0 ]
        [ "$(jq .ok <<< "$output")" -ge 285 ]
        [ "$(of a state)" = '"down"' ]
}

@test "errors of an engine are tried elsewhere, within a budget" {
        local began ms retries
        replica a
        replica b
        put a
        put b
        api /v1/settings -X PUT -d '{"breaker_failures":1000}' > /dev/null # nothing else ends retries
        began=$(date +%s%3N)
        ask a '/replica/fault?kind=503&n=1000' -X POST > /dev/null
        for i in $(seq 8); do [ "$(code "$(chat "hi $i" 1)")" = 200 ]; done
        ask b '/replica/fault?kind=503&n=1000' -X POST > /dev/null
        for i in $(seq 92); do code "$(chat "hi $i" 1)" > /dev/null; done
        ms=$(($(date +%s%3N) - began))
        retries=$(api /metrics | sed -n 's/^sublet_route_retries_total //p')
        echo "$retries retries in $ms ms" # 10 in hand, 10 a second, and a tenth of 100 requests
        [ "$retries" -ge 8 ]
        [ "$retries" -le $((10 + ms / 100 + 10 + 2)) ]
}

@test "a worker that is killed takes its load with it" {
        replica a
        put a '"state":"asleep"'
        for i in 1 2 3 4 5 6; do post "$(chat "hi $i" 2)" > "$dir/answer.$i" 2> /dev/null & done
        until_ is 6 held
        for pid in $(pgrep -P "$nginx"); do kill -9 "$pid"; done
        until_ is 0 held
        [ "$(of a wanted)" -eq 0 ]
        put a '"state":"up"'
        [ "$(code "$(chat hi 1)")" = 200 ]
}

@test "a reload loses neither streams nor who is held, and keeps all it knew" {
        replica a
        replica b
        put a
        put b '"models":["other"],"state":"asleep"'
        epoch=$(api /v1/state | jq .epoch)
        post "$(chat "$(long 4000)" 60 ',"stream":true')" > "$dir/stream" &
        stream=$!
        post '{"model":"other","messages":[{"role":"user","content":"x"}],"max_tokens":1}' -o /dev/null -w '%{http_code}' > "$dir/held" &
        parked=$!
        until_ is 1 held
        kill -HUP "$nginx"
        until_ grep -q 'gracefully shutting down' "$dir/error.log"
        [ "$(code "$(chat hi 1)")" = 200 ]
        [ "$(api /v1/state | jq .epoch)" = "$epoch" ]
        api /v1/replicas/b -X PUT -d '{"state":"up"}' > /dev/null
        wait $stream $parked
        [[ $(cat "$dir/stream") == *'data: [DONE]'* ]]
        [ "$(grep -c '"delta":{"content":" ' "$dir/stream")" -eq 60 ]
        [ "$(cat "$dir/held")" = 404 ] # its engine knows only m: it was sent there
}

@test "a replica that is drained finishes what it has and gets nothing new" {
        replica a
        replica b
        put a
        put b '"state":"draining"'
        for i in $(seq 6); do [ "$(code "$(chat "hi $i" 1)")" = 200 ]; done
        [ "$(of b sent)" -eq 0 ]
        put b
        put a '"state":"draining"'
        post "$(chat hi 40 ',"stream":true')" > "$dir/stream" &
        stream=$!
        until_ is 1 of b inflight
        api /v1/replicas/b -X DELETE
        wait $stream
        [[ $(cat "$dir/stream") == *'data: [DONE]'* ]]
        [ "$(code "$(chat hi 1)" -H 'X-Sublet-Deadline-Ms: 100')" = 503 ]
}

@test "a replica with a quarter of the device gets a quarter of the new prompts, about" {
        replica a --scale 10
        replica b --scale 10 --share 0.25
        put a '"rate":220000'
        put b '"rate":55000'
        "$build/tests/fakes/replay" --to "unix:$dir/http" --model m --shared 400 --limit 400 --closed 24 --most 1000 > /dev/null
        a=$(of a sent) b=$(of b sent)
        [ "$b" -gt 10 ]
        [ "$a" -gt $((2 * b)) ]
}

@test "a slow reader costs no file and no memory" {
        replica a --scale 50
        put a
        before=$(find "$dir/tmp" -type f | wc -l)
        for i in 1 2 3 4; do
                post "$(chat "slow $i" 2000 ',"stream":true')" --limit-rate 20000 -o /dev/null --max-time 2 &
                clients[i]=$!
        done
        sleep 1
        [ "$(find "$dir/tmp" -type f | wc -l)" -eq "$before" ]
        [ "$(find "$dir/tmp/proxy" -type f | wc -l)" -eq 0 ]
        wait "${clients[@]}" || true
}

@test "a model that is expected is waited for, though no replica serves it yet" {
        replica a
        put a '"models": ["other"]'
        [ "$(code "$(chat hi 1)")" = 404 ]
        api /v1/settings -f -o /dev/null -X PUT -d '{"models":["m","n"]}'
        code "$(chat hi 1)" > "$dir/code" &
        asking=$!
        until_ is 1 held
        api /metrics | grep -q '^sublet_route_held 1$'
        replica b
        put b
        wait "$asking"
        [ "$(cat "$dir/code")" = 200 ]
        [ "$(code "$(chat hi 1 | sed s/\"m\"/\"x\"/)")" = 404 ]
        [ "$(api /v1/settings -o /dev/null -w '%{http_code}' -X PUT -d '{"models":[""]}')" = 400 ]
        api /v1/settings -f -o /dev/null -X PUT -d '{"models":[]}'
        api /v1/replicas/b -X DELETE > /dev/null
        [ "$(code "$(chat hi 1)")" = 404 ]
}

@test "what the agent says wrong is refused with a line, and changes nothing" {
        for bad in '{"address":"nowhere"}' '{"models":["m"]}' '{"address":"127.0.0.1:80","state":"tired"}' \
                '{"address":"127.0.0.1:80","capacity":-1}' '{"address":"127.0.0.1:80","models":["a\"b"]}' \
                '{"address":"127.0.0.1:80","models":["a\u000ab"]}' 'x' '[]'; do
                [ "$(api /v1/replicas/x -X PUT -d "$bad" -o "$dir/said" -w '%{http_code}')" = 400 ]
                [ -n "$(jq -r .error "$dir/said")" ]
        done
        [ "$(api /v1/replicas/x -o /dev/null -w '%{http_code}')" = 404 ]
        [ "$(api /v1/settings -X PUT -d '{"policy":"best"}' -o /dev/null -w '%{http_code}')" = 400 ]
        [ "$(api /v1/state | jq '.replicas | length')" -eq 0 ]
}

@test "what comes after a later call, or was said to another zone, is refused and changes nothing" {
        late() { # PATH OPTION...
                [ "$(api "$@" -o "$dir/said" -w '%{http_code}')" = 412 ]
                [ -n "$(jq -r .error "$dir/said")" ]
        }
        taken() {
                api "$@" -f -o /dev/null
        }
        body='{"address":"unix:/a","state":"up"}'
        taken '/v1/replicas/a?order=20' -X PUT -d "$body"
        late '/v1/replicas/a?order=19' -X PUT -d '{"state":"draining"}'
        late '/v1/replicas/a?order=19' -X DELETE
        late '/v1/replicas/a/forget?order=19' -X POST
        [ "$(of a state)" = '"up"' ]
        taken '/v1/replicas/a?order=20' -X PUT -d '{"capacity":3}' # sent twice
        taken /v1/replicas/a -X PUT -d '{"capacity":4}'            # by hand
        late '/v1/replicas/a?order=19' -X PUT -d '{"state":"draining"}'
        taken '/v1/replicas/b?order=3' -X PUT -d "$body" # each has its own
        taken '/v1/replicas/a?order=21' -X DELETE
        late '/v1/replicas/a?order=20' -X PUT -d "$body"
        [ "$(api /v1/replicas/a -o /dev/null -w '%{http_code}')" = 404 ]
        taken '/v1/replicas/a?order=22' -X PUT -d "$body"
        taken '/v1/settings?order=7' -X PUT -d '{"queue":7}'
        late '/v1/settings?order=6' -X PUT -d '{"queue":6}'
        [ "$(api /v1/settings | jq .queue)" = 7 ]
        taken '/v1/routers?order=7' -X PUT -d '{"routers":1,"keep_ms":60000}'
        late '/v1/routers?order=6' -X PUT -d '{"routers":2,"keep_ms":60000}'
        [ "$(api /v1/state | jq .routers)" = 1 ]
        late '/v1/replicas/a?epoch=0123456789abcdef' -X PUT -d '{"state":"draining"}'
        late '/v1/settings?epoch=' -X PUT -d '{"queue":6}'
        taken "/v1/replicas/a?epoch=$(api /v1/state | jq -r .epoch)" -X PUT -d '{"state":"draining"}'
        [ "$(of a state)" = '"draining"' ]
}

@test "an engine that was restarted is believed to have nothing" {
        replica a --scale 20
        put a
        post "$(chat "$(long 40000)" 1)" -o /dev/null
        [ "$(of a cached_blocks)" -gt 30 ]
        api /v1/replicas/a/forget -X POST
        until_ is 0 of a cached_blocks
        post "$(chat "$(long 40000)" 1)" -o /dev/null
        [ "$(jq -r .matched "$dir/access.log" | tail -1)" = 0 ]
        post "$(chat "$(long 40000)" 1)" -o /dev/null
        [ "$(jq -r .matched "$dir/access.log" | tail -1)" -gt 9000 ]
}
