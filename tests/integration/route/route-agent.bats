#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `sublet route`: Debian's nginx with our module, kept running and told by our agent.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain address, because there are no threads in the verb, and daemon.bats has those of the daemon
bats_require_minimum_version 1.5.0
load ../route
load ../route-agent

@test "requests are answered, streamed or not; models are those that the replicas say" {
        replica a --instant
        replica b --instant
        listed a
        listed b
        configure
        agent_start
        until_ is up state a
        until_ is up state b
        [ "$(code "$(chat hello 3)")" = 200 ]
        run post "$(chat hello 3 ',"stream":true')"
        [[ $output == *'data: [DONE]'* ]]
        run curl -sS --unix-socket "$dir/http" http://x/v1/models
        [ "$(jq -r '.data[].id' <<< "$output")" = m ]
        run curl -sS --unix-socket "$dir/prometheus" http://x/metrics
        [[ $output == *sublet_route_* ]]
}

@test "what the engine says of itself is told to the module" {
        replica a --blocks 100 --block 512
        listed a 'rate: 20000, share: 50%'
        configure
        agent_start
        until_ is up state a
        until_ is 51200 of a kv_tokens
        [ "$(of a rate)" = 10000 ]
}

@test "a changed file counts at once, and a wrong one changes nothing" {
        replica a --instant
        replica b --instant
        listed a
        configure
        agent_start
        until_ is up state a
        listed b 'models: [other]'
        configure 'queue: 7'
        until_ is up state b
        [ "$(api /v1/settings | jq .queue)" = 7 ]
        echo 'policy: fastest' >> "$dir/config.yaml"
        until_ said 'config.yaml:[0-9]+: policy: there is no policy of this name.*going on as before'
        [ "$(code "$(chat hi 1)")" = 200 ]
        listed c 'modles: [x]'
        configure
        until_ said "replicas, number 3: modles: there is no such key here"
        [ "$(state a)$(state b)" = upup ]
        sed -i 1d "$dir/replicas"
        sed -i '$d' "$dir/replicas"
        configure
        until_ is null state a
        [ "$(code "$(chat hi 1)")" = 404 ]
}

@test "a killed nginx comes back on its port and knows everything; what was under way goes on" {
        replica a
        listed a 'capacity: 9'
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        configure
        sed -i "1s|.*|listen: ['unix:$dir/http', 127.0.0.1:$port]|" "$dir/config.yaml"
        agent_start
        until_ is up state a
        # shellcheck disable=SC2034 # used below, by eval
        epoch=$(api /v1/state | jq -r .epoch)
        post "$(chat hi 100 ',"stream":true')" > "$dir/stream" &
        stream=$!
        until_ test -s "$dir/stream"
        kill -9 "$(cat "$dir/run/nginx.pid")"
        until_ said 'nginx ended \(signal 9\)'
        until_ eval '[ "$(api /v1/state | jq -r .epoch)" != "$epoch" ]'
        until_ is up state a
        [ "$(of a capacity)" = 9 ]
        [ "$(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/v1/chat/completions" -d "$(chat hi 1)")" = 200 ]
        [ "$(code "$(chat hi 1)")" = 200 ]
        wait "$stream"
        grep -q DONE "$dir/stream"
}

@test "the agent dies and requests go on; the next one takes over without a break" {
        replica a
        listed a
        configure
        agent_start
        until_ is up state a
        post "$(chat hi 150 ',"stream":true')" > "$dir/stream" &
        stream=$!
        until_ test -s "$dir/stream"
        kill -9 "$agent"
        wait "$agent" || true
        [ "$(code "$(chat hi 1)")" = 200 ]
        before=$(cat "$dir/run/nginx.pid")
        listed b
        replica b --instant
        configure
        agent_start
        until_ is up state b
        said 'nginx runs already'
        [ "$(cat "$dir/run/nginx.pid")" = "$before" ]
        wait "$stream"
        grep -q DONE "$dir/stream"
}

@test "agent and nginx's master are both killed: the next agent takes the port, and what was under way goes on" {
        replica a
        listed a
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        configure
        sed -i "1s|.*|listen: ['unix:$dir/http', 127.0.0.1:$port]|" "$dir/config.yaml"
        agent_start
        until_ is up state a
        post "$(chat hi 150 ',"stream":true')" > "$dir/stream" &
        stream=$!
        until_ test -s "$dir/stream"
        kill -9 "$agent" "$(cat "$dir/run/nginx.pid")"
        wait "$agent" || true
        [ "$(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/health")" = 200 ] # the orphans have it
        agent_start
        until_ is up state a
        until_ said 'processes of an nginx that was killed finish'
        until_ curl -sf "http://127.0.0.1:$port/health"
        until_ is up state a
        for _ in 1 2 3 4; do
                [ "$(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/v1/chat/completions" -d "$(chat hi 1)")" = 200 ]
        done
        [ "$(of a sent)" -ge 4 ] # by the new one
        wait "$stream"
        grep -q DONE "$dir/stream"
}

