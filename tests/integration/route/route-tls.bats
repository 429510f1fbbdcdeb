#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# TLS to replicas: each is believed only with a certificate of its name, by requests and by health checks alike.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain address, because there are no threads in the verb
bats_require_minimum_version 1.5.0
load ../route

sublet=${SUBLET_BUILD:-$build}/src/sublet

# certificate NAME SUBJECT [EXTENSION]: signed by $certs/ca.pem
certificate() {
        openssl req -newkey rsa:2048 -nodes -subj "/CN=$2" -keyout "$certs/$1.key" -out "$certs/$1.csr" 2> /dev/null
        openssl x509 -req -in "$certs/$1.csr" -CA "$certs/ca.pem" -CAkey "$certs/ca.key" -CAcreateserial -days 2 \
                -extfile <(printf 'subjectAltName=DNS:%s' "$2") -out "$certs/$1.pem" 2> /dev/null
}

setup_file() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
        [ -n "$(command -v openssl)" ] || skip 'no openssl'
        export certs
        certs=$(mktemp -d /tmp/sublet-certs-XXXXXX)
        for name in ca other; do
                openssl req -x509 -newkey rsa:2048 -nodes -subj "/CN=$name" -days 2 -keyout "$certs/$name.key" \
                        -out "$certs/$name.pem" 2> /dev/null
        done
        certificate a a.engines.test
        certificate b b.engines.test
        certificate local localhost
        certificate router router.test
}

teardown_file() {
        rm -rf "$certs"
}

setup() {
        dir=$(mktemp -d /tmp/sublet-tls-XXXXXX)
        pids=()
        agent=''
}

teardown() {
        [ -z "$agent" ] || { kill "$agent" && sleep 0.1 && kill "$agent"; } 2> /dev/null || true
        for pid in "${pids[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
        wait 2> /dev/null || true
        rm -rf "$dir"
}

