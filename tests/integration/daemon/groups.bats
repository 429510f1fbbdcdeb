#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Trust groups (--group): tenants of one user that share an MPS server, and take turns with others as one. A fake
# replaces NVIDIA's MPS, and on the simulator each tenant computes in a context of its own: what is seen here is who is
# on when, whose server lends what, and what becomes of a group when its server dies. tests/gpu/latency.sh has the real
# one.
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 64G --realistic-time
        old_path=$PATH
        export PATH=$BATS_TEST_DIRNAME/../../fakes/mps:$PATH
        daemon_start
}

teardown() {
        local control
        node_end
        # shellcheck disable=SC2013  # words are wanted
        for control in $(grep -lz "^CUDA_MPS_PIPE_DIRECTORY=$machine/" /proc/[0-9]*/environ 2> /dev/null | cut -d/ -f3); do
                kill -9 "$control" 2> /dev/null || true
        done
        export PATH=$old_path
        machine_end
}

# worker NAME [OPTION of run...]: computes without end once `go` is called
worker() {
        local name=$1
        shift
        mkdir -p "$machine/barrier"
        lodger "$name" --mem 2G "$@" -- "$load_program" -n "$name" -t 300 -b "$machine/barrier" deep
        wait_for test -e "$machine/barrier/$name.ready"
}

# within VALUE LOW HIGH
within() {
        [ "$1" -ge "$2" ] && [ "$1" -le "$3" ] || { echo "$1 is not within $2 and $3"; "$sublet" ps; return 1; }
}

# used NAME...: seconds of GPU time of all of them, in ms
used() {
        "$sublet" ps --json | jq --arg names "$*" '[.[] | select(.tenant as $t | $names | split(" ") | index($t)) |
                .devices[0].used_ns] | add / 1000000 | floor'
}

lives() { [ "$(of "$1" state)" = running ]; }

@test "a group has the shares of its tenants among others, and who shares it is shown" {
        worker a --group chat --share 30
        worker b --group chat --share 20
        worker c --group other --share 20
        worker d --share 30
        touch "$machine/barrier/go"
        sleep 1
        chat=$(used a b) other=$(used c) alone=$(used d)
        sleep 3
        chat=$(($(used a b) - chat)) other=$(($(used c) - other)) alone=$(($(used d) - alone))
        sum=$((chat + other + alone))
        echo "$chat, $other, $alone ms"
        within $((chat * 1000 / sum)) 460 540
        within $((other * 1000 / sum)) 160 240
        within $((alone * 1000 / sum)) 260 340
        "$sublet" ps | head -1 | grep -q GROUP
        "$sublet" ps --json | jq -e '[.[] | .group] == ["chat", "chat", "other", null]'
        "$sublet" inspect a | grep -q 'group.*chat'
        curl -s --unix-socket "$SUBLET_DIR/sublet.sock" http://localhost/metrics |
                grep -q 'sublet_tenant_group_info{tenant="a",group="chat"} 1'
        (cd "$machine" && "$sublet" trace --for 1s)
        grep -q 'group chat' "$machine/sublet-trace.json"
}

@test "a group is on or off as one" {
        worker a --group chat --share 25
        worker b --group chat --share 25
        worker c --share 50
        touch "$machine/barrier/go"
        sleep 0.5
        apart=0
        for _ in $(seq 30); do
                offs=$("$sublet" ps --json | jq -c '[.[] | select(.group == "chat") | .devices[0].is_off]')
                [ "$offs" != '[true,false]' ] && [ "$offs" != '[false,true]' ] || apart=$((apart + 1))
        done
        echo "$apart of 30 looks"
        [ "$apart" -le 3 ] # in the middle of a call
}

@test "each group has a server of its own, and nothing of another's passes" {
        lodger a --group chat --mem 1G -- nvidia-cuda-mps-control client wait
        lodger b --group other --mem 1G -- nvidia-cuda-mps-control client wait
        wait_for grep -q client= "$machine/a"
        wait_for grep -q client= "$machine/b"
        [ "$(value group "$(cat "$machine/a")")" = 0x0 ]
        [ "$(value group "$(cat "$machine/b")")" = 0x0 ]
        cat "$machine/a"
        [ "$(value channel "$(cat "$machine/a")")" = 0x0 ]   # its own, in the server's group
        [ "$(value scheduled "$(cat "$machine/a")")" = 0x0 ] # and it may run
        [ "$(value group-scheduled "$(cat "$machine/a")")" != 0x0 ]
        [ "$(cut -d' ' -f1 "$SUBLET_DIR"/mps/0-1/control)" != "$(cut -d' ' -f1 "$SUBLET_DIR"/mps/0-2/control)" ]
        # a third tenant of the second group asks for the group of the first one's server
        read -r client group _ < "$SUBLET_DIR/mps/0-1/pipe/server"
        run -0 --separate-stderr on "$sublet" run -q --name c --group other --mem 1G -- nvidia-cuda-mps-control client "$client" "$group"
        [ "$(value group "$output")" = 0x0 ]
        [ "$(value outsider "$output")" != 0x0 ]
        wait_for eval '"$sublet" events c | grep -q FOREIGN_OBJECT'
}

