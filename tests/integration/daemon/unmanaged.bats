#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Who is on a device and no tenant is found, and reported or ended as the operator has said.
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 24G
        node=$sublet sublet=$plain/src/sublet # what goes into programs is not built with a sanitizer; daemon and shims are
        native=''
}

teardown() {
        [ -z "$native" ] || kill -9 "$native" 2> /dev/null || true
        node_end
        machine_end
}

# beside: a program with a context, in the background, that nobody leased anything to: $native
beside() {
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$load_program" -t 300 sync < /dev/null > /dev/null 2>&1 3>&- &
        native=$!
}

# computes TENANT: its program has a context on the device
computes() { [ "$(of "$1" held_bytes)" -gt 0 ]; }

says() { "$sublet" events "${@:2}" | grep -q "$1"; }
told() { "$sublet" events | grep -c "$1"; }

@test "a program beside sublet is reported once, and goes on" {
        sublet=$node daemon_start
        lodger chat --mem 2G -- "$load_program" -t 300 sync
        lodger inside --preload --attach=never --mem 2G -- "$load_program" -t 300 sync
        lodger below --preload --mem 2G -- "$load_program" -t 300 sync
        for tenant in chat inside below; do wait_for computes "$tenant"; done
        beside
        wait_for says "STRANGER.*process $native,"
        sleep 2.5
        [ "$(told STRANGER)" -eq 1 ] # tenants are none, of whatever plane
        [ "$(told LIBRARY_NOT_LOADED)" -eq 0 ]
        kill -0 "$native"
}

@test "with --strangers=stop it is ended, and tenants are not" {
        sublet=$node daemon_start --strangers=stop
        lodger chat --mem 2G -- "$load_program" -t 300 sync
        lodger inside --preload --attach=never --mem 2G -- "$load_program" -t 300 sync
        for tenant in chat inside; do wait_for computes "$tenant"; done
        beside
        wait_for says "STRANGER.*it was ended"
        wait_for eval '! kill -0 "$native"'
        sleep 1.5
        [ "$("$sublet" ps -q | sort | tr '\n' ' ')" = "chat inside " ]
}

@test "a tenant's program that never loaded the library is found as that tenant's" {
        sublet=$node daemon_start --strangers=stop
        lodger inside --preload --attach=never --mem 2G -- \
                env LD_PRELOAD="$machine_preload" "$load_program" -t 300 sync || true # it may be ended before it was listed
        wait_for says "LIBRARY_NOT_LOADED.*it was ended" inside
        [ "$(told STRANGER)" -eq 0 ]
        "$sublet" explain LIBRARY_NOT_LOADED | grep -q -- --attach=required
}

@test "memory that no book and no listed program explains is an event, and memory of a listed one is none" {
        sublet=$node daemon_start
        lodger chat --mem 4G -- "$plain/tests/gpu/gpu-share" give "$machine/chat-memory" 2048
        wait_for computes chat
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$plain/tests/gpu/gpu-share" give "$machine/memory" 3072 < /dev/null > /dev/null 2>&1 3>&- &
        native=$!
        wait_for says "STRANGER.*process $native,"
        sleep 4.5 # longer than a finding takes
        [ "$(told UNEXPLAINED_MEMORY)" -eq 0 ]
        kill -9 "$native"
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$raw" --max 3072 --hold 60 < /dev/null > /dev/null 2>&1 3>&- & # no context: NVML does not list it
        native=$!
        wait_for says "UNEXPLAINED_MEMORY"
        [ "$(curl -sS --max-time 10 --unix-socket "$SUBLET_DIR/sublet.sock" http://sublet/v1/devices |
                jq '.[0].unexplained_bytes / 1048576 | floor')" -ge 3000 ]
        sleep 2.5
        [ "$(told UNEXPLAINED_MEMORY)" -eq 1 ]
}

@test "with a group's MPS server on the device memory is compared all the same, and the server's is explained" {
        export PATH=$BATS_TEST_DIRNAME/../../fakes/mps:$PATH # it lends from 66 MiB, and has no context
        sublet=$node daemon_start
        lodger chat --group chat --mem 4G -- nvidia-cuda-mps-control client wait
        wait_for grep -q client= "$machine/chat"
        sleep 4.5
        [ "$(told UNEXPLAINED_MEMORY)" -eq 0 ]
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$raw" --max 3072 --hold 60 < /dev/null > /dev/null 2>&1 3>&- &
        native=$!
        wait_for says "UNEXPLAINED_MEMORY"
}

@test "what --strangers takes is report and stop" {
        run "$sublet" daemon --strangers=shoot
        one_line_and_2 "report or stop" || [[ $output == *"report or stop"* && $status -eq 2 ]]
}
