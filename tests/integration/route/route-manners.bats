#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Replicas and clients with bad manners, at the level of bytes (tests/fakes/rude.py), through `sublet route` as it is
# shipped. No client of a well-behaved kind sees any of it, as long as one other replica is well.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain, because what is read here is read in nginx, which is the distribution's
bats_require_minimum_version 1.5.0
load ../route

sublet=${SUBLET_BUILD:-$build}/src/sublet
rude=$BATS_TEST_DIRNAME/../../fakes/rude.py

setup() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
        dir=$(mktemp -d /tmp/sublet-manners-XXXXXX)
        pids=()
        read -r a b <<< "$(/usr/bin/python3 -c 'import socket
a, b = socket.socket(), socket.socket()
a.bind(("127.0.0.1", 0)); b.bind(("127.0.0.1", 0))
print(a.getsockname()[1], b.getsockname()[1])')"
        printf '%s\n' "listen: unix:$dir/http" 'metrics: off' 'workers: 1' "user: $(id -un)" 'zone: 16M' 'policy: round-robin' \
                'retries: 100%' 'breaker: 1000000' 'scrape: 0s' 'health_timeout: 5s' 'hold: 8s' 'replicas:' \
                "- {name: a, address: '127.0.0.1:$a'}" "- {name: b, address: '127.0.0.1:$b'}" > "$dir/config.yaml"
        for name in a b; do
                echo good > "$dir/$name.mode"
                : > "$dir/$name.count"
                /usr/bin/python3 "$rude" "$dir/$name" "${!name}" 3>&- &
                pids+=($!)
        done
        "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml" \
                > "$dir/said" 2>&1 3>&- &
        agent=$!
        for name in a b; do
                until_ eval '[ "$(curl -sS --unix-socket "$dir/run/api/api.sock" "http://x/v1/replicas/$name" | jq -r .state)" = up ]'
        done
}

teardown() {
        [ -z "$agent" ] || { kill "$agent" && sleep 0.1 && kill "$agent"; } 2> /dev/null || true
        for pid in "${pids[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
        wait 2> /dev/null || true
        rm -rf "$dir"
}

# ask_all N: statuses and bodies of N requests, one after another, over one connection; counted
ask_all() {
        local urls=()
        for _ in $(seq "$1"); do urls+=(http://x/v1/chat/completions -o -); done
        curl -sS --max-time 20 --unix-socket "$dir/http" -d "$(chat hi 4)" -w ' %{http_code}\n' "${urls[@]}" |
                grep -oE '[0-9]+$' | sort | uniq -c | tr -s ' '
}

asked() { # REPLICA: how often
        stat -c %s "$dir/$1.count"
}

@test "whatever way a replica fails in before its first byte, the client gets the other's answer" {
        for mode in $("$rude" modes "" | sed '1,/resets-afterwards/d; /429-date/d'); do
                echo "$mode" > "$dir/a.mode"
                before=$(asked a)
                got=$(ask_all 10)
                echo "$mode:$got, $(($(asked a) - before)) tries"
                [ "$got" = ' 10 200' ]
                [ "$(asked a)" -gt "$before" ]
                # it was busy: its time is over before the next way
                [[ $mode != *-date ]] || sleep 1.2
        done
}

@test "whatever a replica may do within HTTP, its answer is passed on, and counts as one" {
        for mode in $("$rude" modes "" | sed '/resets-afterwards/q'); do
                echo "$mode" > "$dir/a.mode"
                : > "$dir/a.count"
                : > "$dir/b.count"
                got=$(ask_all 12)
                echo "$mode:$got, $(asked a) and $(asked b)"
                [ "$got" = ' 12 200' ]
                [ "$(asked a)" -ge 4 ]
                [ $(($(asked a) + $(asked b))) -le 14 ] # a connection closed under a request is tried again
        done
        [ "$(curl -sS --unix-socket "$dir/run/api/api.sock" http://x/v1/replicas/a | jq .failed)" -eq 0 ]
}

@test "kept connections that a replica closes at once are a race that no client loses" {
        echo closes-afterwards > "$dir/a.mode"
        echo resets-afterwards > "$dir/b.mode"
        for _ in 1 2 3 4 5; do
                [ "$(ask_all 60)" = ' 60 200' ]
        done
        for name in a b; do # nor does one count as the replica's failure
                [ "$(curl -sS --unix-socket "$dir/run/api/api.sock" "http://x/v1/replicas/$name" | jq .failed)" -eq 0 ]
        done
}

@test "a busy replica that says until when by a date is left alone that long, at most half a minute" {
        echo 429-date > "$dir/a.mode"
        [ "$(ask_all 10)" = ' 10 200' ]
        n=$(asked a)
        sleep 1.5 # longer than for one that does not say
        [ "$(ask_all 10)" = ' 10 200' ]
        [ "$(asked a)" -eq "$n" ]
}

@test "a client that sends one byte at a time, or goes away in its head, keeps nobody waiting" {
        /usr/bin/python3 - "$dir/http" "$(chat hi 4)" << 'END' 3>&- &
import socket, sys, time
body = sys.argv[2].encode()
slow = []
for _ in range(50):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    slow.append(s)
head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
for byte in head + body:
    for s in slow:
        s.sendall(bytes([byte]))
    time.sleep(0.005)
answers = [s.recv(12) for s in slow]
assert answers == [b"HTTP/1.1 200"] * 50, answers
for _ in range(200):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.sendall(head[:40])
    s.close()
END
        slow=$!
        for _ in 1 2 3; do [ "$(ask_all 20)" = ' 20 200' ]; done
        wait "$slow"
        [ "$(curl -sS --unix-socket "$dir/run/api/api.sock" http://x/v1/state | jq '[.replicas[].inflight] | add')" -eq 0 ]
}

@test "what clients may ask besides: 100-continue, HEAD, a compressed body, a head that is too large" {
        run curl -sS --unix-socket "$dir/http" http://x/v1/chat/completions -H 'Expect: 100-continue' -d "$(chat hi 4)" -o /dev/null -w '%{http_code}'
        [ "$output" = 200 ]
        run curl -sS --unix-socket "$dir/http" -I http://x/v1/models
        [[ $output == 'HTTP/1.1 200'* ]]
        chat hi 4 | gzip | curl -sS --unix-socket "$dir/http" http://x/v1/chat/completions -H 'Content-Encoding: gzip' --data-binary @- \
                -w '\n%{http_code}' > "$dir/answer"
        cat "$dir/answer"
        [ "$(tail -1 "$dir/answer")" = 415 ]
        head -1 "$dir/answer" | jq -e '.error.code == "compressed_body"'
        run curl -sS --unix-socket "$dir/http" http://x/v1/chat/completions -H "X-Long: $(long 70000)" -d "$(chat hi 4)" -w '\n%{http_code}'
        echo "$output"
        [ "${lines[-1]}" = 400 ]
        jq -e '.error.code == "bad_request"' <<< "${lines[0]}"
        [ "$(ask_all 4)" = ' 4 200' ]
}