@test "a replica's name that is missing at first, comes, and moves" {
        unshare -m true 2> /dev/null || skip 'no mount namespace of our own'
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        for address in 127.0.0.2 127.0.0.3; do
                "$build/tests/fakes/replica" --model m --instant --listen "$address:$port" 3>&- &
                pids+=($!)
                until_ curl -sf "http://$address:$port/health"
        done
        echo '127.0.0.1 localhost' > "$dir/hosts"
        printf -- '- {name: a, address: "engine.test:%s"}\n' "$port" > "$dir/replicas"
        configure
        unshare -m sh -c 'mount --make-rprivate / && mount --bind "$1" /etc/hosts && shift && exec "$@"' - "$dir/hosts" \
                "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml" \
                >> "$dir/said" 2>&1 3>&- &
        agent=$!
        until_ said 'replica a: engine.test: '
        echo '127.0.0.2 engine.test' >> "$dir/hosts"
        until_ is up state a
        [ "$(of a address)" = "\"127.0.0.2:$port\"" ]
        printf '127.0.0.1 localhost\n127.0.0.3 engine.test\n' > "$dir/hosts" # the same file: it is mounted
        for _ in 1 2 3; do until_ is "\"127.0.0.3:$port\"" of a address && break; done
        until_ is up state a
        [ "$(code "$(chat hi 1)")" = 200 ]
}

# The replicas that the module knows
names() {
        api /v1/state | jq -r '[.replicas[].name] | sort | join(" ")'
}

@test "a name with several addresses is several replicas, which come and go with its records" {
        unshare -m true 2> /dev/null || skip 'no mount namespace of our own'
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        for address in 127.0.0.2 127.0.0.3 127.0.0.4; do
                "$build/tests/fakes/replica" --model m --instant --listen "$address:$port" 3>&- &
                pids+=($!)
                until_ curl -sf "http://$address:$port/health"
        done
        server=127.77.$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1)) # each test that runs at once has its own
        echo "nameserver $server" > "$dir/resolv.conf"
        echo 'pool.test 127.0.0.2 127.0.0.3' > "$dir/records"
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/names.py" "$server" 53 "$dir/records" 3>&- &
        pids+=($!)
        printf -- '- {name: a, address: "pool.test.:%s"}\n' "$port" > "$dir/replicas"
        configure
        begin() {
                unshare -m sh -c 'mount --make-rprivate / && mount --bind "$1" /etc/resolv.conf && shift && exec "$@"' - \
                        "$dir/resolv.conf" "$sublet" route --dir "$dir/run" --module \
                        "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml" >> "$dir/said" 2>&1 3>&- &
                agent=$!
        }
        begin
        for _ in 1 2 3; do until_ is 'a:127.0.0.2 a:127.0.0.3' names && break; done
        until_ is upup eval 'echo "$(state a:127.0.0.2)$(state a:127.0.0.3)"'
        run -0 "$sublet" route state --dir "$dir/run"
        [[ $output == *a:127.0.0.2* ]] && [[ $output == *a:127.0.0.3* ]]
        for i in $(seq 12); do [ "$(code "$(chat "hi $i" 1)")" = 200 ]; done
        [ "$(of a:127.0.0.2 sent)" -gt 0 ]
        [ "$(of a:127.0.0.3 sent)" -gt 0 ]
        # One is replaced, and the other is what it was. An address of another family is the same process again.
        echo 'pool.test 127.0.0.2 127.0.0.4 ::1' > "$dir/records"
        sent=$(of a:127.0.0.2 sent)
        for _ in 1 2 3; do until_ is 'a:127.0.0.2 a:127.0.0.4' names && break; done
        [ "$(of a:127.0.0.2 sent)" -ge "$sent" ]
        until_ is up state a:127.0.0.4
        : > "$dir/records" # a name that is gone changes nothing
        for _ in 1 2 3; do until_ said 'replica a: pool.test.: ' && break; done
        [ "$(names)" = 'a:127.0.0.2 a:127.0.0.4' ]
        configure 'queue: 7' # and neither does a changed file
        until_ is 7 eval 'api /v1/settings | jq .queue'
        [ "$(names)" = 'a:127.0.0.2 a:127.0.0.4' ]
        kill -9 "$agent" # nor does another agent that cannot resolve it
        wait "$agent" 2> /dev/null || true
        : > "$dir/said"
        begin
        until_ said 'replica a: pool.test.: '
        [ "$(code "$(chat hi 1)")" = 200 ]
        [ "$(names)" = 'a:127.0.0.2 a:127.0.0.4' ]
        [ "$(of a:127.0.0.2 sent)" -ge "$sent" ]
        echo 'pool.test 127.0.0.3' > "$dir/records"
        for _ in 1 2 3; do until_ is a names && break; done
        [ "$(of a address)" = "\"127.0.0.3:$port\"" ]
        until_ is up state a
        [ "$(code "$(chat hi 1)")" = 200 ]
        sed -i 's/name: a/name: b/' "$dir/replicas"
        echo 'pool.test 127.0.0.3 127.0.0.4 127.0.0.2' > "$dir/records"
        configure
        for _ in 1 2 3; do until_ is 'b:127.0.0.2 b:127.0.0.3 b:127.0.0.4' names && break; done
        until_ is up state b:127.0.0.2
        : > "$dir/replicas"
        configure
        until_ is '' names
}

