#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Replicas and clients that send a byte now and then: each has a deadline for the whole.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# variants: plain, because nothing here is built with a sanitizer: nginx is the distribution's
# waits: for clients and replicas that are slow
bats_require_minimum_version 1.5.0
load ../route

setup_file() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
}

setup() {
        router_start
}

teardown() {
        router_stop
}

slow() { # NAME head|body
        /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/slow.py" "$dir/$1" "$2" 3>&- &
        pids+=($!)
        until_ ask "$1" /health -f
}

@test "a replica that trickles its head or its pings does not keep a request that another could take" {
        replica b --instant
        api /v1/settings -X PUT -d '{"first_byte_ms":1000,"policy":"round-robin"}' > /dev/null
        for part in head body; do
                slow "$part" "$part"
                put "$part"
                put b
                code "$(chat hi 5 ',"stream":true')" > "$dir/other" & # in turn: one begins there, the other here
                client=$!
                until_ eval '[ $(($(of "$part" sent) + $(of b sent))) -ge 1 ]' # before it is given up and sent again
                [ "$(code "$(chat hi 5 ',"stream":true')")" = 200 ]
                wait "$client"
                [ "$(cat "$dir/other")" = 200 ]
                [ "$(of "$part" sent)/$(of b sent)" = 1/2 ]
                api /v1/replicas/b -X DELETE
                api "/v1/replicas/$part" -X DELETE
        done
}

@test "a head that is begun and does not end is given up also where there is no other; who only pings is waited for" {
        slow head head
        slow body body
        api /v1/settings -X PUT -d '{"first_byte_ms":1000}' > /dev/null
        put head
        run post "$(chat hi 5)" -w '\n%{http_code}'
        [ "${lines[-1]}" = 504 ]
        [ "$(jq -r .error.code <<< "${lines[0]}")" = replica_failed ]
        [ "$(of head inflight)" = 0 ]
        api /v1/replicas/head -X DELETE
        put body
        run -28 post "$(chat hi 5 ',"stream":true')" --max-time 4
}

@test "a head of 1xx is whole: who sends one, and is alone, is waited for" {
        slow hints hints
        api /v1/settings -X PUT -d '{"first_byte_ms":1000}' > /dev/null
        put hints
        [ "$(code "$(chat hi 5)")" = 200 ]
}

# dribble HEAD SECONDS: the head, then a byte of body ten times a second for so long, or until there is an answer
dribble() {
        /usr/bin/python3 - "$dir/http" "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n$1\r\n\r\n" "$2" << 'PYTHON'
import select, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode().decode("unicode_escape").encode("latin-1"))
until = time.monotonic() + float(sys.argv[3])
while not select.select([s], [], [], 0.1)[0]:
    if time.monotonic() > until:
        sys.exit("no answer")
    s.send(b" ")
print(s.recv(65536).decode("latin-1"))
PYTHON
}

@test "a body that is too large is refused by its announcement, before any of it is read" {
        replica a --instant
        put a
        run -0 raw 'Content-Length: 100000000' ''
        [[ $output == 'HTTP/1.1 413 '*'"code":"body_too_large"'* ]]
        run -0 raw 'Content-Length: 100000000\r\nExpect: 100-continue' ''
        [[ $output == 'HTTP/1.1 413 '* ]]
        [ "$(of a sent)" = 0 ]
}

@test "a client that trickles its body is refused when its time is over, by HTTP/1.1 and by HTTP/2" {
        replica a --instant
        put a
        api /v1/settings -X PUT -d '{"body_ms":1000}' > /dev/null
        run -0 dribble 'Content-Length: 1000' 30
        [[ $output == 'HTTP/1.1 408 '*'"code":"body_timeout"'* ]]
        run -0 dribble 'Transfer-Encoding: chunked' 30 # a blank is no length of a chunk
        [[ $output == 'HTTP/1.1 400 '* ]]
        mkfifo "$dir/fifo"
        curl -sS --max-time 30 --http2-prior-knowledge --unix-socket "$dir/http2" http://router/v1/chat/completions \
                -X POST -T "$dir/fifo" -o "$dir/answer" -w '%{http_code}' > "$dir/code" 2> "$dir/why" 3>&- &
        client=$!
        exec 8> "$dir/fifo"
        printf '{' >&8
        until_ is 2 grep -c '"status":408' "$dir/access.log" # curl itself waits for more of the body, and says nothing yet
        exec 8>&-
        wait "$client" || true
        [[ $(cat "$dir/code") == 408* ]]
        [ "$(of a sent)" = 0 ]
        [ "$(code "$(chat hi 1)")" = 200 ]
}

@test "a body that nginx has refused while it was read is not refused again when its time is over" {
        api /v1/settings -X PUT -d '{"body_ms":500}' > /dev/null
        run -0 /usr/bin/python3 - "$dir/http" << 'PYTHON'
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
time.sleep(0.2)  # the head comes alone: the body is waited for
s.sendall(b"5000000\r\nx")
time.sleep(1.5)  # nginx lingers, since more of the body may come
s.settimeout(0.2)
try:
    while piece := s.recv(65536):
        print(piece.decode("latin-1"))
except TimeoutError:
    pass
PYTHON
        [[ $output == 'HTTP/1.1 413 '*'"code":"body_too_large"'* ]]
        [[ $output != *body_timeout* ]]
        run ! grep -F '[alert]' "$dir/error.log"
}

@test "without a time for the body there is none: only the one between two parts of it" {
        replica a --instant
        put a
        api /v1/settings -X PUT -d '{"body_ms":0}' > /dev/null
        run ! dribble 'Content-Length: 1000' 1
        [[ $output == 'no answer' ]]
}

@test "the time for a body is over when the body is there" {
        replica a
        put a
        api /v1/settings -X PUT -d '{"body_ms":1000}' > /dev/null
        run -0 /usr/bin/python3 - "$dir/http" "$(chat hi 300)" << 'PYTHON'
import http.client, socket, sys, time
body = sys.argv[2].encode()
c = http.client.HTTPConnection("x")
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect(sys.argv[1])
c.putrequest("POST", "/v1/chat/completions")
c.putheader("Content-Length", str(len(body)))
c.endheaders()
c.send(body[:9])
time.sleep(0.02)
c.send(body[9:])
print(c.getresponse().read().decode())
PYTHON
        [[ $output == *'"completion_tokens":300'* ]] # which takes more than two seconds
}
