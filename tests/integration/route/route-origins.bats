#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Web pages whose scripts use the router: what a browser asks before it sends a key, and what it must see in an answer.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain address, because there are no threads in the verb
bats_require_minimum_version 1.5.0
load ../route

sublet=${SUBLET_BUILD:-$build}/src/sublet

setup() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
        dir=$(mktemp -d /tmp/sublet-origins-XXXXXX)
        pids=()
        agent=''
}

teardown() {
        [ -z "$agent" ] || { kill "$agent" && sleep 0.1 && kill "$agent"; } 2> /dev/null || true
        [ ! -f "$dir/run/nginx.pid" ] || kill -9 "$(cat "$dir/run/nginx.pid")" 2> /dev/null || true
        for pid in "${pids[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
        wait 2> /dev/null || true
        rm -rf "$dir"
}

router() { # [LINE OF THE FILE...]
        replica a --instant
        printf '%s\n' "listen: unix:$dir/http" 'metrics: off' 'workers: 1' "user: $(id -un)" 'zone: 16M' 'keys:' \
                '- {name: team, key: sk-team-1234}' '- {name: admin, key: sk-admin-123, admin: true}' "$@" 'replicas:' \
                "- {name: a, address: 'unix:$dir/a'}" > "$dir/config.yaml"
        "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml" \
                > "$dir/said" 2>&1 3>&- &
        agent=$!
        until_ eval '[ "$(curl -sS --unix-socket "$dir/run/api/api.sock" http://x/v1/replicas/a | jq -r .state)" = up ]' ||
                { cat "$dir/said"; return 1; }
}

# preflight ORIGIN [CURL OPTION...]: of a chat
preflight() {
        local origin=$1
        shift
        curl -sS --max-time 10 --unix-socket "$dir/http" -i -X OPTIONS http://router/v1/chat/completions -H "Origin: $origin" \
                -H 'Access-Control-Request-Method: POST' -H 'Access-Control-Request-Headers: authorization,content-type' "$@"
}

@test "a page of a listed origin may ask and then use its key; no other page may" {
        router "origins: ['https://app.example', 'http://localhost:3000']"
        for origin in https://app.example http://localhost:3000; do
                run preflight "$origin"
                [[ $output == 'HTTP/1.1 204'* ]]
                grep -qix "access-control-allow-origin: $origin"$'\r' <<< "$output"
                grep -qix $'access-control-allow-headers: authorization,content-type\r' <<< "$output"
                grep -qi '^access-control-allow-methods: .*POST' <<< "$output"
                run post "$(chat hi 1)" -D - -H "Origin: $origin" -H 'Authorization: Bearer sk-team-1234'
                [[ $output == 'HTTP/1.1 200'* ]]
                [ "$(grep -ic '^access-control-allow-origin:' <<< "$output")" = 1 ]
                grep -qix "access-control-allow-origin: $origin"$'\r' <<< "$output"
                [[ $output == *'Access-Control-Expose-Headers: X-Request-Id, Retry-After'* ]]
        done
        run post "$(chat hi 1)" -D - -H 'Origin: https://app.example' # the page's script can read why
        [[ $output == 'HTTP/1.1 401'*'Access-Control-Allow-Origin: https://app.example'* ]]
        for origin in https://evil.example https://app.example.evil https://xapp.example null https://app.example:444; do
                run preflight "$origin"
                [[ $output == 'HTTP/1.1 401'* && ${output,,} != *access-control-allow* ]]
                run post "$(chat hi 1)" -D - -H "Origin: $origin" -H 'Authorization: Bearer sk-team-1234'
                [[ $output == 'HTTP/1.1 200'* && ${output,,} != *access-control-allow* ]]
        done
}

@test "a preflight reaches no replica, with and without a key, and is no way around one" {
        router 'origins: "*"'
        before=$(curl -sS --unix-socket "$dir/run/api/api.sock" http://x/v1/replicas/a | jq .sent)
        run preflight https://any.example
        [[ $output == 'HTTP/1.1 204'*'Access-Control-Allow-Origin: *'* ]]
        run preflight https://any.example -H 'Authorization: Bearer sk-admin-123'
        [[ $output == 'HTTP/1.1 204'* ]]
        run preflight https://any.example --request-target /sleep
        [[ $output == 'HTTP/1.1 204'* ]]
        run curl -sS --unix-socket "$dir/http" -X OPTIONS http://router/v1/chat/completions -H 'Origin: https://any.example' -i
        [[ $output == 'HTTP/1.1 401'* ]] # no preflight: it says no method
        run curl -sS --unix-socket "$dir/http" http://router/v1/models -H 'Origin: https://any.example' \
                -H 'Access-Control-Request-Method: GET' -i
        [[ $output == 'HTTP/1.1 401'* ]] # nor is this one
        run curl -sS --unix-socket "$dir/http" -X OPTIONS http://router/v1/models -H 'Origin: https://any.example' \
                -H 'Access-Control-Request-Method: GET' -i
        [[ $output == 'HTTP/1.1 204'* ]]
        [ "$(curl -sS --unix-socket "$dir/run/api/api.sock" http://x/v1/replicas/a | jq .sent)" = "$before" ]
}

@test "without the setting nothing is said of origins" {
        router
        run preflight https://app.example
        [[ $output == 'HTTP/1.1 401'* && ${output,,} != *access-control* ]]
        run post "$(chat hi 1)" -D - -H 'Origin: https://app.example' -H 'x-api-key: sk-team-1234'
        [[ $output == 'HTTP/1.1 200'* && ${output,,} != *access-control* ]]
}
