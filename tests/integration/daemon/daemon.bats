#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The daemon: whom it lets in, what it changes (how fast: bounds.bats), what it remembers, and who may do what.
bats_require_minimum_version 1.5.0
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
load ../machine
load ../daemon

setup() {
        machine_start --memory 64G
}

teardown() {
        node_end
        machine_end
}

# api PATH [CURL-OPTION...]
api() {
        curl -sS --max-time 10 --unix-socket "$SUBLET_DIR/sublet.sock" "http://sublet$1" "${@:2}"
}

# as_user UID COMMAND...: as somebody else, who may use the machine
as_user() {
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}

# refused PATTERN COMMAND...: `sublet run` says one line and never starts the command
refused() {
        run on "$sublet" run --name late "${@:2}" -- touch "$machine/started"
        one_line_and_2 "$1" || [ "$status" -eq 125 ] || return 1
        [[ ${lines[0]} =~ $1 ]]
        [ ! -e "$machine/started" ]
}

# happened NAME [TENANT]
happened() {
        api "/v1/events?tenant=${2:-}" | jq -e --arg n "$1" 'any(.[]; .name == $n)' > /dev/null
}

# ---- admission ------------------------------------------------------------------------------------

@test "what does not fit is refused before the command starts, with what is free" {
        daemon_start
        lodger one --mem 40G --share 60 -- sleep 60
        refused 'at most 24 GiB are free there: one has 40 GiB;' --mem 25G
        refused 'at most 40% is promised to nobody: one has 60%;' --mem 1G --share 41
        refused "there is a tenant 'one' already" --mem 1G --name one
        refused 'is more than device 0 has' --mem 65G
        refused "mode 'magic' is not offered" --mem 1G --mode magic
        happened LEASE_REFUSED
        lodger two --mem 24G --share 40 -- sleep 60
        [ "$(api /v1/devices | jq -c '.[0] | [.leased_bytes, .share_permille, .tenants]')" = "[$((64 * 1024 * MIB)),1000,2]" ]
}

@test "with --overcommit more is leased than there is" {
        daemon_start --overcommit
        lodger one --mem 40G -- sleep 60
        lodger two --mem 40G -- sleep 60
        [ "$(api /v1/devices | jq '.[0].leased_bytes')" -eq $((80 * 1024 * MIB)) ]
}

@test "a request without options gets the rest of the memory, an equal part of the time, and a name of its own" {
        daemon_start
        lodger one --mem 40G --share 50 -- sleep 60
        on "$sublet" run -q -- sleep 60 < /dev/null > /dev/null 2>&1 3>&- &
        supervisors+=("$!")
        wait_for eval '"$sublet" ps -q | grep -qx sleep'
        run ! on "$sublet" run -q --mem 1G -- sleep 60 # there is no memory left: it is refused
        [ "$("$sublet" ps -q | sort | tr '\n' ' ')" = "one sleep " ]
        [ "$(of sleep quota_bytes)" -eq $((24 * 1024 * MIB)) ]
        [ "$(of sleep share_permille)" -eq 500 ]
        "$sublet" set sleep mem=1G
        on "$sublet" run -q --mem 1G -- sleep 60 < /dev/null > /dev/null 2>&1 3>&- &
        supervisors+=("$!")
        wait_for eval '"$sublet" ps -q | grep -qx sleep-2'
        [ "$(of sleep share_permille)" -eq 250 ]
}

@test "a request that is withdrawn gives its lease back" {
        daemon_start
        /usr/bin/python3 - "$SUBLET_DIR/tenant.sock" "$(cat "$machine_dir/id")" << 'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.send(json.dumps({"v": 1, "type": "lease", "tenant": "brief", "named": True, "mem": "64G", "command": "x",
                   "machine": sys.argv[2]}).encode())
assert json.loads(s.recv(65536))["type"] == "granted"
t = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
t.connect(sys.argv[1])
t.send(json.dumps({"v": 1, "type": "lease", "mem": "1G", "command": "x", "machine": sys.argv[2]}).encode())
answer = json.loads(t.recv(65536))
assert answer["type"] == "refused" and answer["code"] == "ENOSPC", answer
END
        wait_for eval '[ "$(api /v1/devices | jq ".[0].leased_bytes")" -eq 0 ]'
}