@test "a fault takes the tenants of its group, and another does not notice" {
        lodger a --group chat --mem 1G -- nvidia-cuda-mps-control client wait
        lodger b --group chat --mem 1G -- nvidia-cuda-mps-control client wait
        lodger c --group other --mem 1G -- nvidia-cuda-mps-control client wait
        wait_for grep -q client= "$machine/b"
        wait_for grep -q client= "$machine/c"
        sleep 3 # servers are looked for once a second
        other=$(pgrep -P "$(cut -d' ' -f1 "$SUBLET_DIR/mps/0-2/control")")
        pkill -9 -P "$(cut -d' ' -f1 "$SUBLET_DIR/mps/0-1/control")"
        wait_for eval '[ "$("$sublet" events --json | jq -r "select(.name == \"MPS_FAULT\").tenant" | sort -u | grep -c "^[ab]$")" = 2 ]'
        run ! grep -q . <("$sublet" events --json | jq -r 'select(.name == "MPS_FAULT" and .tenant == "c").tenant')
        kill -0 "$other"
}

@test "with --restart who was ended by its group's fault is started again, and who failed by itself is not" {
        # shellcheck disable=SC2016 # of the command
        lodger a --group chat --restart --mem 1G -- sh -c 'echo begun >> "$0"; [ "$(wc -l < "$0")" -lt 2 ] || exit 0
                nvidia-cuda-mps-control client; until [ -e "$0.go" ]; do sleep 0.1; done; exit 3' "$machine/lives"
        wait_for grep -q client= "$machine/a"
        sleep 2
        pkill -9 -P "$(cut -d' ' -f1 "$SUBLET_DIR/mps/0-1/control")"
        touch "$machine/lives.go"
        wait_for eval '[ "$(wc -l < "$machine/lives")" = 2 ]'
        wait "${supervisors[@]}"
        grep -q "started again" "$machine"/a*
        # shellcheck disable=SC2016
        run -3 on "$sublet" run -q --group chat --restart --mem 1G -- sh -c 'nvidia-cuda-mps-control client; exit 3'
        [[ $output != *"started again"* ]]
}

@test "the next daemon finds the servers, and a group goes on under it" {
        lodger a --group chat --mem 1G -- nvidia-cuda-mps-control client wait
        wait_for grep -q client= "$machine/a"
        first=$(cut -d' ' -f1 "$SUBLET_DIR/mps/0-1/control")
        daemon_end KILL
        daemon_start
        wait_for lives a
        lodger b --group chat --mem 1G -- sleep 60
        wait_for lives b
        [ "$(cut -d' ' -f1 "$SUBLET_DIR/mps/0-1/control")" = "$first" ]
        "$sublet" end a b
        wait_for eval '! kill -0 "$first"'
        lodger c --group chat --mem 1G -- sleep 60 # a new group: its number was nobody's
        wait_for lives c
        [ ! -e "$SUBLET_DIR/mps/0-1/control" ]
        [ -e "$SUBLET_DIR/mps/0-2/control" ]
}

@test "the next daemon says that a group's server has ended meanwhile, and starts another" {
        local first
        lodger a --group chat --mem 1G -- sleep 60
        wait_for lives a
        first=$(cut -d' ' -f1 "$SUBLET_DIR/mps/0-1/control")
        daemon_end KILL
        kill -KILL "$first"
        daemon_start
        wait_for eval '"$sublet" events | grep -q "a: MPS_FAULT: .*while no daemon was there.*this tenant was on it"'
        wait_for eval '[ "$(cut -d" " -f1 "$SUBLET_DIR/mps/0-1/control")" != "$first" ]'
        [ "$("$sublet" events | grep -c "a: MPS_FAULT")" = 1 ]
}