@test "a request line that cannot be read is the client's mistake, and HTTP/2 without TLS is told what to do" {
        replica a --instant
        listed a
        configure
        agent_start
        until_ is up state a
        line() { # what a client says first
                /usr/bin/python3 - "$dir/http" "$1" << 'PYTHON'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode().decode("unicode_escape").encode("latin-1"))
s.shutdown(socket.SHUT_WR)
answer = b""
while piece := s.recv(65536):
    answer += piece
print(answer.decode("latin-1"))
PYTHON
        }
        run -0 line 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
        [[ $output == 'HTTP/1.1 400 '*'"message":"HTTP/2 is spoken with TLS only. Use HTTP/1.1 here'* ]]
        run -0 line 'this is no HTTP\r\n\r\n'
        [[ $output == *'"code":"bad_request"'* ]]
        run -0 line 'GET /health HTTP/4.0\r\n\r\n'
        [[ $output == 'HTTP/1.1 505 '*'"error":{'* ]]
        run -0 line "GET /$(long 40000) HTTP/1.1\\r\\n\\r\\n"
        [[ $output == 'HTTP/1.1 414 '*'"error":{'* ]]
        run -0 line 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\nConnection: close\r\n\r\n0\r\n\r\n'
        [[ $output == 'HTTP/1.1 501 '*'"error":{'* ]]
        run -0 line 'GET /.unreadable HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
        [[ $output == 'HTTP/1.1 404 '* ]]
        run -1 grep 'empty URI' "$dir/run/error.log"
        [ "$(curl -sS -o /dev/null -w '%{http_version} %{http_code}' --http2 --unix-socket "$dir/http" http://x/health)" = '1.1 200' ]
}

@test "replicas may be named on the command line, without a file" {
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        "$build/tests/fakes/replica" --model m --instant --listen "127.0.0.1:$port" 3>&- &
        pids+=($!)
        module="$build/src/route/nginx/ngx_http_sublet_module.so"
        run -0 "$sublet" route --check --dir "$dir/run" --module "$module" --listen "unix:$dir/http" "http://127.0.0.1:$port/v1"
        [[ $output == 'the command line: ok' ]]
        run -2 "$sublet" route --dir "$dir/run" "http://127.0.0.1:$port" config.yaml
        [[ $output == *'config.yaml: expected the base URL of a replica'* ]]
        "$sublet" route --dir "$dir/run" --module "$module" --listen "unix:$dir/http" "http://127.0.0.1:$port" \
                >> "$dir/said" 2>&1 3>&- &
        agent=$!
        until_ is up state "127.0.0.1:$port"
        [ "$(code "$(chat hi 1)")" = 200 ]
        kill -HUP "$agent" # there is no file to read again
        [ "$(code "$(chat hi 1)")" = 200 ]
        kill -0 "$agent"
}

@test "an engine that has the path of a cache for a name serves it; a name that JSON would escape is none" {
        name=$(long 255 n)
        replica a --instant --model "$name"
        replica b --instant --model 'x\u000ay'
        listed a
        listed b
        configure
        agent_start
        until_ is up state a
        until_ is up state b
        run curl -sS --unix-socket "$dir/http" http://x/v1/models
        [ "$(jq -r '.data[].id' <<< "$output")" = "$name" ]
        [ "$(code "$(chat hi 1 | sed "s/\"m\"/\"$name\"/")")" = 200 ]
        listed c 'models: ["a\"b"]'
        configure
        until_ said "replicas, number 3: models: expected a model's name"
}

@test "two agents do not work in one directory" {
        configure
        agent_start
        run "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml"
        [ "$status" -eq 1 ]
        [[ $output == *"another 'sublet route' runs in"* ]]
}

@test "a replica that hangs is out within 2 s, and back when it answers" {
        replica a --instant
        replica b --instant
        listed a
        listed b
        configure
        agent_start
        until_ is up state a
        until_ is up state b
        for _ in 1 2 3; do # the best of three
                ask a '/replica/fault?kind=hang' -X POST > /dev/null
                began=$(date +%s%N)
                # The agent wakes some eight times until then. What others have of the machine delays a shell that
                # sleeps so often, too: for 2 s, and the time that eight processes take to begin.
                (for _ in 1 2 3 4 5 6 7 8; do sleep 0.25; done && : > "$dir/slept") 3>&- &
                slept=$!
                until_ said 'replica a: down: no answer in time'
                took=$((($(date +%s%N -r "$dir/said") - began) / 1000000)) # its last line
                until_ is down state a
                wait "$slept"
                may=$((($(date +%s%N -r "$dir/slept") - began) / 1000000))
                echo "out after $took ms; sleeping for 2000 ms took $may"
                [ "$(code "$(chat hi 1)")" = 200 ]
                ask a '/replica/fault?kind=none' -X POST > /dev/null
                until_ is up state a
                [ "$took" -gt "$may" ] || break
                : > "$dir/said"
        done
        [ "$took" -le "$may" ]
}