@test "nonsense at the sockets costs the daemon nothing" {
        daemon_start
        /usr/bin/python3 - "$SUBLET_DIR" << 'END'
import os, socket, sys
for door in ("tenant.sock", "keeper.sock"):
        for text in (b"x", b"{}", b"[]", b'{"v":1,"type":"hello"}', b'{"v":1,"type":"listener"}', b'{"v":1,"type":"ended"}',
                     b'{"v":1,"type":"lease","tenant":"' + b"a" * 60000 + b'"}', b'{"v":1,"type":"lease","share":-1}'):
                s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                s.connect(sys.argv[1] + "/" + door)
                socket.send_fds(s, [text], [os.open("/dev/null", os.O_RDONLY)] * 3)
held = []
for i in range(100): # and many that say nothing
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(sys.argv[1] + "/tenant.sock")
        held.append(s)
END
        lodger one --mem 1G -- sleep 60
        [ "$(find /proc/"$daemon"/fd | wc -l)" -lt 64 ]
}

@test "a descriptor that is no listener starts no shim" {
        daemon_start
        /usr/bin/python3 - "$SUBLET_DIR/tenant.sock" "$(cat "$machine_dir/id")" << 'END'
import json, os, select, socket, sys
for i in range(50):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(sys.argv[1])
        s.send(json.dumps({"v": 1, "type": "lease", "tenant": "x", "named": True, "mem": "1G", "command": "x",
                           "machine": sys.argv[2]}).encode())
        assert json.loads(s.recv(65536))["type"] == "granted"
        socket.send_fds(s, [b'{"v":1,"type":"listener"}'], [(s.fileno(), 0, select.epoll().fileno(), os.memfd_create("x"))[i % 4]])
        answer = json.loads(s.recv(65536))
        assert answer["type"] == "refused" and "listener" in answer["text"], answer
        assert s.recv(65536) == b""
END
        [ "$(api /v1/devices | jq '.[0].leased_bytes')" -eq 0 ]
        run ! happened GATE_FAILED
        [ -z "$(pgrep -P "$daemon")" ]
}

# clogs USER SOCKET...: sends to each of them what does not close, and keeps it so until clogs_end. The daemon stands
# still meanwhile: whoever closes last is the one who waits.
clogs() {
        mkfifo "$machine/clog.$1"
        kill -STOP "$daemon"
        setpriv --reuid "$1" --regid "$1" --clear-groups "$plain/tests/hostile/attack-listener-held" "$SUBLET_DIR" "${@:2}" \
                < "$machine/clog.$1" > "$machine/sent.$1" 2>&1 3>&- &
        clog=$!
        exec 7> "$machine/clog.$1"
        wait_for grep -q '^sent' "$machine/sent.$1"
        kill -CONT "$daemon"
        cat "$machine/sent.$1"
}

clogs_end() {
        exec 7>&-
        wait "$clog"
}

# 83 is SO_PASSRIGHTS: whether this kernel can refuse descriptors
refuses_descriptors() {
        /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).setsockopt(socket.SOL_SOCKET, 83, 0)' 2> /dev/null
}

n_stuck() { api /metrics | awk '$1 == "sublet_daemon_descriptors_stuck" { print $2 }'; }

@test "descriptors that do not close, sent to the daemon's sockets, hold up nobody but their sender" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
        chmod -R a+rwX "$machine"
        setpriv --reuid 4001 --regid 4001 --clear-groups test -x "$sublet" || skip "other users cannot reach $sublet"
        run -0 "$plain/tests/hostile/attack-listener-held" control
        [ "${output#waited }" -ge 1000 ] || { echo "no attack: $output ms"; return 1; }
        daemon_start
        clogs 4001 tenant.sock attach.sock
        if refuses_descriptors; then # at attach.sock, where none of them has shown a token
                grep -q '^sent 4 of 8' "$machine/sent.4001"
        else
                grep -q '^sent 8 of 8' "$machine/sent.4001"
        fi
        timeout 20 "$sublet" ps
        as_user 4002 timeout 20 "$sublet" run --mem 1G -- true
        wait_for happened DESCRIPTORS_STUCK
        api /v1/events | jq -e 'any(.[]; .name == "DESCRIPTORS_STUCK" and (.detail | contains("user 4001")))'
        wait_for eval '[ "$(n_stuck)" -ge 100 ]'
        run ! as_user 4001 timeout 20 "$sublet" run --mem 1G -- true # not heard until its own are closed
        as_user 4002 timeout 20 "$sublet" run --mem 1G -- true       # which starts a process beside all these
        clogs_end
        wait_for eval '[ "$(n_stuck)" -eq 0 ]'
        as_user 4001 timeout 20 "$sublet" run --mem 1G -- true
        [ "$(find /proc/"$daemon"/fd | wc -l)" -lt 64 ]
}