@test "what does not go with a group is refused in one line, with the next step" {
        refused() { # TEXT OPTION...
                local text=$1
                shift
                run on "$sublet" run -q --name x --mem 1G "$@" -- true
                echo "$output"
                [ "$status" -ne 0 ]
                [ "${#lines[@]}" -eq 1 ]
                [[ $output == *"$text"* ]]
        }
        refused "leave --mode spatial out" --group g --mode spatial --gpu 0
        refused "leave --group or --job out" --group g --job j
        refused "leave --group out" --group g --share 20 --latency 20ms
        sublet=$plain/src/sublet refused "leave --preload out" --group g --preload # its library is in this build only
        refused "1 to 63 letters" --group -g
        [ -z "$("$sublet" ps -q)" ]
        run -0 on "$sublet" run -q --group g --mem 1G --sms 40% --share 20 -- sh -c 'echo "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"'
        [ "$output" = 40.0 ]
        # shellcheck disable=SC2016 # of the command
        run -0 on "$sublet" run -q --group g --mem 1G --class batch -- sh -c 'echo "${CUDA_MPS_CLIENT_PRIORITY:-none}"'
        [ "$output" = 1 ]
        # shellcheck disable=SC2016
        run -0 on "$sublet" run -q --group g --mem 1G --class latency -- sh -c 'echo "${CUDA_MPS_CLIENT_PRIORITY:-none}"'
        [ "$output" = none ]
        lodger a --group g --mem 1G --share 20 -- sleep 60
        wait_for lives a
        "$sublet" set a share=30
        run "$sublet" set a cap=40
        [ "$status" -ne 0 ]
        [[ $output == *"set when it starts"* ]]
}

@test "--mode auto: in its group, or by turns where that is better, and an event says why" {
        # shellcheck disable=SC2016 # of the command
        way() { # NAME OPTION...: which way it goes
                local name=$1
                shift
                on "$sublet" run -q --name "$name" --group g --mode auto --mem 1G "$@" -- sh -c 'echo "${CUDA_MPS_PIPE_DIRECTORY:+group}"'
        }
        why() { "$sublet" events --json | jq -r 'select(.name == "MODE_CHOSEN" and .tenant == "'"$1"'").detail'; }
        [ "$(way a)" = group ]
        [[ $(why a) == "in group g: "* ]]
        [ -z "$(way b --share 20 --latency 20ms)" ]
        [[ $(why b) == "by turns"*"goal of latency"* ]]
        [ -z "$(way c --job j)" ]
        [[ $(why c) == "by turns"*job* ]]
        lodger d --group g --mode auto --class batch --mem 1G -- sleep 60
        wait_for lives d
        [ "$(of d group)" = g ] && [ "$(of d mode)" = time ]
        [ -z "$(way e --class latency)" ]
        [[ $(why e) == *"batch work"* ]]
        [ "$(way f)" = group ] # beside both
        lodger h --group g --mode auto --share 10 --latency 50ms --mem 1G -- sleep 60
        wait_for lives h
        [ "$(of h group)" = null ]
        run on "$sublet" run -q --mode auto --mem 1G -- true
        [ "$status" -ne 0 ]
        [[ $output == *"add --group NAME"* ]]
        daemon_end TERM
        PATH=$old_path daemon_start # without MPS
        [ -z "$(way i)" ]
        [[ $(why i) == *nvidia-cuda-mps-control* ]]
}

# as_user UID COMMAND...: as somebody else, who may use the machine
as_user() {
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}

# Whether user $1 may connect to the MPS control daemon of place $2
connects() {
        setpriv --reuid "$1" --regid "$1" --clear-groups /usr/bin/python3 -c \
                'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$SUBLET_DIR/mps/$2/pipe/control"
}

# Positive control: the server of mode spatial, which is everybody's.
@test "nobody but its own user connects to a group's MPS server" {
        [ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
        chmod -R a+rwX "$machine"
        chmod 755 "$SUBLET_DIR"
        setpriv --reuid 4001 --regid 4001 --clear-groups test -x "$sublet" || skip "other users cannot reach $sublet"
        as_user 4001 "$sublet" run -q --name a --group chat --mem 1G -- nvidia-cuda-mps-control client wait \
                < /dev/null > "$machine/a" 2>&1 3>&- &
        supervisors+=("$!")
        wait_for grep -q client= "$machine/a" || { cat "$machine/a"; false; } # it has connected
        connects 4001 0-1
        run ! connects 4002 0-1
        run ! setpriv --reuid 4002 --regid 4002 --groups 0 test -x "$SUBLET_DIR/mps/0-1/pipe"
        run ! setpriv --reuid 4001 --regid 4001 --clear-groups touch "$SUBLET_DIR/mps/0-1/pipe/mine"
        daemon_end TERM # and as one of an earlier release would have left it
        chmod 755 "$SUBLET_DIR/mps/0-1/pipe"
        setpriv --reuid 4002 --regid 4002 --clear-groups test -x "$SUBLET_DIR/mps/0-1/pipe"
        daemon_start
        chmod 755 "$SUBLET_DIR"
        wait_for eval '! connects 4002 0-1 2> "$machine/refused"'
        connects 4001 0-1
        "$sublet" end a
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        as_user 4001 "$sublet" run -q --name b --mode spatial --mem 1G -- nvidia-cuda-mps-control client wait \
                < /dev/null > "$machine/b" 2>&1 3>&- &
        supervisors+=("$!")
        wait_for grep -q client= "$machine/b" || { cat "$machine/b"; false; }
        connects 4002 0
}
