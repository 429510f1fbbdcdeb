#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What one address may have of a router's connections, whatever it does with them, under `sublet route`.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash and route-agent.bash set
# variants: plain, because nothing here is built with a sanitizer: nginx is the distribution's
# waits: for heads that do not end
bats_require_minimum_version 1.5.0
load ../route
load ../route-agent

setup_file() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
}

# router [LINE...]: one worker, which listens on all addresses of the loopback, too
router() {
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        configure "$@"
        sed -i "s#^listen:.*#listen: ['unix:$dir/http', '0.0.0.0:$port', '[::]:$port']#; s/^workers:.*/workers: 1/" "$dir/config.yaml"
        agent_start
}

# heads N [ADDRESS...]: so many connections from each (127.0.0.1) begin a head and send a byte of it twice a second;
# "open=N" a second later, of each; then, "after=N" when 2.5 s more have passed
heads() {
        /usr/bin/python3 -c "$program" "$port" "$@" # its input is the test's
}
program=$(
        cat << 'PYTHON'
import select, socket, sys, time
port, n, addresses = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or ["127.0.0.1"]

def begin(address):
    six = ":" in address
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    s.bind((address, 0))
    s.connect(("::1" if six else "127.0.0.1", port))
    s.setblocking(False)
    try:
        s.send(b"GET /health HTTP/1.1\r\nHost: x\r\nX: ")
    except OSError:
        pass
    return s

def is_open(s):
    try:
        return s.recv(100) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False

def trickle(peers, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.5)
        for s in peers:
            try:
                s.send(b"x")
            except OSError:
                pass

all = [[begin(address) for _ in range(n)] for address in addresses]
trickle(sum(all, []), 1)
print("open=" + ",".join(str(sum(map(is_open, peers))) for peers in all), flush=True)
if sys.stdin.readline():
    trickle(sum(all, []), 2.5)
print("after=" + ",".join(str(sum(map(is_open, peers))) for peers in all), flush=True)
PYTHON
)

status() { # [CURL OPTION...]: of /health over TCP
        curl -sS --max-time 5 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/health" "$@" 2> /dev/null || true
}

@test "an address has so many connections of a worker and no more, whatever they do, and others have theirs" {
        router 'connections: 8' 'head_time: 1m'
        mkfifo "$dir/in"
        heads 30 < "$dir/in" > "$dir/heads" 3>&- &
        pids+=($!)
        exec 8> "$dir/in"
        until_ grep open= "$dir/heads"
        grep -x 'open=8' "$dir/heads"
        [ "$(status)" = 000 ]
        [ "$(status --interface 127.0.0.2)" = 200 ]
        [ "$(curl -sS -o /dev/null -w '%{http_code}' --unix-socket "$dir/http" http://x/health)" = 200 ]
        [ "$(grep -c 'more than 8 connections of 127.0.0.1' "$dir/run/error.log")" -eq 1 ]
        exec 8>&-
        until_ grep after= "$dir/heads"
        until_ eval '[ "$(status)" = 200 ]' # they are gone, and count no more
        run ! grep -E '\[(alert|crit|emerg)\]' "$dir/run/error.log"
}

@test "an address of IPv6 is its network, and one of IPv4 behind it is itself" {
        [ -e /proc/net/if_inet6 ] || skip 'no IPv6'
        router 'connections: 4' 'head_time: 1m'
        echo | heads 6 ::1 127.0.0.3 127.0.0.4 > "$dir/heads"
        grep -x 'open=4,4,4' "$dir/heads"
}

@test "a head that does not end has its time, and no byte of it moves that" {
        router 'head_time: 2s'
        echo | heads 5 > "$dir/heads"
        cat "$dir/heads"
        grep -x 'open=5' "$dir/heads"
        grep -x 'after=0' "$dir/heads"
        grep -x '        client_header_timeout 2000ms;' "$dir/run/nginx.conf"
}

@test "by default an address has a quarter of a worker's connections, and a head ten seconds" {
        router
        grep -x '        client_header_timeout 10000ms;' "$dir/run/nginx.conf"
        each=$(sed -n 's/^ *sublet_connections \([0-9]*\);/\1/p' "$dir/run/nginx.conf")
        all=$(sed -n 's/^ *worker_connections \([0-9]*\);/\1/p' "$dir/run/nginx.conf")
        [ "$each" -eq $((all / 4)) ] && [ "$each" -gt 30 ]
        echo | heads 30 > "$dir/heads"
        grep -x 'open=30' "$dir/heads"
        [ "$(status)" = 200 ]
}