@test "a runtime's socket and that of a tenant without a shim close nothing while others wait" {
        [ "$(id -u)" -eq 0 ] || skip "needs root, as a runtime does"
        daemon_start
        clogs 0 seccomp.sock tenant.sock
        grep -q '^sent 8 of 8' "$machine/sent.0"
        on timeout 20 "$sublet" run --mem 1G -- true
        wait_for happened DESCRIPTORS_STUCK
        on timeout 20 "$sublet" run --mem 1G -- true
        clogs_end
        wait_for eval '[ "$(n_stuck)" -eq 0 ]'
}

@test "descriptors sent beside a request of the API do not hold it up" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
        chmod -R a+rwX "$machine"
        setpriv --reuid 4001 --regid 4001 --clear-groups test -x "$sublet" || skip "other users cannot reach $sublet"
        daemon_start
        clogs 4001 sublet.sock
        if refuses_descriptors; then
                grep -q '^sent 0 of 4' "$machine/sent.4001"
        fi
        timeout 20 "$sublet" ps
        as_user 4002 timeout 20 "$sublet" ps
        clogs_end
        as_user 4001 timeout 20 "$sublet" ps
}

@test "without a descriptor left the daemon waits instead of spinning, and goes on when there is one" {
        local limit spent
        daemon_start
        limit=$(prlimit --pid "$daemon" --nofile -o SOFT --noheadings)
        prlimit --pid "$daemon" --nofile="$(($(find "/proc/$daemon/fd" | wc -l) + 4)):"
        /usr/bin/python3 - "$SUBLET_DIR/tenant.sock" << 'END' 3>&- &
import socket, sys, time
held = []
for i in range(20):
        held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        held[-1].connect(sys.argv[1])
time.sleep(60)
END
        local crowd=$!
        sleep 0.5
        spent=$(awk '{ print $14 + $15 }' "/proc/$daemon/stat")
        sleep 2
        spent=$(($(awk '{ print $14 + $15 }' "/proc/$daemon/stat") - spent))
        kill "$crowd"
        prlimit --pid "$daemon" --nofile="$limit:"
        echo "$spent ticks in 2 s"
        [ "$spent" -lt 50 ]
        lodger one --mem 1G -- sleep 60
}

# ---- changes --------------------------------------------------------------------------------------

@test "a change is in force when the answer comes" {
        daemon_start
        # shellcheck disable=SC2016 # for the inner shell
        lodger one --mem 8G -- sh -c 'until [ -e "$1" ]; do sleep 0.01; done; exec "$2" meminfo' - "$machine/go" "$families"
        for ((i = 0; i < 5; i++)); do
                api /v1/tenants/one -X PATCH -d "{\"mem\":\"$((2 + i))G\",\"share_permille\":$((100 + i))}" | jq -e '.notes == []'
        done
        api /v1/tenants/one -X PATCH -d '{"mem":"3G"}' | jq -e '.notes == []'
        touch "$machine/go"
        wait_for grep -q total_mib "$machine/one"
        [ "$(value total_mib "$(cat "$machine/one")")" -eq 3072 ]
}

@test "a quota below what is held refuses new memory, and says so in the note and as an event" {
        daemon_start
        lodger two --mem 8G -- "$load_program" -t 300 deep
        wait_for eval '[ "$(of two held_bytes)" -gt $((100 * MIB)) ]'
        run -0 api /v1/tenants/two -X PATCH -d '{"mem":"100M"}'
        jq -e '.notes[0] | test("holds .* above its quota of 100 MiB: new memory is refused until it frees")' <<< "$output"
        wait_for happened QUOTA_SHRANK two
        jq -e '.devices[0].quota_bytes == 104857600' <<< "$output"
}

# ---- what it remembers ----------------------------------------------------------------------------

@test "leases, changes and usage outlive a daemon that is killed; nothing is counted twice" {
        local before after used
        daemon_start
        lodger one --mem 8G --share 30 -- "$load_program" -t 300 deep
        "$sublet" set one share=45 mem=4G class=batch
        wait_for eval '[ "$(of one used_ns)" -gt 500000000 ]'
        for ((i = 0; i < 3; i++)); do
                daemon_end KILL
                sleep 0.3
                daemon_start
                wait_for eval '[ "$(of one state)" = running ]'
        done
        [ "$(of one share_permille) $(of one quota_bytes) $(of one class)" = "450 $((4096 * MIB)) batch" ]
        happened DAEMON_RECOVERED
        before=$(of one used_ns)
        used=$(api /v1/usage | jq '.[0].gpu_seconds * 1e9 | floor')
        after=$(of one used_ns)
        echo "$before <= $used <= $after"
        [ "$before" -le $((used + 1000)) ] && [ "$used" -le "$after" ]
        "$sublet" end one
        wait_for happened TENANT_ENDED one
        [ "$(api '/v1/tenants?all=1' | jq -r '.[0] | [.state, .devices[0].share_permille] | @csv')" = '"ended",450' ]
}