engine() { # SOCKET NAME [CERTIFICATE [AUTHORITY]]
        local more=()
        [ $# -lt 3 ] || more=("$certs/$3.pem" "$certs/$3.key")
        [ $# -lt 4 ] || more+=("$certs/$4.pem")
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/endpoints.py" "$1" "$2" "${more[@]}" 3>&- &
        pids+=($!)
        case $1 in /*) until_ test -S "$1" && return ;; esac
        until_ bash -c "exec 4<> /dev/tcp/127.0.0.1/$1"
}

# A health check has as long as it takes: why a replica is down is asserted, and on a busy machine it would be that two
# handshakes in a row took longer than the 700 ms of the default.
start() { # LINE...: of the file
        printf '%s\n' "listen: unix:$dir/http" 'metrics: off' 'workers: 1' "user: $(id -un)" 'zone: 16M' 'hold: 2s' \
                'health_timeout: 20s' "$@" \
                > "$dir/config.yaml"
        "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml" \
                > "$dir/said" 2>&1 3>&- &
        agent=$!
        until_ test -S "$dir/run/api/api.sock"
}

replica_state() { # NAME
        curl -sS --unix-socket "$dir/run/api/api.sock" "http://x/v1/replicas/$1" | jq -r .state
}

told_hold() { # the module knows the file's settings
        curl -sS --unix-socket "$dir/run/api/api.sock" http://x/v1/state | jq -e '.settings.hold_ms == 2000'
}

who() { # [CURL OPTION...]: which replica answered, and what it was sent
        curl -sS --max-time 10 --unix-socket "$dir/http" http://router/v1/chat/completions -d '{"model":"m"}' "$@"
}

# tell NAME FIELDS: to the module, past the agent, which would have found out
tell() {
        curl -sS -o /dev/null -f --unix-socket "$dir/run/api/api.sock" -X PUT "http://x/v1/replicas/$1" -d "$2"
}

@test "replicas with TLS and without it are in one pool, each under its own name" {
        engine "$dir/a" a a
        engine "$dir/b" b b
        engine "$dir/c" c
        start "replica_ca: $certs/ca.pem" 'policy: round-robin' 'replicas:' \
                "- {name: a, address: 'unix:$dir/a', tls: true, server_name: a.engines.test}" \
                "- {name: b, address: 'unix:$dir/b', tls: true, server_name: b.engines.test}" \
                "- {name: c, address: 'unix:$dir/c'}"
        for name in a b c; do until_ is up replica_state "$name"; done
        for _ in $(seq 30); do who | jq -r .replica; done | sort | uniq -c > "$dir/who"
        cat "$dir/who"
        [ "$(wc -l < "$dir/who")" -eq 3 ]
        # a stream, and a body that does not fit one record
        printf '{"model":"m","prompt":"%s"}' "$(long 100000)" > "$dir/body"
        for _ in 1 2 3; do
                run curl -sS --unix-socket "$dir/http" http://router/v1/chat/completions --data-binary "@$dir/body"
                jq -e '.size == 100025' <<< "$output"
        done
}

@test "an address of https:// is a name, whose certificate is compared with it" {
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        engine "$port" a local
        start "replica_ca: $certs/ca.pem" 'replicas:' "- {name: a, address: 'https://localhost:$port/v1'}"
        until_ is up replica_state a
        who | jq -e '.replica == "a"'
}

@test "a certificate of another name, or of another authority, is not believed, by nobody" {
        engine "$dir/a" a b
        start "replica_ca: $certs/ca.pem" 'replicas:' \
                "- {name: a, address: 'unix:$dir/a', tls: true, server_name: a.engines.test}"
        until_ grep -q 'replica a: down' "$dir/said"
        until_ told_hold
        [ "$(who -o /dev/null -w '%{http_code}')" = 503 ]
        grep -q 'replica a: down: .*certificate' "$dir/said"
        # even if the agent had believed it
        tell a '{"state":"up","models":["m"]}'
        [ "$(who -o /dev/null -w '%{http_code}')" != 200 ]
        grep -q 'upstream SSL certificate does not match "a.engines.test"' "$dir/run/error.log"

        sed -i "s|^replica_ca.*|replica_ca: $certs/other.pem|; s|a.engines.test|b.engines.test|" "$dir/config.yaml"
        until_ grep -q 'was read again' "$dir/said"
        sleep 1
        [ "$(replica_state a)" = down ]
        # unless the file says so
        echo 'replica_verify: false' > "$dir/more"
        cat "$dir/more" "$dir/config.yaml" > "$dir/new" && mv "$dir/new" "$dir/config.yaml"
        until_ is up replica_state a
        who | jq -e '.replica == "a"'
}

@test "a replica that wants to know who asks gets the router's certificate, and refuses others" {
        engine "$dir/a" a a ca
        start "replica_ca: $certs/ca.pem" "replica_certificate: $certs/router.pem" \
                "replica_certificate_key: $certs/router.key" 'replicas:' \
                "- {name: a, address: 'unix:$dir/a', tls: true, server_name: a.engines.test}"
        until_ is up replica_state a
        who | jq -e '.replica == "a"'
        sed -i '/^replica_certificate/d' "$dir/config.yaml"
        until_ is down replica_state a
}

@test "a TLS replica that dies loses nothing that had not begun" {
        engine "$dir/a" a a
        engine "$dir/b" b b
        start "replica_ca: $certs/ca.pem" 'policy: round-robin' 'replicas:' \
                "- {name: a, address: 'unix:$dir/a', tls: true, server_name: a.engines.test}" \
                "- {name: b, address: 'unix:$dir/b', tls: true, server_name: b.engines.test}"
        for name in a b; do until_ is up replica_state "$name"; done
        who > /dev/null
        kill -9 "${pids[0]}"
        for _ in $(seq 20); do who | jq -r .replica; done | sort | uniq -c > "$dir/who"
        cat "$dir/who"
        [[ $(cat "$dir/who") =~ ^\ *20\ b$ ]]
}
