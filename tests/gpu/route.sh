#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The router on a device whose shares are unequal: four replicas of a language model (replica.py) as tenants of
# one daemon, and the same shared-prefix load by policy and through plain nginx with least_conn, one after the other,
# with empty caches each time; then replicas that the daemon suspends and `sublet route` has woken (`wake: daemon`).
# Needs PyTorch; on the simulator, or with STAND_IN=1, the replicas sleep instead of computing, which checks this
# script and says nothing about a GPU. TAP on stdout, a table last; raw logs in ${OUT:-/tmp/sublet-route}.
#
#       tests/gpu/route.sh [BUILD]      about 200 s. POLICIES="cost lmetric least_conn" ROUNDS=2 SECONDS_EACH=14 LOAD=1
#                                       SHARES="50 25 12.5 12.5"; WAY=copies: how the daemon suspends; WAKES=5
#                                       ROUNDS=0: only the replicas that sleep, about 70 s
#                                       CAPPED=1: the shares are caps too, so that nothing idle is lent
#                                       NGINX=nginx MODULE=... REPLAY=... SUBLET=...
#       tests/gpu/route.sh kit DIR      puts nginx, its libraries and `replay` of ./build into DIR, which is a BUILD for
#                                       a machine without nginx
#
# The load: requests at random times, each one of 32 prefixes of 4096 tokens (4 to 5 times what one replica
# caches; some more popular than others), 1024 tokens of its own and 8 of answer; as many as would take
# LOAD times the whole device if nothing were cached.
set -u
cd "$(dirname "$0")/../.." || exit 1
kit() { # DIR
        mkdir -p "$1/nginx/lib" "$1/tests/fakes" "$1/src/route/nginx"
        cp "$(command -v nginx)" "$1/nginx/nginx" && cp build/tests/fakes/replay "$1/tests/fakes/" &&
                cp build/src/route/nginx/ngx_http_sublet_module.so "$1/src/route/nginx/" || return
        ldd "$1/nginx/nginx" "$1/src/route/nginx/ngx_http_sublet_module.so" | awk '$2 == "=>" { print $3 }' | sort -u |
                grep -vE '/lib(c|m|dl|pthread|resolv)\.so' | xargs cp -Lt "$1/nginx/lib"
}
if [ "${1:-}" = kit ]; then
        kit "${2:?a folder}"
        exit
fi
build=${1:-build}
sublet=$(realpath "${SUBLET:-$build/src/sublet}") || exit 1
if [ ! -e /sys/module/nvidia/version ] && [ -z "${SUBLET_SIM:-}" ]; then
        # shellcheck disable=SC2086  # options
        STAND_IN=1 exec "$sublet" sim ${SIM_OPTIONS:-} -- "$0" "$@"
fi
module=$(realpath "${MODULE:-$build/src/route/nginx/ngx_http_sublet_module.so}") || exit 1
replay=$(realpath "${REPLAY:-$build/tests/fakes/replay}") || exit 1
nginx=${NGINX:-nginx} libraries=${LD_LIBRARY_PATH:-}
if [ -x "$build/nginx/nginx" ]; then # the one that the module was built for
        nginx=$(realpath "$build/nginx/nginx")
        libraries=$(realpath "$build/nginx/lib")${libraries:+:$libraries}
fi
linked=''
if [ ! -e /usr/sbin/nginx ] && [ "$nginx" != nginx ]; then # where `sublet route` has it from
        ln -s "$nginx" /usr/sbin/nginx && linked=y
fi
export -n NGINX # a name that nginx takes for sockets handed down
out=${OUT:-/tmp/sublet-route}
read -ra shares <<< "${SHARES:-50 25 12.5 12.5}"
read -ra policies <<< "${POLICIES:-cost lmetric least_conn}"
rounds=${ROUNDS:-2} seconds=${SECONDS_EACH:-14} load=${LOAD:-1} wakes=${WAKES:-5} way=${WAY:-copies}
stand_in_rate=75000 # tokens a second of the whole device
blocks=384
work=$(mktemp -d /tmp/sublet-gpu-route-XXXXXX)
log=$out/route.log
n=0 passed=0 failed=0 started=$SECONDS front='' agent=''
pids=()
mkdir -p "$out"
: > "$log"