@test "a tenant whose channels stay without service when the next daemon takes over is served again" {
        local before
        daemon_start
        lodger one --mem 1G -- "$load_program" -t 300 sync
        wait_for eval '[ "$(of one used_ns)" -gt 100000000 ]'
        for _ in 1 2; do
                daemon_end KILL
                sleep 3 # the shim has enabled all channels after 0.6
                "$plain/src/sublet" sim --dir "$machine" --fault enable-lost-at=1 # the first such call of the next daemon
                daemon_start
                wait_for eval '[ "$(of one state)" = running ]'
                sleep 0.2
                before=$(of one used_ns)
                wait_for eval '[ "$(of one used_ns)" -gt $((before + 300000000)) ]'
        done
}

@test "a tenant that ended while no daemon was there is closed by the next one" {
        daemon_start
        # shellcheck disable=SC2016 # for the inner shell
        lodger one --mem 1G -- sh -c 'until [ -e "$1" ]; do sleep 0.05; done' - "$machine/go"
        local one=$supervisor
        lodger two --mem 1G -- sleep 60
        daemon_end KILL
        touch "$machine/go"
        wait_for eval '! kill -0 "$one"' # its shim has told it the account, and keeps it for the next daemon
        daemon_start
        wait_for eval '[ "$("$sublet" ps -q)" = two ] && happened TENANT_ENDED one'
        run ! happened KEEPER_DIED one
}

@test "a killed shim is an event and ends its tenant, and its neighbour does not notice" {
        daemon_start
        lodger one --mem 1G -- sleep 60
        lodger two --mem 1G -- sleep 60
        kill -KILL "$(of one keeper)"
        wait_for happened KEEPER_DIED one
        wait_for eval '[ "$("$sublet" ps -q)" = two ]'
        [ "$(of two state)" = running ]
        kill "${supervisors[0]}" # its command lives on without driver calls, until somebody ends it
}

@test "a second daemon is refused, leftovers are not in the way, and a stopped one leaves no socket" {
        daemon_start
        run on "$sublet" daemon --dir "$SUBLET_DIR"
        [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ]
        [[ $output == *"a daemon (process $daemon) serves $SUBLET_DIR already"* ]]
        daemon_end KILL
        [ -S "$SUBLET_DIR/sublet.sock" ]
        daemon_start
        daemon_end TERM
        [ "$(find "$SUBLET_DIR" -type s | wc -l)" -eq 0 ]
}

@test "a second daemon for the same devices is refused, whatever directory it has, until the first is gone" {
        daemon_start
        run on "$sublet" daemon --dir "$machine/other"
        [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ]
        [[ $output == *"another daemon serves the devices of this machine already"* ]]
        [ ! -e "$machine/other" ]
        run -2 on "$sublet" daemon --dir "$machine/other" --listen :0 --listen :1
        [ "$output" = "sublet daemon: --listen :1: the second of these, and there can be one" ]
        lodger one --mem 1G -- sleep 60
        daemon_end KILL
        daemon_start # also beside a tenant that lives
        [ "$("$sublet" ps -q)" = one ]
}

@test "a directory that others could put files into is refused, and nobody's file is written through a link" {
        echo precious > "$machine/precious"
        mkdir "$machine/open" && chmod 777 "$machine/open"
        run on "$sublet" daemon --dir "$machine/open"
        [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"chmod go-w"* ]]
        mkdir "$machine/linked"
        ln -s "$machine/precious" "$machine/linked/lock"
        run on "$sublet" daemon --dir "$machine/linked"
        [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ]
        [ "$(cat "$machine/precious")" = precious ]
        run on "$sublet" daemon --dir "$machine/precious"
        [ "$status" -eq 1 ] && [[ $output == *"is no directory"* ]]
        [ "$(id -u)" -eq 0 ] || return 0
        mkdir "$machine/theirs" && chown 4001 "$machine/theirs"
        run on "$sublet" daemon --dir "$machine/theirs"
        [ "$status" -eq 1 ] && [[ $output == *"belongs to user 4001"* ]]
}

