#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `sublet keepers`: a spawner of shims beside the daemon, so that what ends a daemon with everything it has started, as
# a container's runtime does, ends no tenant.
# waits: for shims that end
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start
        # shellcheck disable=SC2034 # daemon.bash fills it
        supervisors=()
}

teardown() {
        kill -CONT "${home:-0}" 2> /dev/null || true
        node_end
        # shellcheck disable=SC2013  # words are wanted
        for control in $(grep -lz "^CUDA_MPS_PIPE_DIRECTORY=$machine/" /proc/[0-9]*/environ 2> /dev/null | cut -d/ -f3); do
                kill -9 "$control" 2> /dev/null || true
        done
        kill -9 "${home:-}" 2> /dev/null || true
        machine_end
}

home_start() {
        mkdir -p "$machine/node"
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$sublet" keepers --dir "$machine/node" < /dev/null 3>&- 2>> "$machine/home" &
        home=$!
        wait_for [ -S "$machine/node/keepers.sock" ]
}

below() { # every process below this one
        local child
        for child in $(pgrep -P "$1"); do
                echo "$child"
                below "$child"
        done
}

# As a runtime ends a container: the first process and all that it has started.
container_end() {
        local all
        mapfile -t all < <(echo "$daemon"; below "$daemon")
        kill -9 "${all[@]}"
        wait "$daemon" 2> /dev/null || true
        daemon=''
}

work() { printf '%s' "$load_program -k 1000 -t 20 sync"; }
is_open() { /usr/bin/python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])' "$machine/node/keepers.sock"; }
is_running() { [ "$(of "$1" state)" = running ]; } # it has its shim and its number
is_gone() { ! kill -0 "$1" 2> /dev/null; }

@test "the daemon's container is replaced: the tenant works on, with the same shim, quota and number" {
        home_start
        daemon_start
        # shellcheck disable=SC2046  # words
        lodger a --mem 1G -- $(work)
        wait_for is_running a
        shim=$(pgrep -P "$home")
        [ -z "$(below "$daemon")" ]
        id=$(of a id)
        container_end
        sleep 0.5
        kill -0 "$shim"
        daemon_start
        wait_for is_running a
        [ "$(of a id)" = "$id" ]
        [ "$(of a quota_bytes)" = 1073741824 ]
        # shellcheck disable=SC2034 # in the next line
        before=$(of a used_ns)
        wait_for eval '[ "$(of a used_ns)" -gt $((before + 100000000)) ]'
        kill -0 "$shim"
}

@test "without a spawner it is the tenant's end, which is why there is one" {
        daemon_start
        # shellcheck disable=SC2046  # words
        lodger a --mem 1G -- $(work)
        wait_for is_running a
        shim=$(pgrep -P "$daemon" -f 'sublet keeper')
        container_end
        wait_for is_gone "$shim"
        wait_for is_gone "$supervisor"
}

@test "a spawner that is to end starts no more shims, keeps those it has, and ends with the last" {
        home_start
        daemon_start
        lodger a --mem 1G -- sleep 60
        wait_for is_running a
        kill "$home"
        wait_for eval '! is_open'
        lodger b --mem 1G -- sleep 60
        wait_for eval '[ -n "$(pgrep -P "$daemon")" ]' # b's is the daemon's own
        kill -0 "$home"
        "$sublet" end a
        wait_for is_gone "$home"
        wait_for eval '[ "$("$sublet" ps -q)" = b ]'
}

fake() { echo "$BATS_TEST_DIRNAME/../../fakes/mps"; } # of MPS
control() { cut -d' ' -f1 "$machine/node/mps/0-1/control"; }

@test "a group's MPS server is the spawner's, too: the daemon's container is replaced, and its clients go on" {
        PATH=$(fake):$PATH home_start
        daemon_start # which has no such program
        lodger a --group chat --mem 1G -- "$(fake)/nvidia-cuda-mps-control" client wait
        wait_for eval 'grep -q group=0x0 "$machine/a"'
        first=$(control)
        [ "$(ps -o ppid= -p "$first")" -eq "$home" ]
        container_end
        daemon_start
        wait_for is_running a
        [ "$(control)" = "$first" ]
        run -0 on "$sublet" run -q --group chat --mem 1G -- "$(fake)/nvidia-cuda-mps-control" client
        [[ $output == *group=0x0* ]]
        "$sublet" end a
        wait_for is_gone "$first"
        wait_for eval '[ -z "$(pgrep -P "$home")" ]'
}

@test "a spawner that is to end does not wait for an MPS server, and without the program a group is refused, with the reason" {
        PATH=$(fake):$PATH home_start
        daemon_start
        lodger a --group chat --mem 1G -- "$(fake)/nvidia-cuda-mps-control" client wait
        wait_for eval 'grep -q group=0x0 "$machine/a"'
        first=$(control)
        shim=$("$sublet" ps --json | jq '.[0].keeper')
        container_end
        kill -9 "$shim"
        kill "$home"
        wait_for is_gone "$home"
        kill -9 "$first"
        home_start
        daemon_start
        run --separate-stderr on "$sublet" run --group chat --mem 1G -- true
        [ "$status" -eq 125 ]
        [[ $stderr == *'the shim spawner: nvidia-cuda-mps-control is nowhere in the PATH: it comes with the driver'* ]] || { echo "$stderr"; return 1; }
}

@test "a spawner that does not answer costs a tenant one line, and the daemon goes on" {
        home_start
        daemon_start
        kill -STOP "$home"
        run --separate-stderr on "$sublet" run --mem 1G -- true
        [ "$status" -eq 125 ]
        [[ $stderr == *"the shim spawner does not answer"* ]]
        kill -CONT "$home"
        run on "$sublet" run --mem 1G -- true
        [ "$status" -eq 0 ]
}

@test "nobody else may ask it, and what is no request is refused" {
        home_start
        [ "$(stat -c %a "$machine/node/keepers.sock")" = 600 ]
        /usr/bin/python3 - "$machine/node/keepers.sock" <<'X'
import json, socket, sys
for body in (b"{", b"{}", b'{"v":1,"type":"start"}', b'{"v":1,"type":"start","lease":{},"numbers":[]}',
        b'{"v":1,"type":"start_mps"}', b'{"v":1,"type":"start_mps","device":-1,"team":0}', b'{"v":1,"type":"start_mps","device":0,"team":4294967296}'):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    s.connect(sys.argv[1])
    s.send(body)
    said = s.recv(65536)
    assert said == b"" or json.loads(said)["type"] == "failed", said
X
        kill -0 "$home"
        [ -z "$(pgrep -P "$home")" ]
}
