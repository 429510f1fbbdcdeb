# SPDX-License-Identifier: Apache-2.0
# A router of its own in $dir: Debian's nginx with our module, and replicas that stand for engines.
# shellcheck shell=bash disable=SC2034
build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$(cd "$BATS_TEST_DIRNAME/../../../build" && pwd)}}

router_configure() { # [WORKERS] [MORE LINES OF THE LOCATION]
        cat > "$dir/nginx.conf" << CONF
        load_module $build/src/route/nginx/ngx_http_sublet_module.so;
        $([ "$(id -u)" != 0 ] || echo 'user root;')
        daemon off; pid $dir/nginx.pid; error_log $dir/error.log info; worker_processes ${1:-2};
        worker_shutdown_timeout 20s;
        events { worker_connections 4096; }
        http {
          client_body_temp_path $dir/tmp/body; proxy_temp_path $dir/tmp/proxy; fastcgi_temp_path $dir/tmp/f;
          uwsgi_temp_path $dir/tmp/u; scgi_temp_path $dir/tmp/s;
          log_format decision escape=json '{"status":\$status,"replica":"\$sublet_replica","reason":"\$sublet_reason",'
            '"prompt":"\$sublet_prompt","matched":"\$sublet_matched","tries":"\$sublet_tries","first":"\$sublet_first_ms"}';
          access_log $dir/access.log decision;
          sublet_zone pool 32m;
          ${router_http:-}
          upstream pool { sublet pool; keepalive 64; keepalive_timeout 3s; }
          server {
            listen unix:$dir/http; listen unix:$dir/http2 http2;
            client_max_body_size 4m; client_body_buffer_size 64k;
            error_page 400 404 405 413 414 500 502 503 504 @error;
            location @error { sublet_error; }
            location = /v1/models { sublet_models pool; }
            location /v1/ {
              sublet_route pool;
              proxy_pass http://pool; proxy_http_version 1.1; proxy_set_header Connection "";
              proxy_buffering off; proxy_connect_timeout 1s; proxy_read_timeout 1h;
              proxy_next_upstream error timeout invalid_header non_idempotent;
              ${2:-}
            }
          }
          server { listen unix:$dir/api/sock; access_log off; location / { sublet_api pool; } }
        }
CONF
}

router_start() { # [WORKERS]
        dir=$(mktemp -d /tmp/sublet-route-XXXXXX)
        mkdir -m 700 "$dir/api" "$dir/tmp"
        router_configure "${1:-2}"
        nginx -p "$dir" -c "$dir/nginx.conf" -e "$dir/error.log" 3>&- &
        nginx=$!
        pids=()
        for _ in $(seq 200); do
                [ -S "$dir/api/sock" ] && api /v1/settings -f -o /dev/null -X PUT -d '{"complete":true}' 2> /dev/null && return
                sleep 0.02
        done
        cat "$dir/error.log"
        return 1
}

# nginx_kill FILE: the master of that file and its workers, at once. It is stopped first: it would start new ones.
nginx_kill() {
        local master
        master=$(cat "$1" 2> /dev/null) || return 0
        kill -STOP "$master" 2> /dev/null || return 0
        pkill -9 -P "$master" || true
        kill -9 "$master"
}

# replica NAME [OPTION...]: starts one; say it to the router with put
replica() {
        local name=$1
        shift
        rm -f "$dir/$name"
        "$build/tests/fakes/replica" --model m "$@" --listen "unix:$dir/$name" 3>&- &
        pids+=($!)
        pid_of[$name]=$!
        for _ in $(seq 200); do
                [ -S "$dir/$name" ] && ask "$name" /health > /dev/null 2>&1 && return
                sleep 0.02
        done
        return 1
}
declare -gA pid_of

# put NAME [FIELDS]
put() {
        api "/v1/replicas/$1" -o /dev/null -f -X PUT -d "$(jq -cn --arg address "unix:$dir/$1" \
                "{address: \$address, models: [\"m\"], rate: 22000, state: \"up\"} + {${2:-}}")"
}

router_stop() {
        kill "$nginx" 2> /dev/null || true
        for pid in "${pids[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
        wait 2> /dev/null || true
        rm -rf "$dir"
}

api() { # PATH [CURL OPTION...]
        local path=$1
        shift
        curl -sS --max-time 10 --unix-socket "$dir/api/sock" "http://router$path" "$@"
}

ask() { # REPLICA PATH [CURL OPTION...]
        local socket=$1 path=$2
        shift 2
        curl -sS --max-time 10 --unix-socket "$dir/$socket" "http://replica$path" "$@"
}

post() { # BODY [CURL OPTION...]
        local body=$1
        shift
        printf '%s' "$body" | curl -sS --max-time 30 --unix-socket "$dir/http" http://router/v1/chat/completions \
                --data-binary @- "$@"
}

code() { # BODY [CURL OPTION...]
        local body=$1
        shift
        post "$body" -o /dev/null -w '%{http_code}' "$@"
}

chat() { # TEXT TOKENS [FIELDS]
        printf '{"model":"m","messages":[{"role":"user","content":"%s"}],"max_tokens":%s%s}' "$1" "$2" "${3:-}"
}

long() { # BYTES [LETTER]
        head -c "$1" /dev/zero | tr '\0' "${2:-a}"
}

of() { # REPLICA FIELD
        api "/v1/replicas/$1" | jq ".$2"
}

held() {
        api /v1/state | jq .held
}

# raw HEADERS BODY: a request as it is written here
raw() {
        /usr/bin/python3 - "$dir/http" "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n$1\r\n\r\n$2" << 'PYTHON'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10) # nginx lingers for 5 s where it has not read a body
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode().decode("unicode_escape").encode("latin-1"))
answer = b""
while piece := s.recv(65536):
    answer += piece
print(answer.decode("latin-1"))
PYTHON
}

# until_ COMMAND...: at most a minute. The limit ends a failing test; it is not a measurement. As wait_for of
# machine.bash it asks less and less often.
until_() {
        local -
        set +T
        until_untraced "$@"
}

until_untraced() {
        local since=$SECONDS pause=20
        until "$@" > /dev/null 2>&1; do
                [ $((SECONDS - since)) -lt 60 ] || return 1
                sleep "0.$(printf %03d "$pause")"
                [ "$pause" -ge 200 ] || pause=$((pause * 3 / 2))
        done
}

is() { # WANTED COMMAND...
        local wanted=$1
        shift
        [ "$("$@")" = "$wanted" ]
}