@test "bad use is one line and exit code 2" {
        local order
        for order in "--period 5ms" "--period x" "--policy best" "--dir" "more" "--nonsense"; do
                # shellcheck disable=SC2086
                run "$sublet" daemon $order
                [ "$status" -eq 2 ] && [ "${#lines[@]}" -eq 1 ] || { echo "$order: $output"; return 1; }
        done
        run -0 "$sublet" daemon --help
        [[ $output == *"--overcommit"* ]]
        for order in nonsense :99999 :-1 :0x50 127.0.0.1:http; do
                run on "$sublet" daemon --dir "$machine/x" --listen "$order"
                [ "$status" -eq 2 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"--listen $order: "* ]]
        done
        [ ! -e "$machine/x" ]
}

# ---- who may do what ------------------------------------------------------------------------------

@test "two users cannot see or touch each other's tenants; root may all" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
        chmod -R a+rwX "$machine"
        setpriv --reuid 4001 --regid 4001 --clear-groups test -x "$sublet" || skip "other users cannot reach $sublet"
        daemon_start
        for user in 4001 4002; do
                as_user "$user" "$sublet" run -q --name "of-$user" --mem 1G -- sleep 60 < /dev/null > "$machine/of-$user" 2>&1 3>&- &
                supervisors+=("$!")
                wait_for eval '"$sublet" ps -q | grep -qx "of-$user"'
        done
        [ "$(of of-4001 uid)" -eq 4001 ]
        [ "$(as_user 4001 "$sublet" ps -q)" = of-4001 ]
        as_user 4001 "$sublet" ps | grep -qx 'device 0: 1 tenant of other users: 0 B held, 1 GiB leased of 64 GiB'
        as_user 4001 "$sublet" top --once | grep -q '^   others: 1 hold 0B'
        [ "$("$sublet" top --json -n 1 | jq -c '.devices[0].others.tenants, (.tenants | length)' | xargs)" = "0 2" ]
        run as_user 4001 "$sublet" set of-4002 mem=2G
        [ "$status" -eq 1 ] && [[ $output == *"another user's"* ]]
        run as_user 4001 "$sublet" run --mem 64G -- true # whose names a message does not have either
        [[ $output == *"are free there: of-4001 has 1 GiB, others the rest;"* ]]
        run as_user 4001 "$sublet" end of-4002
        [ "$status" -eq 1 ]
        run ! grep -q of-4002 <(as_user 4001 curl -sS --unix-socket "$SUBLET_DIR/sublet.sock" http://x/metrics)
        as_user 4001 "$sublet" set of-4001 mem=2G
        [ "$(of of-4001 quota_bytes) $(of of-4002 quota_bytes)" = "$((2048 * MIB)) $((1024 * MIB))" ]
        /usr/bin/python3 - "$SUBLET_DIR" << 'END'
import os, socket, sys
os.setresuid(4001, 4001, 4001)
socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1] + "/tenant.sock")
try:
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1] + "/keeper.sock")
        sys.exit("accepted as a shim")
except PermissionError:
        pass
END
        as_user 4002 "$sublet" end of-4002
        wait_for eval '[ "$("$sublet" ps -q)" = of-4001 ]'
}

@test "a user who takes every connection keeps nobody else out" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
        chmod -R a+rwX "$machine"
        setpriv --reuid 4001 --regid 4001 --clear-groups test -x "$sublet" || skip "other users cannot reach $sublet"
        daemon_start
        /usr/bin/python3 - "$SUBLET_DIR" "$machine/crowded" << 'END' 3>&- &
import os, resource, socket, sys, time
os.setresuid(4001, 4001, 4001)
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
held = []
for name, kind, n in (("sublet.sock", socket.SOCK_STREAM, 1100), ("tenant.sock", socket.SOCK_SEQPACKET, 600)):
        for i in range(n):
                held.append(socket.socket(socket.AF_UNIX, kind))
                held[-1].settimeout(2)
                try:
                        held[-1].connect(sys.argv[1] + "/" + name)
                        if kind == socket.SOCK_STREAM and i % 2:
                                held[-1].send(b"GET /v1/events?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n")
                except OSError: # turned away, which is the point
                        pass