@test "who died and came back has an empty cache, and the router knows" {
        replica a
        listed a
        configure
        agent_start
        until_ is up state a
        post "$(chat "$(long 20000)" 1)" > /dev/null
        [ "$(of a cached_blocks)" -gt 10 ]
        kill -9 "${pid_of[a]}"
        until_ is down state a
        replica a
        until_ is up state a
        until_ is 0 of a cached_blocks
}

@test "an engine that sleeps is woken by a request, which is held and answered" {
        replica a --wake 0.3
        listed a 'wake: engine'
        configure
        agent_start
        until_ is up state a
        ask a /sleep -X POST > /dev/null
        until_ is asleep state a
        [ "$(code "$(chat hi 1)")" = 200 ]
        said 'replica a: awake after'
        [ "$(of a wake_ms)" -ge 250 ]
        [ "$(of a wake_ms)" -lt 3000 ]
}

@test "who is idle is put to sleep, and the next request is answered all the same" {
        replica a --wake 0.2
        listed a 'wake: engine, sleep_after: 500ms'
        configure
        agent_start
        until_ said 'replica a: up' # for half a second, which a busy machine may not see
        until_ is asleep state a
        until_ eval '[[ $(ask a /is_sleeping) == *true* ]]' # the module hears it first
        [ "$(code "$(chat hi 1)")" = 200 ]
        until_ is asleep state a
}

@test "a replica that does not run is started by a request" {
        printf '#!/bin/sh\nexec "%s/tests/fakes/replica" --model m --instant --listen "${SUBLET_ADDRESS}" > /dev/null 2>&1 < /dev/null &\necho $! > "%s/started"\n' \
                "$build" "$dir" > "$dir/start"
        chmod +x "$dir/start"
        listed a "models: [m], wake: '$dir/start'"
        configure
        agent_start
        until_ is asleep state a
        [ "$(code "$(chat hi 1)")" = 200 ]
        pids+=("$(cat "$dir/started")")
}

@test "without a way to wake it, a replica that is away is down, and requests wait for it as long as hold says" {
        listed a 'models: [m]'
        configure 'hold: 200ms'
        agent_start
        until_ is down state a
        [ "$(code "$(chat hi 1)")" = 503 ]
        configure 'hold: 20s'
        until_ eval '[ "$(api /v1/settings | jq .hold_ms)" = 20000 ]'
        code "$(chat hi 1)" > "$dir/code" &
        client=$!
        until_ is 1 held
        replica a --instant
        wait $client
        [ "$(cat "$dir/code")" = 200 ]
}

@test "from the first moment on, no request is told that its model does not exist" {
        replica a --instant
        listed a
        configure
        agent_start_only
        for i in 1 2 3 4 5 6 7 8; do
                until_ test -S "$dir/http"
                code "$(chat hi 1)" --retry 3 --retry-connrefused > "$dir/code.$i" &
                clients[i]=$!
        done
        wait "${clients[@]}"
        [ "$(sed 's/200/x/g' "$dir"/code.* | tr -d 'x\n')" = '' ]
        [ "$(code '{"model":"other","messages":[]}')" = 404 ]
}

outside() {
        mkdir -p "$dir/outside"
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/outside.py" "$dir/outside/sublet.sock" "$dir/outside" > /dev/null 2>&1 3>&- &
        pids+=($!)
        until_ test -S "$dir/outside/sublet.sock"
}

@test "the daemon's word about a share counts at once" {
        replica a --instant
        listed a 'rate: 20000, tenant: chat-1'
        outside
        echo '[{"tenant":"chat-1","devices":[{"index":0,"share_permille":250}]}]' > "$dir/outside/tenants.json"
        configure "daemons: $dir/outside"
        agent_start
        until_ is up state a
        until_ is 5000 of a rate
        echo '[{"tenant":"chat-1","devices":[{"index":0,"share_permille":500},{"index":1,"share_permille":400}]}]' > "$dir/outside/new"
        mv "$dir/outside/new" "$dir/outside/tenants.json"
        until_ is 8000 of a rate
}