finish() {
        [ -z "$front" ] || kill "$front" 2> /dev/null
        [ -z "$agent" ] || { kill "$agent" && sleep 0.3 && kill "$agent"; } 2> /dev/null
        [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2> /dev/null
        sleep 0.3
        [ -z "${daemon:-}" ] || kill "$daemon" 2> /dev/null
        wait 2> /dev/null
        [ -z "$linked" ] || rm -f /usr/sbin/nginx
        rm -rf "$work"
}
trap finish EXIT

say() { echo "$@" | tee -a "$log"; }
check() { # CLAIM TRUE-IF-NOT-EMPTY
        n=$((n + 1))
        if [ "$2" ]; then passed=$((passed + 1)) && say "ok $n - $1"; else failed=$((failed + 1)) && say "not ok $n - $1"; fi
}
is() { awk -v a="${1:-nan}" -v b="${3:-nan}" "BEGIN { exit !(a != \"nan\" && b != \"nan\" && a + 0 $2 b + 0) }" && echo y; }
calc() { awk "BEGIN { printf \"%.4f\", $1 }"; }
field() { grep -o "\"$1\": *[-0-9.e]*" | head -1 | sed 's/.*: *//'; } # of a line of JSON
ask() { curl -sS --max-time 30 --unix-socket "$work/r$1" "http://replica/$2" "${@:3}" 2>> "$log"; } # REPLICA PATH
api() { curl -sS --max-time 5 --fail-with-body --unix-socket "$work/api.sock" "http://api/v1/$1" "${@:2}" 2>> "$log"; }

# ---- tenants ----------------------------------------------------------------------------------
machine="simulated, replicas that sleep (the figures say nothing about a GPU)"
[ "${SUBLET_SIM:-}" ] || machine=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
[ -z "${STAND_IN:-}" ] || [ "${SUBLET_SIM:-}" ] || machine="$machine, replicas that sleep"
say "# machine: $machine, kernel $(uname -r), $(nproc) processors, $(date -u +%FT%TZ)"
export SUBLET_DIR=$work/node
"$sublet" daemon --dir "$SUBLET_DIR" --suspend-by "$way" > "$out/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 200); do [ -S "$SUBLET_DIR/tenant.sock" ] && break; sleep 0.02; done
head -c 128 /dev/zero > "$work/device" # of the stand-ins
for i in "${!shares[@]}"; do
        options=() capped=() companion=()
        [ -z "${CAPPED:-}" ] || capped=(--cap "${shares[$i]}")
        if [ "${STAND_IN:-}" ]; then # with a program that has memory of the device, so that there is something to suspend
                options=(--stand-in "$stand_in_rate,$(calc "${shares[$i]} / 100"),$i,$work/device")
                # shellcheck disable=SC2016  # the inner shell's
                companion=(sh -c 'sleep 600 | KEPT_FILLED=1 "$0" 64 FED > /dev/null & exec "$@"' "$build/tests/gpu/gpu-kept")
        fi
        "$sublet" run -q --name "replica$i" --mem "${MEM:-17G}" --share "${shares[$i]}" "${capped[@]}" -- \
                "${companion[@]}" python3 tests/gpu/replica.py --listen "$work/r$i" --blocks $blocks "${options[@]}" \
                >> "$out/replicas.log" 2>&1 &
        pids+=($!)
done
for i in "${!shares[@]}"; do
        for _ in $(seq 1200); do
                [ -S "$work/r$i" ] && break
                kill -0 "${pids[$i]}" 2> /dev/null || break
                sleep 0.1
        done
        if ! ask "$i" health > /dev/null; then
                say "# replica $i does not start:"
                tail -20 "$out/replicas.log" | tee -a "$log"
                exit 1
        fi
done
say "# all there after $((SECONDS - started)) s"
"$sublet" ps 2>&1 | sed 's/^/# /' | tee -a "$log"

checked=$(ask 0 replica/check)
say "# a reused prefix against a computed one: $checked"
check "a reused prefix gives what computing it gives ($(field difference <<< "$checked") of the last hidden state)" \
        "$(is "$(field difference <<< "$checked")" '<' 0.05)"
whole=$(ask 0 replica/measure | field tokens_per_s)
[ -z "${CAPPED:-}" ] || whole=$(calc "$whole * 100 / ${shares[0]}")
say "# prefill of the whole device: $whole tokens/s"
measured=()
for i in "${!shares[@]}"; do ask "$i" replica/measure > "$work/measured$i" & measured+=($!); done
wait "${measured[@]}"
say "# all at once: $(for i in "${!shares[@]}"; do field tokens_per_s < "$work/measured$i"; done | tr '\n' ' ')"

# ---- the load -----------------------------------------------------------------------------------
# Zipf-like popularity (1 / (rank + 4)); times in ms; the same for all policies of a round.
trace() { # SEED REQUESTS-PER-SECOND
        awk -v seed="$1" -v rate="$2" -v seconds="$seconds" 'BEGIN {
                srand(seed)
                for (k = 0; k < 32; k++) total += 1 / (k + 5)
                for (at = 0; at < seconds; at += -log(1 - rand()) / rate) {
                        x = rand() * total
                        for (k = 0; k < 31 && (x -= 1 / (k + 5)) > 0; k++);
                        printf "{\"timestamp\": %d, \"input_length\": 5120, \"output_length\": 8, \"hash_ids\": [", at * 1000
                        for (i = 0; i < 8; i++) printf "%d, ", 1000 + k * 8 + i
                        printf "%d, %d]}\n", 1000000 + 2 * n, 1000001 + 2 * n
                        n++
                }
        }'
}

