#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Whichever process dies, and when: no memory stays allocated, and no tenant gets an unsupervised GPU.
# waits: for processes that end
# long: because of fifty kills, one after another
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start --memory 24G
        hostile=$plain/tests/gpu/gpu-hostile
        share=$plain/tests/gpu/gpu-share
        file=$BATS_TEST_TMPDIR/handle
        before=$(free_mib)
}

teardown() {
        touch "$file.end"
        machine_end
}

child_of() { # PROCESS NAME
        local child
        # shellcheck disable=SC2013  # words are wanted
        for child in $(cat /proc/"$1"/task/*/children 2> /dev/null); do
                if [ "$(cat /proc/"$child"/comm)" = "$2" ]; then echo "$child"; else child_of "$child" "$2"; fi
        done
}

# all_back: all memory of the device is free again
all_back() {
        [ "$(free_mib)" -eq "$before" ]
}

@test "a tenant killed while it holds memory exits with 137, and all its memory is free again" {
        local code=0
        tenant_start --mem 4G -- "$share" give "$file" 2048 > /dev/null
        wait_for test -s "$file"
        [ "$(free_mib)" -le $((before - 2048)) ]
        kill -KILL "$(child_of "$supervisor" gpu-share)"
        wait "$supervisor" || code=$?
        [ "$code" -eq 137 ]
        books_are_empty
        all_back
}

@test "when one of many processes is killed, the others go on and have its memory" {
        local code=0
        tenant_start --mem 6G -- "$race" --processes 4 --seconds 3 --iterations 1000000 --max 64 > "$BATS_TEST_TMPDIR/said"
        sleep 1.5
        # shellcheck disable=SC2046
        set -- $(cat /proc/"$(child_of "$supervisor" gpu-race | head -1)"/task/*/children)
        kill -KILL "$1"
        wait "$supervisor" || code=$?
        cat "$BATS_TEST_TMPDIR/said" "$report"
        [ "$(value errors "$(cat "$BATS_TEST_TMPDIR/said")")" -eq 0 ]
        [ "$(value lost "$(cat "$BATS_TEST_TMPDIR/said")")" -eq 1 ]
        books_are_empty
        all_back
}

@test "when the supervisor is killed, the tenant's driver calls fail: it gets no free GPU" {
        local said=$BATS_TEST_TMPDIR/said
        tenant_start --mem 1G -- sh -c "'$hostile' --max 64 --hold 2; '$hostile' --max 64; echo second=\$?; echo over" > "$said"
        wait_for grep -q '^raw got_mib=64' "$said"
        kill -KILL "$supervisor"
        wait "$supervisor" || true
        wait_for grep -qx over "$said" || true # it may also have been ended
        cat "$said"
        run ! grep -q '^freed n=[1-9]' "$said"
        [ "$(grep -c '^raw got_mib=64' "$said")" -eq 1 ]
        run ! grep -q 'second=0' "$said"
        wait_for all_back
}

@test "background processes of the command end with it" {
        local left
        left=$(tenant --mem 2G -- sh -c 'setsid sleep 300 > /dev/null 2>&1 & echo $!')
        run ! kill -0 "$left" 2> /dev/null
}

@test "a daemon that the command left behind keeps no memory" {
        tenant --mem 2G -- sh -c "setsid sh -c '\"$share\" give \"$file\" 512 &' > /dev/null 2>&1; while [ ! -s '$file' ]; do sleep 0.05; done"
        books_are_empty
        all_back
        run ! pgrep -f "$file" > /dev/null
}

@test "a tenant that ends while it creates a context leaves nothing" {
        local i
        for i in 1 2 3 4 5 6 7 8; do
                timeout -s KILL "0.0$i" env SUBLET_SIM="$machine_dir" LD_PRELOAD="$machine_preload" LD_LIBRARY_PATH="$machine_libraries" \
                        "$sublet" run -q --mem 2G -- "$families" alloc 64 > /dev/null 2>&1 || true
        done
        wait_for all_back
}

@test "a tenant that exits with everything open leaves nothing" {
        tenant --mem 2G -- "$families" exit
        books_are_empty
        all_back
}

@test "sublet, ended by TERM, ends its tenant and settles the account" {
        local code=0
        tenant_start --mem 4G -- "$share" give "$file" 512 > /dev/null
        wait_for test -s "$file"
        kill -TERM "$supervisor"
        wait "$supervisor" || code=$?
        [ "$code" -eq 143 ]
        books_are_empty
        all_back
}

# Whoever looks into a process that executes another program waits for it, and a file of FUSE makes that 15 s.
@test "a killed tenant has all its memory free again while the exec of another program is held up" {
        local neighbour=$BATS_TEST_TMPDIR/neighbour other since
        [ "$(id -u)" -eq 0 ] || skip "not root: cannot mount what an exec would wait for"
        mkfifo "$neighbour.in"
        QUOTA_MIB=64 on "$plain/tests/hostile/attack-exec-midway" < "$neighbour.in" > "$neighbour" 3>&- &
        other=$!
        exec 8> "$neighbour.in"
        wait_for grep -q '^holding\|^cannot' "$neighbour"
        ! grep -q '^cannot' "$neighbour" || skip "$(cat "$neighbour")"
        since=$SECONDS before=$(free_mib)
        tenant_start --mem 4G -- "$share" give "$file" 2048 > /dev/null 8>&-
        wait_for test -s "$file"
        kill -KILL "$(child_of "$supervisor" gpu-share)"
        wait "$supervisor" || true
        [ $((SECONDS - since)) -lt 12 ] # the neighbour's exec goes on after 15 s
        books_are_empty
        all_back
        exec 8>&-
        wait "$other"
}

@test "fifty kills at random times leave nothing behind" {
        run "$BATS_TEST_DIRNAME/../kill.sh" "$build" 50
        echo "$output"
        [ "$status" -eq 0 ]
}