@test "a suspended tenant is woken through its daemon, and keeps its cache" {
        replica a
        listed a 'wake: daemon'
        outside
        echo '[{"tenant":"a","devices":[{"index":0,"share_permille":500}]}]' > "$dir/outside/tenants.json"
        configure "daemons: [$dir/outside]"
        agent_start
        until_ is up state a
        post "$(chat "$(long 20000)" 1)" > /dev/null
        blocks=$(of a cached_blocks)
        until_ is 0 of a inflight
        sleep 2 # until the agent knows, too: what is suspended with a request in its hands is woken at once
        echo '[{"tenant":"a","suspended":true,"devices":[{"index":0,"share_permille":500}]}]' > "$dir/outside/new"
        mv "$dir/outside/new" "$dir/outside/tenants.json"
        until_ is asleep state a
        [ "$(code "$(chat hi 1)")" = 200 ]
        grep -q 'PATCH /v1/tenants/a {"suspended": false}' "$dir/outside/asked"
        [ "$(of a cached_blocks)" -ge "$blocks" ]
        until_ grep -q 'POST /v1/wakers {"tenants": \["a"\]}' "$dir/outside/asked"
}

# slice READY...: an EndpointSlice of replicas a, b, ...: true, false or terminating
slice() {
        local i=0 list=''
        for ready in "$@"; do
                list+="${list:+,}{\"addresses\":[\"127.0.0.1\"],\"conditions\":{\"ready\":$([ "$ready" = true ] && echo true || echo false),\"terminating\":$([ "$ready" = terminating ] && echo true || echo false)},\"targetRef\":{\"kind\":\"Pod\",\"name\":\"pod-$i\"},\"port\":$i}"
                i=$((i + 1))
        done
        printf '{"metadata":{"name":"s-1","resourceVersion":"%s"},"addressType":"IPv4","ports":[{"name":"http","port":%s}],"endpoints":[%s]}' \
                "$version" "$port" "$list"
}

# A replica on a port of its own
replica_tcp() {
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        "$build/tests/fakes/replica" --model m --instant --listen "127.0.0.1:$port" 3>&- &
        pids+=($!)
        until_ curl -sf "http://127.0.0.1:$port/health"
}

@test "endpoints of a Kubernetes service come, drain and go as the API server says" {
        outside
        replica_tcp
        echo secret-token > "$dir/token"
        version=0
        printf '{"metadata":{"resourceVersion":"0"},"items":[%s]}' "$(slice false)" > "$dir/outside/slices.json"
        configure 'kubernetes:' "- {service: chat, namespace: prod, port: http, api: 'unix:$dir/outside/sublet.sock', token: $dir/token, capacity: 5}"
        agent_start
        until_ is down state pod-0
        version=1
        began=$(date +%s%N)
        printf '{"type":"MODIFIED","object":%s}\n' "$(slice true)" >> "$dir/outside/events"
        until_ is up state pod-0
        took=$((($(date +%s%N) - began) / 1000000))
        echo "first request possible after $took ms"
        [ "$took" -lt 10000 ] # a watch, and no list that is read again and again
        [ "$(code "$(chat hi 1)")" = 200 ]
        [ "$(of pod-0 capacity)" = 5 ]
        grep -q 'namespaces/prod/endpointslices?limit=500&labelSelector=kubernetes.io%2Fservice-name%3Dchat Bearer secret-token' "$dir/outside/asked"
        version=2
        printf '{"type":"MODIFIED","object":%s}\n' "$(slice terminating)" >> "$dir/outside/events"
        until_ is draining state pod-0
        version=3
        printf '{"type":"DELETED","object":%s}\n' "$(slice)" >> "$dir/outside/events"
        until_ is null state pod-0
        touch "$dir/outside/hang_up"
        until_ test ! -e "$dir/outside/hang_up"
        version=4
        printf '{"type":"ADDED","object":%s}\n' "$(slice true)" >> "$dir/outside/events"
        until_ is up state pod-0
        grep -q 'watch=1.*resourceVersion=3' "$dir/outside/asked"
        version=5
        printf '{"metadata":{"resourceVersion":"6"},"items":[]}' > "$dir/outside/slices.json"
        printf '{"type":"ERROR","object":{"kind":"Status","code":410}}\n' >> "$dir/outside/events"
        touch "$dir/outside/hang_up"
        until_ is null state pod-0
}

@test "a service with more endpoints than a router can have is served as far as it goes, and that is said once" {
        outside
        echo secret-token > "$dir/token"
        jq -cn '{metadata: {name: "s", resourceVersion: "1"}, ports: [{name: "http", port: 9}],
                 endpoints: [range(70) | {addresses: ["127.0.1.\(.)"], conditions: {ready: true}}]}' > "$dir/slice"
        printf '{"metadata":{"resourceVersion":"0"},"items":[%s]}' "$(cat "$dir/slice")" > "$dir/outside/slices.json"
        configure 'kubernetes:' "- {service: chat, namespace: prod, port: http, api: 'unix:$dir/outside/sublet.sock', token: $dir/token, models: [m]}"
        agent_start
        until_ grep -q 'service chat: 6 of its endpoints are not used: a router has at most 64 replicas' "$dir/said"
        until_ eval '[ "$(api /v1/state | jq ".replicas | length")" = 64 ]'
        printf '{"type":"MODIFIED","object":%s}\n' "$(cat "$dir/slice")" >> "$dir/outside/events"
        sleep 0.5
        [ "$(grep -c 'are not used\|there are 64' "$dir/said")" = 1 ]
}