# ---- the router -----------------------------------------------------------------------------------
by_nginx() { [ "$1" = least_conn ] || [ "$1" = round_robin ]; }
upstream() { # POLICY
        local i
        if ! by_nginx "$1"; then
                echo "sublet pool;"
                return
        fi
        [ "$1" != least_conn ] || echo "least_conn;"
        for i in "${!shares[@]}"; do echo "server unix:$work/r$i;"; done
}
start_router() { # POLICY
        local i
        rm -f "$work"/*.sock
        mkdir -p "$work/tmp"
        cat > "$work/nginx.conf" << CONF
load_module $module;
$([ "$(id -u)" != 0 ] || echo "user root;")
daemon off; pid $work/pid; error_log $out/nginx.log warn; worker_processes 1;
events { worker_connections 8192; }
http {
        log_format decision escape=json '{"policy":"$1","status":\$status,"replica":"\$sublet_replica","reason":"\$sublet_reason",'
                '"prompt":"\$sublet_prompt","matched":"\$sublet_matched","first":"\$sublet_first_ms"}';
        access_log $out/decisions.jsonl decision;
        client_max_body_size 64m; client_body_buffer_size 1m; client_body_temp_path $work/tmp/body;
        proxy_temp_path $work/tmp/proxy; fastcgi_temp_path $work/tmp/f; uwsgi_temp_path $work/tmp/u; scgi_temp_path $work/tmp/s;
        sublet_zone pool 64m;
        upstream replicas { $(upstream "$1") keepalive 64; }
        server {
                listen unix:$work/front.sock;
                location / { $(by_nginx "$1" || echo "sublet_route pool;") proxy_pass http://replicas; proxy_http_version 1.1; proxy_set_header Connection "";
                        proxy_buffering off; proxy_read_timeout 1h; }
        }
        server { listen unix:$work/api.sock; access_log off; location / { sublet_api pool; } }
}
CONF
        LD_LIBRARY_PATH=$libraries "$nginx" -p "$work" -c "$work/nginx.conf" -e "$out/nginx.log" &
        front=$!
        for _ in $(seq 100); do [ -S "$work/front.sock" ] && [ -S "$work/api.sock" ] && break; sleep 0.05; done
        by_nginx "$1" || api settings -o /dev/null -X PUT -d "{\"policy\":\"$1\"}"
        for i in "${!shares[@]}"; do
                ask "$i" replica/forget -X POST > /dev/null
                api "replicas/r$i" -o /dev/null -X PUT -d "{\"address\":\"unix:$work/r$i\",\"kv_tokens\":$((blocks * 128)),
                        \"rate\":$(calc "$whole * ${shares[$i]} / 100")}"
        done
}
stop_router() {
        kill "$front" && wait "$front" 2> /dev/null
        front=
}
told_by_replicas() {
        local i stats part
        for i in "${!shares[@]}"; do
                stats=$(ask "$i" replica/stats)
                part=$(calc "$(field cached <<< "$stats") / ($(field prompt <<< "$stats") + 1e-9)")
                printf ' %d requests %.0f %% cached,' $(($(field prompt <<< "$stats") / 5120)) "$(calc "100 * $part")"
        done
}
declare -A mean p99
one() { # POLICY: a run; adds to mean[] and p99[]
        local result
        start_router "$1"
        result=$("$replay" --to "unix:$work/front.sock" "$work/trace.jsonl" 2>> "$log")
        say "# $1: $result"
        say "# $1, by replica:$(told_by_replicas)"
        check "$1: every request was answered" \
                "$([ "$(field ok <<< "$result")" = "$(field requests <<< "$result")" ] && echo y)"
        mean[$1]="${mean[$1]:-} $(field ttft_mean <<< "$result")"
        p99[$1]="${p99[$1]:-} $(field ttft_p99 <<< "$result")"
        stop_router
}
average() { tr ' ' '\n' <<< "$1" | awk 'NF { sum += $1; n++ } END { printf "%.4f", n ? sum / n : 0 / 1 }'; }

rate=$(calc "$load * $whole / 5120")
say "# load: $rate requests/s for $seconds s, $rounds rounds"
for round in $(seq "$rounds"); do
        trace "$round" "$rate" > "$work/trace.jsonl"
        for policy in "${policies[@]}"; do one "$policy"; done
done

# ---- replicas that sleep ------------------------------------------------------------------------------
# "m" is served by all, "last" by the last one alone.
start_agent() {
        local i last=$((${#shares[@]} - 1))
        {
                printf '%s\n' "listen: unix:$work/clients.sock" 'metrics: off' 'workers: 1' "user: $(id -un)" 'hold: 120s' \
                        "daemons: $SUBLET_DIR" "defaults: {wake: daemon, kv_tokens: $((blocks * 128)), rate: ${whole%.*}}" replicas:
                for i in "${!shares[@]}"; do
                        printf -- '- {name: replica%d, address: "unix:%s/r%d", models: [m%s]}\n' "$i" "$work" "$i" \
                                "$([ "$i" != "$last" ] || echo ', last')"
                done
        } > "$work/route.yaml"
        LD_LIBRARY_PATH=$libraries "$sublet" route --dir "$work/route" --module "$module" "$work/route.yaml" >> "$out/agent.log" 2>&1 &
        agent=$!
        for _ in $(seq 300); do
                [ "$(told | grep -o '"state":"up"' | wc -l)" = "${#shares[@]}" ] && return
                sleep 0.1
        done
        say "# the router does not start: $(tail -3 "$out/agent.log" | tr '\n' ' ')"
}
told() { curl -sS --max-time 5 --unix-socket "$work/route/api/api.sock" http://router/v1/state 2>> "$log" | tr -d ' '; }
# first MODEL TEXT: status, and seconds until the first byte of the body and until its end
first() {
        curl -sS -N --max-time 150 --unix-socket "$work/clients.sock" http://router/v1/chat/completions -o /dev/null \
                -d "{\"model\":\"$1\",\"stream\":true,\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"$2\"}]}" \
                -w '%{http_code} %{time_starttransfer} %{time_total}\n' 2>> "$log"
}
is_asleep() { # REPLICA: the router knows
        for _ in $(seq 100); do
                told | grep -o "\"name\":\"$1\"[^}]*" | grep -q '"state":"asleep"' && return
                sleep 0.05
        done
        return 1
}
put_to_sleep() { # REPLICA
        "$sublet" suspend "$1" >> "$log" 2>&1 && is_asleep "$1"
}
spread() { sort -n | awk '{ at[NR] = $1 } END { if (NR) printf "%.2f (%.2f to %.2f)", at[int((NR + 1) / 2)], at[1], at[NR] }'; }

start_agent
last=replica$((${#shares[@]} - 1))
awake=$(for i in $(seq "$wakes"); do first last "awake $i" | awk '$1 == 200 { print $2 }'; done)
check "$last answers while it is awake" "$([ "$(wc -l <<< "$awake")" = "$wakes" ] && echo y)"
asleep=() lost=0
for i in $(seq "$wakes"); do
        put_to_sleep $last || { say "# $last was not suspended" && lost=$((lost + 1)); }
        read -r status took _ < <(first last "asleep $i")
        [ "$status" = 200 ] && asleep+=("$took") || lost=$((lost + 1))
done
check "a request to a replica that sleeps wakes it and is answered, $wakes times" "$([ "$lost" = 0 ] && echo y)"
slowest=$(printf '%s\n' "${asleep[@]}" | sort -n | tail -1)
[ "${STAND_IN:-}" ] || [ "$way" != copies ] ||
        check "aim: its first token within 1.5 s of the request ($slowest s at most)" \
                "$([ "$(calc "${slowest:-9} <= 1.5")" = 1.0000 ] && echo y)"

put_to_sleep $last
burst=()
for i in $(seq 20); do first last "burst $i" > "$work/burst$i" & burst+=($!); done
wait "${burst[@]}"
answered=$(cat "$work"/burst* | grep -c '^200')
check "20 requests at once to a replica that sleeps: $answered are answered" "$([ "$answered" = 20 ] && echo y)"

# Under load, one after the other is suspended; the load is half of what the device does.
seconds=20 trace 99 "$(calc "$rate / 2")" > "$work/trace.jsonl"
"$replay" --to "unix:$work/clients.sock" --model m "$work/trace.jsonl" > "$work/under" 2>> "$log" &
under=$!
n_suspended=0
for i in "${!shares[@]}"; do
        sleep 3
        "$sublet" suspend "replica$i" >> "$log" 2>&1 && n_suspended=$((n_suspended + 1))
done
wait "$under"
result=$(cat "$work/under")
say "# under load, $n_suspended suspended: $result"
check "no request is lost while replicas are suspended under load ($(field ok <<< "$result") of $(field requests <<< "$result"))" \
        "$([ "$n_suspended" -gt 0 ] && [ "$(field ok <<< "$result")" = "$(field requests <<< "$result")" ] && echo y)"
for i in "${!shares[@]}"; do "$sublet" resume "replica$i" >> "$log" 2>&1; done

# ---- the verdict ------------------------------------------------------------------------------------
[ "$rounds" != 0 ] || policies=()
[ "$rounds" = 0 ] || printf '\n%-14s %12s %12s   %s\n' policy "mean TTFT s" "p99 TTFT s" "single runs: mean; p99" | tee -a "$log"
for policy in "${policies[@]}"; do
        printf '%-14s %12s %12s   %s;%s\n' "$policy" "$(average "${mean[$policy]}")" "$(average "${p99[$policy]}")" \
                "${mean[$policy]}" "${p99[$policy]}" | tee -a "$log"
done
printf '%-34s %s\n' "first token, awake, s" "$(spread <<< "$awake")" "first token, asleep ($way), s" \
        "$(printf '%s\n' "${asleep[@]}" | spread)" | tee -a "$log"
[ "$rounds" = 0 ] || ours=$(average "${mean[${policies[0]}]}")
for policy in "${policies[@]:1}"; do
        theirs=$(average "${mean[$policy]}")
        bound=0.75
        [ "$policy" != lmetric ] || bound=1.03 # sees as much, but does not know of the shares
        check "mean TTFT at most $bound of $policy's ($ours s, $theirs s: $(calc "100 * ($ours / $theirs - 1)") %)" \
                "$(is "$ours" '<=' "$(calc "$bound * $theirs")")"
done
say "1..$n"
say "$((SECONDS - started)) s; $passed passed, $failed failed"
[ "$failed" = 0 ]