open(sys.argv[2], "w").close()
time.sleep(60)
END
        local crowd=$!
        wait_for test -e "$machine/crowded"
        timeout 5 "$sublet" ps
        as_user 4002 timeout 5 "$sublet" ps
        as_user 4002 timeout 5 "$sublet" run --mem 1G -- true
        kill "$crowd"
        wait_for as_user 4001 timeout 5 "$sublet" ps
}

@test "over TCP only GET is answered, and a foreign host name is refused" {
        local port=$((20000 + RANDOM % 20000))
        daemon_start --listen "127.0.0.1:$port"
        lodger one --mem 1G -- sleep 60
        [ "$(curl -sS "http://127.0.0.1:$port/v1/tenants" | jq -r '.[0].tenant')" = one ]
        curl -sS "http://127.0.0.1:$port/metrics" | grep -q '^sublet_tenants 1$'
        [ "$(curl -sS -o /dev/null -w '%{http_code}' -X DELETE "http://127.0.0.1:$port/v1/tenants/one")" = 405 ]
        [ "$(curl -sS -o /dev/null -w '%{http_code}' -X PATCH -d '{"mem":"2G"}' "http://127.0.0.1:$port/v1/tenants/one")" = 405 ]
        [ "$(curl -sS -o /dev/null -w '%{http_code}' -H 'Host: evil.example' "http://127.0.0.1:$port/v1/tenants")" = 403 ]
        [ "$("$sublet" ps -q)" = one ]
}

@test "a port without an address is this machine's only; the URL is printed, and says whether it is ready" {
        local url
        daemon_start --listen :0
        wait_for grep -q '^sublet daemon: http' "$machine/daemon"
        url=$(sed -n 's|^sublet daemon: \(http://127.0.0.1:[0-9]*/\) .*|\1|p' "$machine/daemon")
        [ "$(curl -sS "${url}healthz" | jq -r .status)" = ok ]
        [ "$(curl -sS "${url}readyz" | jq -r .status)" = ready ]
        run ! curl -sS -m 5 "http://127.0.0.2:${url#http://127.0.0.1:}healthz"
}

@test "a port that another process has is one line with the next step" {
        /usr/bin/python3 -c 'import socket, signal; s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True); signal.pause()' \
                > "$machine/port" 3>&- &
        supervisors+=($!)
        wait_for [ -s "$machine/port" ]
        run -1 --separate-stderr on timeout 30 "$sublet" daemon --dir "$machine/x" --listen "127.0.0.1:$(cat "$machine/port")"
        kill "${supervisors[-1]}"
        [ "$stderr" = "sublet daemon: --listen 127.0.0.1:$(cat "$machine/port"): another process has this port: end it, or choose another port" ]
}

# status OPTION...: of an answer of the port
status() {
        curl -sS -m 20 -o "$machine/body" -w '%{http_code}' "$@"
}

@test "with a token the port answers who sends it, by TLS where there is a certificate" {
        local url token=0123456789abcdef0123456789abcdef
        echo "$token" > "$machine/token"
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
                -keyout "$machine/key.pem" -out "$machine/cert.pem" 2> "$machine/openssl"
        daemon_start --listen :0 --token "$machine/token" --cert "$machine/cert.pem" --key "$machine/key.pem"
        wait_for grep -q 'answers who has the token$' "$machine/daemon"
        url=$(sed -n 's|^sublet daemon: \(https://127.0.0.1:[0-9]*/\) .*|\1|p' "$machine/daemon")
        export CURL_CA_BUNDLE=$machine/cert.pem
        for path in '' v1/tenants v1/events metrics nothing; do
                [ "$(status "$url$path")" = 401 ]
                [ "$(status -H "Authorization: Bearer ${token}0" "$url$path")" = 401 ]
                [ "$(status -H "Authorization: Bearer ${token%f}e" "$url$path")" = 401 ]
                [ "$(status -H "Authorization: Bearer" "$url$path")" = 401 ]
                [ "$(status -H "Authorization: Basic %%%" "$url$path")" = 401 ]
                [ "$(status -u "$token:" "$url$path")" = 401 ]
                jq -e '.error | contains("--token")' "$machine/body"
        done
        curl -sS -D - -o "$machine/body" "$url" | grep -qi '^WWW-Authenticate: Basic realm="sublet"'
        [ "$(status "${url}healthz")" = 200 ]
        [ "$(status "${url}readyz")" = 200 ]
        for path in '' v1/tenants v1/events metrics; do
                [ "$(status -H "Authorization: Bearer $token" "$url$path")" = 200 ]
                [ "$(status -u "me:$token" "$url$path")" = 200 ]
        done
        [ "$(status -H "Authorization: Bearer $token" -X DELETE "${url}v1/tenants/one")" = 405 ]
        run ! curl -sS -m 5 "${url/https/http}healthz"
        # One that follows without end, by TLS: events come as they happen.
        curl -sSN -H "Authorization: Bearer $token" "${url}v1/events?follow=1&since=1h" > "$machine/followed" 3>&- &
        supervisors+=($!)
        wait_for grep -q DAEMON_STARTED "$machine/followed"
        lodger one --mem 1G -- sleep 60
        wait_for grep -q '"tenant":"one"' "$machine/followed"
        "$sublet" ps -q # the socket needs none
}

# signed NAME USAGE: a certificate of the authority NAME.crt, for that usage, in NAME-USAGE.crt and .key
signed() {
        (
                cd "$machine" || exit
                [ -e "$1.crt" ] || openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -keyout "$1.key" -out "$1.crt"
                openssl req -newkey rsa:2048 -nodes -subj "/CN=$1 $2" -keyout "$1-$2.key" -out request
                openssl x509 -req -in request -CA "$1.crt" -CAkey "$1.key" -CAcreateserial -days 2 -out "$1-$2.crt" \
                        -extfile <(echo "extendedKeyUsage=$2"; echo subjectAltName=IP:127.0.0.1)
        ) 2> "$machine/openssl"
}

as() { status --cert "$machine/$1.crt" --key "$machine/$1.key" "${@:2}"; }

@test "with an authority of callers the port answers who shows a certificate of it for callers, and says to all how it is" {
        local url path
        signed ours serverAuth
        signed ours clientAuth
        signed others clientAuth
        daemon_start --listen :0 --cert "$machine/ours-serverAuth.crt" --key "$machine/ours-serverAuth.key" --callers "$machine/ours.crt"
        wait_for grep -q 'answers who has a certificate$' "$machine/daemon"
        url=$(sed -n 's|^sublet daemon: \(https://127.0.0.1:[0-9]*/\) .*|\1|p' "$machine/daemon")
        export CURL_CA_BUNDLE=$machine/ours.crt
        for path in '' v1/tenants v1/events metrics nothing; do
                [ "$(status "$url$path")" = 403 ]
                jq -e '.error | contains("--callers")' "$machine/body"
                [ "$(as others-clientAuth "$url$path")" = 403 ]
                [ "$(as ours-serverAuth "$url$path")" = 403 ]
        done
        for path in '' v1/tenants metrics; do [ "$(as ours-clientAuth "$url$path")" = 200 ]; done
        [ "$(as ours-clientAuth -X DELETE "${url}v1/tenants/one")" = 405 ]
        for path in healthz readyz; do [ "$(status "$url$path")" = 200 ]; done
        "$sublet" ps -q # the socket needs none
}

@test "a token or certificate that cannot be used is refused in one line" {
        local token=$machine/token
        echo short > "$machine/short"
        printf '0123456789abcdef\n0123456789abcdef\n' > "$machine/two"
        echo '0123456789 abcdef' > "$machine/blank"
        echo 0123456789abcdef > "$token"
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=c -keyout "$machine/k.pem" -out "$machine/c.pem" 2> "$machine/openssl"
        for bad in "--token $machine/short" "--token $machine/two" "--token $machine/blank" "--token $machine/none" \
                "--cert $token" "--key $token" "--cert $token --key $token" "--cert $machine/none --key $token" \
                "--callers $machine/none" "--cert $machine/c.pem --key $machine/k.pem --callers $token"; do
                # shellcheck disable=SC2086 # words
                run on "$sublet" daemon --dir "$machine/x" --listen :0 $bad
                echo "$output"
                [ "$status" -ne 0 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == "sublet daemon: "* ]]
        done
        run on "$sublet" daemon --dir "$machine/x" --token "$token"
        [ "$status" -eq 2 ]
        [[ $output == *"are for --listen"* ]]
}

@test "over TCP one address does not keep the others out" {
        local port=$((20000 + RANDOM % 20000))
        daemon_start --listen "0.0.0.0:$port"
        /usr/bin/python3 - "$port" << 'END'
import select, socket, sys, time
port = int(sys.argv[1])
many = [socket.create_connection(("127.0.0.1", port), 20, ("127.0.0.1", 0)) for _ in range(100)]
for one in many:
        one.settimeout(20)
        try:
                one.sendall(b"GET /v1/events?follow=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        except OSError:
                pass # shown out already

def is_kept(one):
        try:
                if not select.select([one], [], [], 0)[0]:
                        return True
                said = one.recv(12, socket.MSG_PEEK)
                return said and said != b"HTTP/1.1 429"
        except ConnectionError:
                return False

until = time.monotonic() + 20
kept = many
while len(kept) > 64 and time.monotonic() < until:
        time.sleep(0.1)
        kept = list(filter(is_kept, kept))
assert len(kept) == 64, len(kept)
other = socket.create_connection(("127.0.0.1", port), 20, ("127.0.0.2", 0))
other.sendall(b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
assert b" 200 " in other.recv(100)
END
}

# ---- what it tells --------------------------------------------------------------------------------

@test "metrics are as Prometheus reads them" {
        daemon_start
        lodger one --mem 1G --share 30 -- "$load_program" -t 300 deep
        wait_for eval '[ "$(of one used_ns)" -gt 100000000 ]'
        api /metrics | /usr/bin/python3 -c '
import re, sys
types, seen, family = {}, set(), None
for line in sys.stdin.read().splitlines():
        if line.startswith("# HELP "):
                family = line.split()[2]
                assert family not in types, "a family in two places: " + family
        elif line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                assert name == family and kind in ("counter", "gauge"), line
                assert name.endswith("_total") == (kind == "counter"), "counters end in _total: " + name
                types[name] = kind
        else:
                sample = re.fullmatch(r"([a-z_]+)(\{(?:[a-z_]+=\"(?:[^\"\\\n]|\\[\"\\n])*\",?)+\})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)", line)
                assert sample, "no sample: " + line
                assert sample[1] == family, line
                assert (sample[1], sample[2]) not in seen, "twice: " + line
                seen.add((sample[1], sample[2]))
names = {name for name, _ in seen}
for need in ("sublet_tenant_gpu_seconds_total", "sublet_tenant_share_ratio", "sublet_device_busy_ratio", "sublet_build_info",
             "sublet_meter_lost_records_total", "sublet_daemon_cpu_seconds_total"):
        assert need in names, need
'
        [ "$(api /metrics | sed -n 's/^sublet_tenant_share_ratio{.*} //p')" = 0.300000000 ]
}

@test "a follower gets events as they happen" {
        daemon_start
        api '/v1/events?follow=1' -N --max-time 60 -D "$machine/headers" > "$machine/heard" 3>&- &
        local follower=$!
        wait_for test -s "$machine/headers"
        lodger one --mem 1G -- sleep 60
        wait_for grep -q '"TENANT_STARTED"' "$machine/heard"
        "$sublet" set one cap=30
        wait_for grep -q '"TENANT_CHANGED".*cap 30%' "$machine/heard"
        jq -es 'all(.[]; has("id") and has("time") and has("level") and has("line"))' "$machine/heard"
        kill "$follower"
}

@test "a trace is JSON with the tenants as tracks; the timeline has their spans" {
        daemon_start
        lodger one --mem 1G -- "$load_program" -t 300 deep
        lodger two --mem 1G -- "$load_program" -t 300 deep
        wait_for eval '[ "$(of one used_ns)" -gt 100000000 ] && [ "$(of two used_ns)" -gt 100000000 ]'
        api '/v1/trace?for=0.5' > "$machine/trace.json"
        jq -e '[.traceEvents[] | select(.name == "thread_name") | .args.name] | contains(["one", "two"])' "$machine/trace.json"
        jq -e '[.traceEvents[] | select(.ph == "X" and .cat == "on") | .dur] | add | . > 300000 and . <= 520000' "$machine/trace.json"
        # in the half second before, both may not have had a processor
        wait_for eval 'api "/v1/timeline?for_ms=500" | jq -e "(.spans | length) > 1 and .tenants == [\"one\", \"two\"] and all(.spans[]; .[1] < .[2])"'
}

@test "the service manager gets READY and WATCHDOG" {
        # shellcheck disable=SC2016
        /usr/bin/python3 - "$machine/notify" > "$machine/told" 3>&- << 'END' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
s.settimeout(20)
while True:
        text = s.recv(100).decode()
        print(text, flush=True)
        if text.startswith("STOPPING"):
                break
END
        local listener=$!
        wait_for test -S "$machine/notify"
        NOTIFY_SOCKET=$machine/notify daemon_start
        wait_for grep -q WATCHDOG=1 "$machine/told"
        daemon_end TERM
        wait "$listener"
        [ "$(head -1 "$machine/told")" = READY=1 ]
        [ "$(tail -1 "$machine/told")" = STOPPING=1 ]
}
