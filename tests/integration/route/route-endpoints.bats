#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The APIs that exist, through `sublet route` as it is shipped: which paths reach a replica, with which model and key.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain, because what is read here is read in nginx, which is the distribution's
bats_require_minimum_version 1.5.0
load ../route

sublet=${SUBLET_BUILD:-$build}/src/sublet

setup() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
        dir=$(mktemp -d /tmp/sublet-paths-XXXXXX)
        pids=()
        agent=''
        engine a
        engine b
}

teardown() {
        [ -z "$agent" ] || { kill "$agent" && sleep 0.1 && kill "$agent"; } 2> /dev/null || true
        for pid in "${pids[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
        wait 2> /dev/null || true
        rm -rf "$dir"
}

engine() { # NAME
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/endpoints.py" "$dir/$1" "$1" 3>&- &
        pids+=($!)
        until_ ask "$1" /health
}

start() { # [LINE...]: of the file
        {
                printf 'listen: unix:%s/http\nmetrics: off\nworkers: 1\nuser: %s\nzone: 16M\n' "$dir" "$(id -un)"
                [ $# -eq 0 ] || printf '%s\n' "$@"
                printf "replicas:\n- {name: a, address: 'unix:%s/a'}\n- {name: b, address: 'unix:%s/b'}\n" "$dir" "$dir"
        } > "$dir/config.yaml"
        "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml" \
                > "$dir/said" 2>&1 3>&- &
        agent=$!
        for name in a b; do
                until_ eval '[ "$(curl -sS --unix-socket "$dir/run/api/api.sock" "http://x/v1/replicas/$name" | jq -r .state)" = up ]'
        done
}

call() { # PATH [CURL OPTION...]: the body, then the status
        local path=$1
        shift
        curl -sS --max-time 10 --unix-socket "$dir/http" "http://router$path" -w '\n%{http_code}' "$@"
}

got() { # STATUS [JQ EXPRESSION]
        echo "$output"
        [ "${lines[-1]}" = "$1" ] && { [ $# -eq 1 ] || jq -e "$2" <<< "${lines[0]}" > /dev/null; }
}

json='Content-Type: application/json'

@test "the administration of an engine is not for clients, and is for keys with admin" {
        start 'keys:' '- {name: team, key: sk-team-12345678}' '- {name: boss, key: sk-boss-12345678, admin: true}'
        for path in /sleep /collective_rpc /v1/load_lora_adapter /wake_up /reset_prefix_cache '/v1/files/..%2f..%2fsleep' '//sleep'; do
                run call "$path" -X POST -H "$json" -d '{}' -H 'Authorization: Bearer sk-team-12345678'
                got 404 '.error.code == "unknown_endpoint"'
                [ "$(call "$path" -X POST -d '{}' | tail -1)" = 401 ]
        done
        for path in /flush_cache /metrics /server_info; do
                run call "$path" -H 'Authorization: Bearer sk-team-12345678'
                got 404 '.error.code == "unknown_endpoint"'
                run call "$path" -H 'Authorization: Bearer sk-boss-12345678'
                got 200 ".path == \"$path\""
        done
        run call /v1/load_lora_adapter -X POST -d '{"lora_name":"x"}' -H "$json" -H 'Authorization: Bearer sk-boss-12345678'
        got 200 '.size == 17 and (.headers | has("authorization") | not)'
}

@test "another method than an endpoint has is 405" {
        start
        run call /v1/chat/completions -X PUT -d '{}'
        got 405 '.error.code == "method_not_allowed"'
}

@test "x-api-key is a key, in Anthropic's API and in all others, and stays here" {
        start 'keys:' '- {name: team, key: sk-team-12345678}'
        body='{"model":"m","max_tokens":16,"messages":[{"role":"user","content":"hi"}]}'
        run call /v1/messages -H "$json" -d "$body" -H 'x-api-key: sk-team-12345678' -H 'anthropic-version: 2023-06-01'
        got 200 '(.headers | has("x-api-key") | not) and .headers["anthropic-version"] == "2023-06-01"'
        run call /v1/messages/count_tokens -H "$json" -d "$body" -H 'x-api-key: sk-team-12345678'
        got 200
        run call /v1/messages -H "$json" -d "$body" -H 'x-api-key: sk-team-12345679'
        got 401 '.type == "error" and .error.type == "authentication_error"'
        run call /v1/messages -H "$json" -d '{"model":"none"}' -H 'x-api-key: sk-team-12345678'
        got 404 '.type == "error" and .error.code == "model_not_found"'
}

@test "a priority in a body reaches the engine only from keys that may say one" {
        start 'keys:' '- {name: team, key: sk-team-12345678}' '- {name: fast, key: sk-fast-12345678, priority: true}'
        for body in '{"model":"m","priority":-100,"user":"u"}' '{"prior\u0069ty": -1.2e2 ,"model":"m","user":"u"}' \
                "{\"messages\":[{\"role\":\"user\",\"content\":\"$(long 200000)\"}],\"model\":\"m\",\"user\":\"u\",\"priority\":7}"; do
                printf '%s' "$body" > "$dir/body"
                run call /v1/chat/completions -H "$json" --data-binary "@$dir/body" -H 'Authorization: Bearer sk-team-12345678'
                got 200 ".fields == {model: \"m\", priority: 0, user: \"u\"} and .size == ${#body}"
                run call /v1/chat/completions -H "$json" --data-binary "@$dir/body" -H 'Authorization: Bearer sk-fast-12345678'
                got 200 '.fields.priority != 0'
        done
        run call /v1/chat/completions -H "$json" -d '{"model":"m","priority":-1,"priority":0}' -H 'Authorization: Bearer sk-team-12345678'
        got 400 '.error.message | test("twice")'
        run call /v1/chat/completions -H "$json" -d '{"model":"m","priority":null}' -H 'Authorization: Bearer sk-team-12345678'
        got 200 '.fields.priority == null'
        # a form is no JSON body, whatever it says
        run call /v1/chat/completions -H 'Content-Type: multipart/form-data; boundary=x' \
                -d '{"model":"m","priority":-1}' -H 'Authorization: Bearer sk-team-12345678'
        got 200 '.fields.priority == 0'
}

@test "a multipart body has its model in a part, wherever that is" {
        start
        head -c 100000 /dev/urandom > "$dir/sound"
        run call /v1/audio/transcriptions -F model=m -F "file=@$dir/sound"
        got 200 '.size > 100000 and (.headers["content-type"] | startswith("multipart/form-data; boundary="))'
        run call /v1/audio/translations -F "file=@$dir/sound" -F model=m
        got 200
        run call /v1/audio/transcriptions -F "file=@$dir/sound" -F model=none
        got 404 '.error.code == "model_not_found"'
        run call /v1/files -F purpose=batch -F "file=@$dir/sound"
        got 200
        run call /v1/images/edits -F "image=@$dir/sound" -F prompt=x
        got 200
}

@test "a websocket is upgraded where an endpoint takes it, and nowhere else" {
        start
        run /usr/bin/python3 - "$dir/http" << 'PYTHON'
import socket, sys
for path in ("/v1/realtime?model=m", "/v1/files"):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(sys.argv[1])
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
    head = s.recv(65536)
    print(head.split(b" ", 2)[1].decode())
    if head.startswith(b"HTTP/1.1 101"):
        s.sendall(b"hello")
        print(s.recv(100).decode())
PYTHON
        [ "$output" = $'101\nHELLO\n200' ]
        run call '/v1/realtime?model=none'
        got 404 '.error.code == "model_not_found"'
}

@test "who names no model gets the only one there is" {
        start
        run call /v1/chat/completions -H "$json" -d '{"messages":[]}'
        got 200
        run call /v1/moderations -H "$json" -d '{"input":"x"}'
        got 200
}

@test "what one replica has stored is found there" {
        start
        for _ in 1 2 3; do
                for name in a b; do
                        run call "/v1/responses/$name-1"
                        got 200 ".replica == \"$name\""
                        run call "/v1/files/$name-2" -X DELETE
                        got 200 ".replica == \"$name\""
                        run call /v1/responses -H "$json" -d "{\"model\":\"m\",\"input\":\"x\",\"previous_response_id\":\"$name-3\"}"
                        got 200 ".replica == \"$name\""
                done
        done
        run call /v1/vector_stores/b-1/search -H "$json" -d '{"query":"x"}'
        got 200 '.replica == "b"'
        run call /v1/fine_tuning/jobs/a-1/cancel -X POST
        got 200 '.replica == "a"'
        run call /v1/evals/b-1/runs/r-1 -X DELETE
        got 200 '.replica == "b"'
        run call /v1/responses/nobody-1
        got 404 '.error.message == "not here"'
        run call /v1/conversations/b-1/items -X POST -H "$json" -d '{"items":[]}'
        got 200 '.replica == "b"'
}

@test "numbers and objects that clients send are understood" {
        start
        run call /v1/chat/completions -H "$json" -d '{"model":"m","messages":[],"max_tokens":16.0,"n":1e0}'
        got 200
        run call /v1/responses -H "$json" -d '{"model":"m","input":"x","conversation":{"id":"a-1"}}'
        got 200
}

@test "each cause of a 400 has a message of its own" {
        start
        cause() { # BODY MESSAGE
                run call /v1/chat/completions -H "$json" -d "$1"
                got 400 ".error.message == \"$2\""
        }
        cause '{"model":"m",}' 'The body is not valid JSON: see byte 14.'
        cause '{"model":"m"' 'The body ends before its JSON object does.'
        cause '[1]' 'The body is JSON, but not an object.'
        cause '{"model":1}' "'model' has a value of the wrong type."
        cause '{"model":"m","max_tokens":1.5}' "'max_tokens' has a value of the wrong type."
        cause "{\"model\":\"$(long 300)\"}" 'The name of the model or of the session is too long.'
        cause "{\"a\":$(printf '[%.0s' $(seq 80))" 'The body is nested too deeply.'
}

@test "one model can be asked for" {
        start
        run call /v1/models/m
        got 200 '.id == "m" and .object == "model"'
        run call /v1/models/none
        got 404 '.error.code == "model_not_found"'
}