@test "a service without endpoints has its models all the same: its first pod answers who waited" {
        outside
        replica_tcp
        echo secret-token > "$dir/token"
        version=0
        printf '{"metadata":{"resourceVersion":"0"},"items":[]}' > "$dir/outside/slices.json"
        configure 'kubernetes:' "- {service: chat, namespace: prod, port: http, api: 'unix:$dir/outside/sublet.sock', token: $dir/token, models: [m]}"
        agent_start
        until_ eval 'api /v1/state | jq -e .settings.complete'
        [ "$(code '{"model":"other","messages":[]}')" = 404 ]
        code "$(chat hi 1)" > "$dir/code" &
        asking=$!
        until_ is 1 held
        version=1
        printf '{"type":"ADDED","object":%s}\n' "$(slice true)" >> "$dir/outside/events"
        wait "$asking"
        [ "$(cat "$dir/code")" = 200 ]
}

@test "an older API server is asked for its Endpoints" {
        outside
        replica_tcp
        printf '{"metadata":{"resourceVersion":"0"},"items":[{"metadata":{"name":"chat"},"subsets":[{"ports":[{"port":%s}],"addresses":[{"ip":"127.0.0.1","targetRef":{"name":"pod-9"}}]}]}]}' \
                "$port" > "$dir/outside/endpoints.json"
        configure 'kubernetes:' "- {service: chat, api: 'unix:$dir/outside/sublet.sock'}"
        agent_start
        until_ is up state pod-9
        [ "$(code "$(chat hi 1)")" = 200 ]
}

@test "with API keys: who has none gets 401, who is too fast 429, and replicas never see one" {
        replica a --instant
        listed a
        configure 'keys:' '- {name: team-a, key: sk-test.12345678}' '- {name: team-b, key: sk-other-87654321, rate: 1/m, burst: 1}'
        agent_start
        until_ is up state a
        run post "$(chat hi 1)"
        [[ $output == '{"error":{"message":'*'invalid_api_key'* ]]
        [ "$(code "$(chat hi 1)")" = 401 ]
        [ "$(code "$(chat hi 1)" -H 'Authorization: Bearer SK-TEST.12345678')" = 401 ]
        [ "$(code "$(chat hi 1)" -H 'Authorization: Bearer sk-testx12345678')" = 401 ]
        for _ in 1 2 3 4; do [ "$(code "$(chat hi 1)" -H 'Authorization: Bearer sk-test.12345678')" = 200 ]; done
        codes=$(for _ in 1 2 3 4; do code "$(chat hi 1)" -H 'Authorization: Bearer sk-other-87654321'; echo; done)
        [ "$(grep -c 200 <<< "$codes")" -eq 2 ]
        [ "$(grep -c 429 <<< "$codes")" -eq 2 ]
        [ "$(stat -c %a "$dir/run/nginx.conf")" = 600 ]
        until_ grep -q '"key":"team-a"' "$dir/run/requests.log"
        [ "$(grep -c sk-test "$dir/run/requests.log")" -eq 0 ]
}

@test "a key has so many requests at once, and every 429 says when to come again" {
        replica a
        listed a
        configure 'keys:' '- {name: two, key: sk-two.12345678, concurrent: 2}' '- {name: slow, key: sk-slow.1234567, rate: 3/m, burst: 0}'
        agent_start
        until_ is up state a
        for i in 1 2; do
                post "$(chat hi 400 ',"stream":true')" -H 'Authorization: Bearer sk-two.12345678' > "$dir/stream-$i" &
                streams[i]=$!
                until_ test -s "$dir/stream-$i"
        done
        run post "$(chat hi 1)" -H 'Authorization: Bearer sk-two.12345678' -D -
        echo "$output"
        [[ $output == 'HTTP/1.1 429'*$'\n'*'Retry-After: 1'*rate_limited* ]]
        [ "$(grep -c Retry-After <<< "$output")" -eq 1 ]
        [ "$(code "$(chat hi 1)" -H 'Authorization: Bearer sk-slow.1234567')" = 200 ] # each key for itself
        run post "$(chat hi 1)" -H 'Authorization: Bearer sk-slow.1234567' -D -
        [[ $output =~ ^'HTTP/1.1 429'.*'Retry-After: '(1[0-9]|20) ]] # 3/m: in 20 s, less what has passed
        kill "${streams[@]}"
        until_ eval '[ "$(code "$(chat hi 1)" -H "Authorization: Bearer sk-two.12345678")" = 200 ]'
        run post "$(chat hi 1)" -H 'Authorization: Bearer sk-two.12345678' -D -
        [[ $output == 'HTTP/1.1 200'* && $output != *Retry-After* ]]
}

