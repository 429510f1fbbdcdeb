#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Spans of requests, as a collector of OpenTelemetry gets them, and as the replica is told.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain address, because there are no threads in the verb
bats_require_minimum_version 1.5.0
load ../route

sublet=${SUBLET_BUILD:-$build}/src/sublet
trace=4bf92f3577b34da6a3ce929d0e0e4736
parent=00f067aa0ba902b7

setup() {
        dir=$(mktemp -d /tmp/sublet-traces-XXXXXX)
        pids=()
        me=$([ "$(id -u)" != 0 ] && id -un || echo root)
        engine=$(recorder engine)
        collector=$(recorder spans)
        : > "$dir/spans"
}

teardown() {
        kill -9 "$agent" 2> /dev/null || true
        nginx_kill "$dir/run/nginx.pid"
        for one in engine spans; do kill -9 "$(cat "$dir/$one.pid")" 2> /dev/null || true; done
        wait 2> /dev/null || true
        rm -rf "$dir"
}

recorder() { # NAME: its port; what it is asked is in $dir/NAME
        "$BATS_TEST_DIRNAME/../../fakes/recorder.py" "$dir/$1" "$dir/$1.status" > "$dir/$1.port" 2> /dev/null 3>&- &
        echo $! > "$dir/$1.pid"
        soon test -s "$dir/$1.port"
        cat "$dir/$1.port"
}

soon() { # COMMAND...: at most 30 s, for a loaded machine
        for _ in $(seq 600); do
                "$@" > /dev/null 2>&1 && return
                sleep 0.05
        done
        return 1
}

route() { # LINE...
        printf '%s\n' "listen: unix:$dir/http" 'metrics: off' 'workers: 1' "user: $me" 'zone: 16M' 'health: off' 'scrape: 0' "$@" \
                'replicas:' "- {name: a, address: '127.0.0.1:$engine', models: [m], rate: 22000}" > "$dir/config.yaml"
        "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml" \
                >> "$dir/said" 2>&1 3>&- &
        agent=$!
        soon answers || { cat "$dir/said"; return 1; }
        : > "$dir/engine"
}

answers() {
        [ "$(ask_router /health)" = ok ]
}

ask_router() { # PATH [CURL OPTION...]
        local path=$1
        shift
        curl -sS --max-time 10 --unix-socket "$dir/http" "http://router$path" "$@"
}

chat_once() { # [CURL OPTION...]
        ask_router /v1/chat/completions -d "$(chat hello 1)" -f -o /dev/null "$@"
}

spans() { # JQ FILTER of one span: those of all requests to the collector so far
        jq -r '.body | fromjson | .resourceSpans[].scopeSpans[].spans[] | '"$1" "$dir/spans"
}

n_of() { # NAME COUNT: so many spans of this name
        [ "$(spans "select(.name == \"$1\") | .spanId" | wc -l)" -eq "$2" ]
}

@test "a request of a client that traces is a child of the client's span, and the replica's is a child of ours" {
        route "traces: http://127.0.0.1:$collector"
        chat_once -H "traceparent: 00-$trace-$parent-01" -H 'tracestate: vendor=1'
        soon n_of 'replica a' 1
        [ "$(jq -r .path "$dir/spans" | head -1)" = /v1/traces ]
        [ "$(spans .traceId | sort -u)" = "$trace" ]
        [ "$(spans 'select(.kind == 2) | .parentSpanId')" = "$parent" ]
        [ "$(spans 'select(.kind == 2) | .name')" = 'POST /v1/chat/completions' ]
        [ "$(spans 'select(.kind == 3) | .parentSpanId')" = "$(spans 'select(.kind == 2) | .spanId')" ]
        [ "$(spans 'select(.kind == 2) | .attributes[] | select(.key == "sublet.reason") | .value.stringValue')" = only ]
        [ "$(jq -r .headers.traceparent "$dir/engine")" = "00-$trace-$(spans 'select(.kind == 3) | .spanId')-01" ]
        [ "$(jq -r .headers.tracestate "$dir/engine")" = vendor=1 ]
}

@test "a request without a trace begins one; one that its client does not trace is passed on and sends nothing" {
        route "traces: http://127.0.0.1:$collector/else"
        chat_once -H "traceparent: 00-$trace-$parent-00"
        [[ "$(jq -r .headers.traceparent "$dir/engine")" == "00-$trace-"*-00 ]]
        for wrong in '' "00-$trace-$parent" "ff-$trace-$parent-01" "00-${trace//[0-9a-f]/0}-$parent-01" "00-${trace^^}-$parent-01"; do
                chat_once -H "traceparent: $wrong"
        done
        soon n_of 'replica a' 5
        [ "$(jq -r .path "$dir/spans" | sort -u)" = /else ]
        [ "$(spans 'select(.kind == 2) | .traceId' | sort -u | wc -l)" -eq 5 ]
        ! spans .traceId | grep -q "$trace" || false
        [ "$(spans 'select(.kind == 2) | .parentSpanId // empty')" = '' ]
}

@test "a part of the requests is traced, and none fails when the collector does" {
        local n
        route "traces: http://127.0.0.1:$collector" 'traces_sample: 50%' 'log: off'
        echo 503 > "$dir/spans.status"
        for _ in $(seq 40); do chat_once; done
        soon grep -q 'answers 503; spans are lost' "$dir/said"
        rm "$dir/spans.status"
        for _ in $(seq 20); do chat_once; done
        soon grep -q 'takes spans again' "$dir/said"
        n=$(jq -r 'select(.headers.traceparent | endswith("-01")) | .path' "$dir/engine" | wc -l)
        [ "$n" -gt 10 ] && [ "$n" -lt 50 ] # of 60: out of these bounds once in millions
        [ ! -e "$dir/run/requests.log" ]
}

@test "a collector that cannot be is refused with its line" {
        printf 'listen: unix:%s/http\ntraces: collector:4318\nreplicas: []\n' "$dir" > "$dir/config.yaml"
        agent=''
        mkdir -p "$dir/run"
        run "$sublet" route --check "$dir/config.yaml"
        echo "$output"
        [[ $status -eq 2 && $output == *config.yaml:2:*'http://HOST:PORT'* ]]
}
