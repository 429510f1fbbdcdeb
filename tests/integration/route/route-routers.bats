#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Several routers before the same replicas: nginx and agent each, and what they know of each other.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain address, because there are no threads in the verb
bats_require_minimum_version 1.5.0
load ../route

sublet=${SUBLET_BUILD:-$build}/src/sublet

setup() {
        dir=$(mktemp -d /tmp/sublet-routers-XXXXXX)
        pids=()
        me=$([ "$(id -u)" != 0 ] && id -un || echo root)
        declare -gA agent=()
        echo 'the secret of all routers' > "$dir/secret"
        echo 'a secret of another house' > "$dir/foreign"
        read -r -a port < <(free_ports 4)
}

teardown() {
        for one in "${!agent[@]}"; do router_kill "$one"; done
        for pid in "${pids[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
        wait 2> /dev/null || true
        rm -rf "$dir"
}

free_ports() { # HOW MANY
        /usr/bin/python3 -c '
import socket, sys
held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(int(sys.argv[1]))]
for s in held: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))' "$1"
}

# file ROUTER REPLICAS [LINE...]: the file of router 0, 1, ...
file() {
        local router=$1 names=$2 name
        shift 2
        {
                printf 'listen: unix:%s/http%s\nmetrics: off\nworkers: 1\nuser: %s\nzone: 16M\nscrape: 0\n' "$dir" "$router" "$me"
                printf 'routers_listen: 127.0.0.1:%s\nrouters:\n' "${port[$router]}"
                printf -- '- 127.0.0.1:%s\n' "${port[@]}"
                printf 'routers_secret: %s\n' "$dir/${secret:-secret}"
                [ $# -eq 0 ] || printf '%s\n' "$@"
                echo 'replicas:'
                for name in $names; do
                        printf -- "- {name: %s, address: 'unix:$dir/%s', models: [m], rate: 22000, capacity: 4}\n" "$name" "$name"
                done
        } > "$dir/config$router.new"
        mv "$dir/config$router.new" "$dir/config$router.yaml"
}

router() { # NUMBER
        "$sublet" route --dir "$dir/run$1" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config$1.yaml" \
                >> "$dir/said$1" 2>&1 3>&- &
        agent[$1]=$!
        soon at "$1" /v1/state -f || { cat "$dir/said$1"; return 1; }
}

router_kill() { # NUMBER: agent and nginx
        kill -9 "${agent[$1]}" 2> /dev/null || true
        nginx_kill "$dir/run$1/nginx.pid"
        wait "${agent[$1]}" 2> /dev/null || true
        unset "agent[$1]"
}

at() { # ROUTER PATH [CURL OPTION...]
        local router=$1 path=$2
        shift 2
        curl -sS --max-time 10 --unix-socket "$dir/run$router/api/api.sock" "http://router$path" "$@"
}

routers() { # ROUTER: how many others it hears
        at "$1" /v1/state | jq .routers
}

about() { # ROUTER REPLICA FIELD
        at "$1" "/v1/replicas/$2" | jq -r ".$3"
}

soon() { # COMMAND...: at most 20 s, for a loaded machine
        for _ in $(seq 400); do
                "$@" > /dev/null 2>&1 && return
                sleep 0.05
        done
        return 1
}

through() { # ROUTER BODY [CURL OPTION...]
        local router=$1 body=$2
        shift 2
        curl -sS --max-time 30 --unix-socket "$dir/http$router" http://router/v1/chat/completions -d "$body" "$@"
}

through_code() { # ROUTER
        through "$1" "$(chat "hello $RANDOM" 1)" -o /dev/null -w '%{http_code}'
}

two_routers() { # REPLICAS OF 0, OF 1
        file 0 "$1" 'policy: round-robin'
        file 1 "$2" 'policy: round-robin'
        router 0
        router 1
        soon is 1 routers 0
        soon is 1 routers 1
}

# stream ROUTER [CURL OPTION...]: a stream that does not end by itself, in the background
stream() {
        local router=$1
        shift
        curl -sS "$@" --max-time 120 --unix-socket "$dir/http$router" http://router/v1/chat/completions -N -o /dev/null \
                -d "$(chat "long $RANDOM" 100000 ',"stream":true')" 2> /dev/null 3>&- &
        pids+=($!)
}

@test "what one router has in flight is in the decisions of the other, until it has ended" {
        replica a
        replica b
        two_routers 'a' 'a b'
        for _ in 1 2 3 4; do stream 0; done
        soon is 4 about 1 a elsewhere
        [ "$(about 1 a inflight)" = 0 ]
        for _ in 1 2 3 4 5 6; do [ "$(through_code 1)" = 200 ]; done
        [ "$(about 1 a sent)" = 0 ] # blind round robin, but a is at its capacity of 4
        [ "$(about 1 b sent)" = 6 ]
        kill "${pids[@]:2}"
        soon is 0 about 1 a elsewhere
        for _ in 1 2 3 4; do [ "$(through_code 1)" = 200 ]; done
        [ "$(about 1 a sent)" = 2 ]
}

@test "a router that is killed is forgotten, the others go on; when it is back it is heard again" {
        replica a
        two_routers 'a' 'a'
        for _ in 1 2 3; do stream 0; done
        soon is 3 about 1 a elsewhere
        router_kill 0
        soon is 0 routers 1
        [ "$(about 1 a elsewhere)" = 0 ]
        [ "$(through_code 1)" = 200 ]
        router 0
        soon is 1 routers 1
        soon is 1 routers 0
        stream 0
        soon is 1 about 1 a elsewhere
}

@test "a partition fails no request; when it is over they hear each other again" {
        local failed=0
        replica a
        replica b
        two_routers 'a b' 'a b'
        stream 0
        stream 0
        soon is 2 eval 'echo $(($(about 1 a elsewhere) + $(about 1 b elsewhere)))'
        secret=foreign file 0 'a b' 'policy: round-robin'
        for _ in $(seq 400); do
                for one in 0 1; do [ "$(through_code "$one")" = 200 ] || failed=$((failed + 1)); done
                [ "$(routers 0)$(routers 1)" != 00 ] || break
                sleep 0.05
        done
        [ "$(routers 0)$(routers 1)" = 00 ]
        [ "$(about 1 a elsewhere)$(about 1 b elsewhere)" = 00 ]
        file 0 'a b' 'policy: round-robin'
        soon is 1 routers 0
        soon is 1 routers 1
        soon is 2 eval 'echo $(($(about 1 a elsewhere) + $(about 1 b elsewhere)))'
        [ "$failed" = 0 ]
}

told() { # ROUTER NUMBER: the number'th request in its log: replica, reason, whether something was cached
        sed -n "$2p" "$dir/run$1/requests.log" | jq -r '"\(.replica) \(.reason) \((.matched | tonumber) > 1000)"'
}

blocks_are_equal() { # REPLICA
        [ "$(about 0 "$1" cached_blocks)" = "$(about 1 "$1" cached_blocks)" ]
}

@test "what one router sent where, the other knows as cached there, and sends what goes on from it to the same" {
        local i prompt where
        replica a
        replica b
        file 0 'a b'
        file 1 'a b'
        router 0
        router 1
        soon is 1 routers 0
        soon is 1 routers 1
        for i in 1 2 3 4 5 6; do
                prompt="session $i: $(long 40000)"
                through 0 "$(chat "$prompt" 1)" -o /dev/null -f
                soon eval '[ -n "$(told 0 "$i")" ]' # the log is written when the answer is over
                where=$(told 0 "$i")
                soon blocks_are_equal a
                soon blocks_are_equal b
                through 1 "$(chat "$prompt, and more" 1)" -o /dev/null -f
                soon is "${where%% *} cache true" told 1 "$i"
        done
        # where six sessions go is the policy's affair: all to one of two that are idle, now and then
        [ $(($(about 1 a cached_blocks) + $(about 1 b cached_blocks))) -gt 40 ]
}

@test "a replica that one router put out is out at the other, and back as soon as it answers there" {
        replica a
        replica b
        file 0 'a b' 'health: off' 'breaker_time: 300s' 'policy: round-robin'
        file 1 'a b' 'health: off' 'breaker_time: 300s' 'policy: round-robin'
        router 0
        router 1
        soon is 1 routers 0
        soon is 1 routers 1
        kill -9 "${pid_of[a]}"
        for _ in 1 2; do [ "$(through_code 0)" = 200 ]; done
        [ "$(about 0 a down_for)" = failures ]
        soon is hearsay about 1 a down_for
        [ "$(about 1 a state)/$(about 1 a sent)/$(about 1 b state)" = down/0/up ]
        replica a
        file 1 'a b' 'breaker_time: 300s' 'policy: round-robin' # its own checks decide now
        soon is up about 1 a state
        [ "$(about 0 a state)" = down ]
}

@test "a key has its rate once, not once at each router" {
        local passed=0 keys=('keys:' '- {name: rated, key: sk-rated-1234, rate: 6/m, burst: 9}' '- {name: free, key: sk-free-12345}')
        local rated=(-H 'Authorization: Bearer sk-rated-1234' -o /dev/null -w '%{http_code}')
        replica a
        file 0 a "${keys[@]}"
        file 1 a "${keys[@]}"
        router 0
        router 1
        soon is 1 routers 0
        soon is 1 routers 1
        soon is 200 through 0 "$(chat hello 1)" -H 'x-api-key: sk-free-12345' -o /dev/null -w '%{http_code}'
        for _ in $(seq 10); do [ "$(through 0 "$(chat hello 1)" "${rated[@]}")" = 200 ]; done
        stream 0 -H 'x-api-key: sk-free-12345' # whoever has heard of it has heard of those ten
        soon is 1 about 1 a elsewhere
        for _ in $(seq 10); do
                [ "$(through 1 "$(chat hello 1)" "${rated[@]}")" != 200 ] || passed=$((passed + 1))
        done
        [ "$passed" -le 3 ] # one in ten seconds; ten, if they were counted apart
        run -0 through 1 "$(chat hello 1)" -H 'x-api-key: sk-rated-1234' -i
        [[ $output == *' 429 '*Retry-After:*rate_limited* ]]
}

@test "requests at once and tokens of a key are of all routers; in a partition each counts its own" {
        local keys=('keys:' '- {name: few, key: sk-few-12345, concurrent: 3}' '- {name: poor, key: sk-poor-1234, tokens: 3000}')
        local few=(-H 'x-api-key: sk-few-12345') poor=(-H 'x-api-key: sk-poor-1234')
        few_code() { through "$1" "$(chat hello 1)" "${few[@]}" -o /dev/null -w '%{http_code}'; }
        poor_code() { through "$1" "$(chat hello 900 ',"stream":true')" "${poor[@]}" -o /dev/null -w '%{http_code}'; }
        replica a --scale 100
        replica b
        file 0 'a b' "${keys[@]}"
        file 1 'a b' "${keys[@]}"
        router 0
        router 1
        soon is 1 routers 0
        soon is 1 routers 1
        soon is 200 few_code 1
        for one in a b; do soon is 0 about 0 "$one" elsewhere; done # else it counts among the three
        for _ in 1 2 3; do stream 0 "${few[@]}"; done
        soon is 429 few_code 1
        run through 1 "$(chat hello 1)" "${few[@]}" -i
        [[ $output == *' 429 '*'Retry-After: 1'*rate_limited* ]]
        for _ in 1 2 3; do [ "$(poor_code 0)" = 200 ]; done
        soon is 429 poor_code 1
        router_kill 0
        soon is 200 few_code 1 # what it had is forgotten
}

@test "datagrams that are not signed, or were recorded, change nothing" {
        replica a
        two_routers 'a' 'a'
        stream 0
        soon is 1 about 1 a elsewhere
        # The third address of the list is this recorder's.
        /usr/bin/python3 - "${port[2]}" "${port[1]}" "$dir/recorded" << 'PYTHON'
import os, pickle, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.settimeout(20)
heard = [s.recv(2000) for _ in range(30)]
for d in heard + [d[:-1] for d in heard] + [d[:24] + os.urandom(len(d) - 24) for d in heard] + [b"", b"x", os.urandom(1400)]:
    s.sendto(d, ("127.0.0.1", int(sys.argv[2])))
pickle.dump(heard, open(sys.argv[3], "wb"))
PYTHON
        [ "$(routers 1)/$(about 1 a elsewhere)" = 1/1 ]
        router_kill 0
        soon is 0 routers 1
        for _ in 1 2; do
                /usr/bin/python3 -c 'if True:
                        import pickle, socket, sys, time
                        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        for d in pickle.load(open(sys.argv[2], "rb")):
                            s.sendto(d, ("127.0.0.1", int(sys.argv[1])))
                            time.sleep(0.01)' "${port[1]}" "$dir/recorded"
                [ "$(routers 1)/$(about 1 a elsewhere)" = 0/0 ]
        done
}

@test "a file that cannot be is refused with its line" {
        file 0 a
        check() {
                run -2 "$sublet" route --check --dir "$dir/check" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/wrong.yaml"
                [[ $output == *"$1"* ]] || { echo "$output"; return 1; }
        }
        grep -v routers_secret "$dir/config0.yaml" > "$dir/wrong.yaml"
        check 'wrong.yaml:8: routers, routers_listen and routers_secret must be given together'
        sed 's/^- 127.0.0.1:.*/- unix:\/x/' "$dir/config0.yaml" > "$dir/wrong.yaml"
        check 'wrong.yaml:8: routers: expected HOST:PORT of each'
        sed 's/^routers_listen: .*/routers_listen: here/' "$dir/config0.yaml" > "$dir/wrong.yaml"
        check 'wrong.yaml:7: routers_listen: expected ADDRESS:PORT'
        echo short > "$dir/secret"
        cp "$dir/config0.yaml" "$dir/wrong.yaml"
        check 'expected 16 to 256 bytes'
}