@test "TLS is one flag away, with HTTP/2" {
        replica a --instant
        listed a
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 1 -keyout "$dir/key.pem" -out "$dir/cert.pem" 2> /dev/null
        configure "tls_listen: 127.0.0.1:$port"
        agent_start --tls "$dir/cert.pem:$dir/key.pem"
        until_ is up state a
        run curl -sS --cacert "$dir/cert.pem" --resolve "localhost:$port:127.0.0.1" --http2 -o /dev/null -w '%{http_version} %{http_code}' \
                "https://localhost:$port/v1/chat/completions" -d "$(chat hi 1)"
        [ "$output" = '2 200' ]
        run curl -sS -w '\n%{http_code}' "http://localhost:$port/v1/chat/completions" -d "$(chat hi 1)" # TLS is forgotten
        [ "${lines[1]}" = 400 ]
        echo "$output"
        jq -e '.error.code == "tls_required"' <<< "${lines[0]}"
}

@test "each request has a number of its own: in its answer, in the log, and at the replica" {
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/recorder.py" "$dir/got" "$dir/status" > "$dir/port" 2> /dev/null 3>&- &
        pids+=($!)
        until_ test -s "$dir/port"
        echo "- {name: a, address: '127.0.0.1:$(cat "$dir/port")', models: [m]}" > "$dir/replicas"
        configure
        agent_start
        until_ is up state a
        urls=()
        for _ in $(seq 300); do urls+=(http://x/health); done # more than a worker makes up at once
        curl -sS --unix-socket "$dir/http" -D "$dir/heads" "${urls[@]}" > /dev/null
        sed -n 's/^X-Request-Id: //p' "$dir/heads" | tr -d '\r' > "$dir/ids"
        [ "$(grep -cE '^[0-9a-f]{32}$' "$dir/ids")" = 300 ]
        [ "$(sort -u "$dir/ids" | wc -l)" = 300 ]
        id=$(post "$(chat hi 1)" -H 'X-Request-Id: mine' -o /dev/null -D - | sed -n 's/^X-Request-Id: //p' | tr -d '\r')
        until_ grep -q "\"id\":\"$id\"" "$dir/run/requests.log"
        [ "$(jq -r 'select(.path == "/v1/chat/completions").headers["x-request-id"]' "$dir/got")" = "$id" ]
        [ "$(code "$(chat hi 1 ',"stream":7')" -D "$dir/head")" = 400 ] # of one that the router answers, too
        grep -qE '^X-Request-Id: [0-9a-f]{32}' "$dir/head"
}

@test "rules and dashboard ask for metrics that a router exports, and the manual names them all" {
        monitoring=$BATS_TEST_DIRNAME/../../../deploy/kubernetes/monitoring
        replica a --instant
        listed a
        configure
        agent_start
        until_ is up state a
        curl -sS --unix-socket "$dir/prometheus" http://x/metrics > "$dir/metrics"
        sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$dir/metrics" | sort -u > "$dir/exported"
        cat "$monitoring/route-rules.yml" <(jq -r '.panels[].targets[].expr' "$monitoring/route-dashboard.json") > "$dir/asked"
        while read -r figure; do
                grep -qx "$figure" "$dir/exported" || { echo "no $figure"; return 1; }
        done < <(grep -oE 'sublet_route_[a-z_]+' "$dir/asked" | sed 's/_bucket$//' | sort -u)
        while read -r outcome; do # of a label
                grep -q "^sublet_route_requests_total{outcome=\"$outcome\"}" "$dir/metrics" || { echo "no $outcome"; return 1; }
        done < <(grep -oE 'outcome=~?"[^"]*"' "$dir/asked" | sed 's/.*"\(.*\)"/\1/' | tr '|' '\n' | sort -u)
        while read -r figure; do
                grep -q "^| \`$figure\` " "$BATS_TEST_DIRNAME/../../../docs/router.md" || { echo "not in the manual: $figure"; return 1; }
        done < "$dir/exported"
        while read -r alert; do
                grep -q "\`$alert\`" "$BATS_TEST_DIRNAME/../../../docs/router.md" || { echo "not in the manual: $alert"; return 1; }
        done < <(sed -n 's/^ *- alert: //p' "$monitoring/route-rules.yml")
}

@test "the reason of each decision can be asked for" {
        replica a
        replica b
        listed a
        listed b
        configure
        agent_start
        until_ is up state a
        until_ is up state b
        post "$(chat "$(long 20000)" 1)" > /dev/null
        id=$(post "$(chat "$(long 20000)" 1)" -o /dev/null -D - | sed -n 's/^X-Request-Id: \([0-9a-f]*\).*/\1/p')
        until_ grep -q "$id" "$dir/run/requests.log"
        run "$sublet" route explain "$id" --dir "$dir/run"
        echo "$output"
        [[ $output == *'the most of the prompt was cached there'* && $output == *'status 200'* ]]
        [ "$("$sublet" route explain "$id" --dir "$dir/run" --json | jq -r '"\(.id) \(.status)"')" = "$id 200" ]
        "$sublet" route --settings --json | jq -e 'any(.[]; .key == "listen" and .place == "" and .preset == "8080" and .meaning)'
        run -1 "$sublet" route explain nothing --dir "$dir/run"
        run "$sublet" route state --dir "$dir/run"
        [[ $output == *REPLICA*STATE* && $output == *'policy cost'* ]]
}

@test "it ends when what is under way has ended" {
        replica a
        listed a
        configure
        agent_start
        until_ is up state a
        post "$(chat hi 60 ',"stream":true')" > "$dir/stream" &
        stream=$!
        until_ test -s "$dir/stream"
        kill "$agent"
        wait "$agent"
        agent=''
        wait "$stream"
        grep -q DONE "$dir/stream"
        run curl -sS --unix-socket "$dir/http" http://x/health
        [ "$status" -ne 0 ]
}

all_gone() { # PID...
        local pid
        for pid in "$@"; do ! kill -0 "$pid" 2> /dev/null || return 1; done
}

@test "workers of an old generation end what they have after drain, and are gone" {
        replica a
        listed a
        configure 'drain: 2s'
        agent_start
        until_ is up state a
        post "$(chat hi 4000 ',"stream":true')" > "$dir/stream" & # for more than a minute
        stream=$!
        until_ test -s "$dir/stream"
        old=$(pgrep -P "$(cat "$dir/run/nginx.pid")")
        configure 'drain: 2s' 'body: 32M' # a reload
        # shellcheck disable=SC2086 # two numbers
        until_ all_gone $old
        broken=0
        wait "$stream" || broken=$?
        [ "$broken" -eq 18 ] # 28: curl's own time was over
        until_ is 0 of a inflight
        [ "$(code "$(chat hi 1)")" = 200 ]
}

@test "a file that is wrong is refused with its line, and --check only looks" {
        printf 'listen: 8080\n  x: [\n' > "$dir/config.yaml"
        run -2 "$sublet" route --check --dir "$dir/run" "$dir/config.yaml"
        [[ $output == *'config.yaml:2:'* ]]
        configure 'health: "x; }"'
        run -2 "$sublet" route --check --dir "$dir/run" "$dir/config.yaml"
        [[ $output == *'health: expected one word'* ]]
        configure
        # every setting stands in the manual
        for key in $("$sublet" route --settings | sed -n 's/^  \([a-z_]*\)  .*/\1/p'); do
                grep -q "^| \`$key\` " "$BATS_TEST_DIRNAME/../../../docs/router.md" || { echo "$key"; false; }
        done
        run -0 "$sublet" route --check --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml"
        [ ! -e "$dir/run/nginx.conf" ]
        [[ $output == *'config.yaml: ok' ]]
        listed a 'hold: 5'
        configure
        run -2 "$sublet" route --check --dir "$dir/run" "$dir/config.yaml"
        [[ $output == *"config.yaml:$(grep -n 'hold: 5' "$dir/config.yaml" | cut -d: -f1): replicas, number 1: hold: expected true"* ]]
        echo "- {name: a, address: 'https://10.0.0.5:443'}" > "$dir/replicas"
        configure
        run -2 "$sublet" route --check --dir "$dir/run" "$dir/config.yaml"
        [[ $output == *"replica 'a': its address is not a name: give the server_name"* ]]
}

@test "a port that another process has is named, by --check and at the start" {
        /usr/bin/python3 -c 'import socket, signal; s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True); signal.pause()' \
                > "$dir/port" 3>&- &
        pids+=($!)
        until_ test -s "$dir/port"
        port=$(cat "$dir/port")
        configure
        sed -i "1s|.*|listen: 127.0.0.1:$port|" "$dir/config.yaml"
        run -1 "$sublet" route --check --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml"
        [[ $output == *"listen: 127.0.0.1:$port is taken by another process"* ]]
        run -1 "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml"
        [ "$output" = "sublet route: listen: 127.0.0.1:$port is taken by another process: end it, or choose another port" ]
}

@test "a port for root only is one line of ours, and so is a second --listen" {
        [ "$(id -u)" = 0 ] || skip 'a plain user is made by root'
        configure
        sed -i '1s|.*|listen: 80|' "$dir/config.yaml"
        install -d -o 65534 -g 65534 "$dir/plain"
        chmod 755 "$dir"
        chmod 644 "$dir/config.yaml"
        for how in '' --check; do
                # A network of its own has the kernel's own bounds of these ports.
                run -1 unshare -n setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$sublet" route $how \
                        --dir "$dir/plain" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml"
                echo "$output"
                [ "$output" = "sublet route: listen: 80 is for root only: choose a port of 1024 or more, or give us CAP_NET_BIND_SERVICE" ]
        done
        run -2 "$sublet" route --check --listen 8081 --listen 8082 --dir "$dir/run" "$dir/config.yaml"
        [ "$output" = "sublet route: --listen 8082: the second of these, and there can be one" ]
}
