#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Tenants that are suspended and resumed: their memory leaves the device and comes back as it was, whatever ends on the
# way. On the simulator, whose libcuda does what the real one's checkpoint does (docs/suspend.md).
# variants: plain address, because what runs beside the daemon is the library of the plain build
# long: because much is moved
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
# shellcheck disable=SC2154  # what machine.bash sets

kept=$plain/tests/gpu/gpu-kept
export KEPT_FILLED=8 # of 64 MiB, where moving it need not last

setup() {
        machine_start --memory 4G
}

teardown() {
        node_end
        machine_end
}

rounds() { grep -c '^round' "$machine/$1" || true; } # NAME
held_mib() { echo $(($(of "$1" held_bytes) / MIB)); } # NAME
happened() { "$sublet" events | grep -E "$1" | grep -q "${2:-}"; }
goes_on() { # NAME: it makes more rounds, and nothing differs
        local name=$1 before
        before=$(rounds "$name")
        wait_for eval '[ "$(rounds "$name")" -gt $((before + 1)) ]' || { tail -3 "$machine/$name"; return 1; }
        run ! grep -qvE '^(ready|round [0-9]+)$' "$machine/$name"
}
holder() { # NAME MIB [OPTION...]: a tenant that holds so much
        lodger "$1" "${@:3}" -- "$kept" "$2"
        wait_for grep -q '^round' "$machine/$1"
}

@test "suspending frees what a tenant holds, another can take it, and resuming brings it back as it was" {
        daemon_start --suspend-by checkpoint --overcommit
        holder one 1536 --mem 3G
        [ "$(held_mib one)" -gt 1536 ]
        run -0 "$sublet" suspend one
        [ "$output" = "one: suspended" ]
        [ "$(held_mib one)" -lt 1024 ] # its contexts
        [ "$(of one state) $(of one suspended)" = "suspended true" ]
        "$sublet" ps | grep -qE '^one .* suspended '
        curl -s --unix-socket "$SUBLET_DIR/sublet.sock" http://x/metrics | grep -qE '^sublet_tenant_suspended\{.*tenant="one".*\} 1$'

        holder two 1536 --mem 3G
        "$sublet" end two
        wait_for eval '[ "$("$sublet" ps -q)" = one ]'
        local before
        before=$(rounds one)
        sleep 0.3
        [ "$(rounds one)" = "$before" ] # its calls wait

        run -0 "$sublet" resume one
        [ "$output" = "one: running" ]
        [ "$(held_mib one)" -gt 1536 ]
        goes_on one
        happened SUSPENDED 'GiB in' && happened RESUMED 'GiB in'
}

@test "twice is once, in both directions, and asking has no event" {
        daemon_start --suspend-by checkpoint
        holder one 128 --mem 2G
        "$sublet" resume one # runs already
        "$sublet" suspend one
        "$sublet" suspend one
        [ "$(of one state)" = suspended ]
        "$sublet" resume one
        "$sublet" resume one
        goes_on one
        [ "$("$sublet" events | grep -c 'SUSPENDED')" = 1 ]
        [ "$("$sublet" events | grep -c 'RESUMED')" = 1 ]
}

@test "a daemon that is killed leaves it suspended, and the next one brings it back" {
        daemon_start --suspend-by checkpoint
        holder one 256 --mem 2G
        "$sublet" suspend one
        daemon_end KILL
        sleep 1 # longer than a daemon may be silent
        daemon_start --suspend-by checkpoint
        wait_for eval '[ "$(of one state)" = suspended ]'
        "$sublet" resume one
        goes_on one
}

gib_hours() { "$sublet" usage --json "$1" | jq ".[0].$2"; } # NAME FIELD

@test "what is in host memory is told, counted apart, known to the next daemon, and gone when it is resumed" {
        local held swapped before line
        daemon_start --suspend-by checkpoint
        holder one 1024 --mem 3G
        [ "$(of one swapped_bytes)" = 0 ]
        run ! grep -q SWAPPED <("$sublet" ps)
        held=$(of one held_bytes)
        "$sublet" suspend one
        swapped=$(of one swapped_bytes)
        [ "$swapped" = $((held - $(of one held_bytes))) ]
        [ "$swapped" -ge $((1024 * MIB)) ]
        [ "$("$sublet" inspect --json one | jq .swapped_bytes)" = "$swapped" ]
        "$sublet" ps | grep -q SWAPPED
        "$sublet" inspect one | grep -qE '^  swapped    1(\.[0-9]+)? GiB, in host memory'
        line=$(curl -s --unix-socket "$SUBLET_DIR/sublet.sock" http://x/metrics | grep '^sublet_tenant_memory_swapped_bytes{')
        [[ $line == *'tenant="one"'*'device="0"'*'} '$swapped ]]
        wait_for eval '[ "$(gib_hours one "host_gib_hours > 0")" = true ]'
        "$sublet" usage | grep -q HOST-GIB-HOURS

        daemon_end KILL
        sleep 1
        daemon_start --suspend-by checkpoint
        wait_for eval '[ "$(of one state)" = suspended ]'
        [ "$(of one swapped_bytes)" = "$swapped" ]
        "$sublet" resume one
        [ "$(of one swapped_bytes)" = 0 ]
        run ! grep -q SWAPPED <("$sublet" ps)
        # 1 GiB for a second is 0.00028 GiB-hours: none are added in these.
        sleep 1.2
        before=$(gib_hours one host_gib_hours)
        sleep 1.5
        [ "$(gib_hours one host_gib_hours)" = "$before" ]
        "$sublet" suspend one
        "$sublet" end one
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        run ! grep -q 'memory_swapped_bytes{' <(curl -s --unix-socket "$SUBLET_DIR/sublet.sock" http://x/metrics)
}

@test "a suspended program that is killed has nothing in host memory any more" {
        local process swapped left
        daemon_start --suspend-by checkpoint
        # shellcheck disable=SC2016
        lodger pair --mem 3G -- sh -c '"$0" 64 > "$1.a" & "$0" 512 > "$1.b" & echo $! > "$1.id"; wait' "$kept" "$machine/pair"
        wait_for eval 'grep -q ^round "$machine/pair.a" && grep -q ^round "$machine/pair.b"'
        "$sublet" suspend pair
        swapped=$(of pair swapped_bytes)
        process=$(< "$machine/pair.id")
        kill -KILL "$process"
        wait_for eval '[ "$(of pair swapped_bytes)" -le $((swapped - 512 * MIB)) ]'
        left=$(of pair swapped_bytes)
        [ "$left" -ge $((64 * MIB)) ] || { echo "$left bytes are left of $swapped"; "$sublet" ps; return 1; }
        "$sublet" resume pair
        goes_on pair.a
}

@test "a daemon that is killed on the way: the next one brings the tenant back to running" {
        KEPT_FILLED=64
        daemon_start --suspend-by checkpoint
        holder one 1024 --mem 3G
        for i in 1 2 3; do
                "$sublet" suspend one > /dev/null 2>&1 &
                sleep 0.0$((3 * i))
                daemon_end KILL
                wait "$!" || true
                daemon_start --suspend-by checkpoint
                wait_for eval '[[ "$(of one state)" == running || "$(of one state)" == suspended ]]'
                "$sublet" resume one
                goes_on one
        done
}

@test "a suspended tenant that ends frees all" {
        local before
        daemon_start --suspend-by checkpoint
        before=$(free_mib)
        holder one 256 --mem 2G
        "$sublet" suspend one
        "$sublet" end one
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        [ "$(free_mib)" = "$before" ]
        run ! happened 'BOOKS_NOT_EMPTY|AUDIT_MISMATCH'
}

@test "without room it stays suspended with its contents, and comes back when there is room" {
        daemon_start --suspend-by checkpoint --overcommit
        holder one 1536 --mem 3G
        "$sublet" suspend one
        holder two 1536 --mem 3G
        run -1 "$sublet" resume one
        [[ $output == *"'one' is suspended: "*OUT_OF_MEMORY* ]]
        [ "$(of one state)" = suspended ]
        happened RESUME_FAILED OUT_OF_MEMORY
        "$sublet" end two
        wait_for eval '[ "$("$sublet" ps -q)" = one ]'
        "$sublet" resume one
        goes_on one
}

@test "what the driver cannot suspend is refused with its reason, and runs on" {
        daemon_start --suspend-by checkpoint
        lodger shared --mem 2G -- "$kept" 64 SHARED
        wait_for grep -q '^round' "$machine/shared"
        run -1 "$sublet" suspend shared
        [[ $output == *"'shared' is running: process "*CUDA_ERROR_NOT_SUPPORTED* ]]
        goes_on shared
        happened SUSPEND_FAILED NOT_SUPPORTED

        lodger none --mem 1G -- sleep 60
        wait_for eval '[ "$(of none state)" = running ]'
        run -1 "$sublet" suspend none
        [[ $output == *"'none' is running: no process of it holds memory of a device"* ]]
}

@test "of several processes all are suspended, or none" {
        daemon_start --suspend-by checkpoint
        # shellcheck disable=SC2016 # for the inner shell
        lodger both --mem 3G -- sh -c '"$0" 64 > "$1.a" & "$0" 64 SHARED > "$1.b" & wait' "$kept" "$machine/both"
        wait_for grep -q '^round' "$machine/both.a" "$machine/both.b"
        wait_for grep -q '^round' "$machine/both.b"
        run -1 "$sublet" suspend both
        goes_on both.a
        goes_on both.b
        "$sublet" end both
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        # shellcheck disable=SC2016
        lodger pair --mem 3G -- sh -c '"$0" 64 > "$1.a" & "$0" 64 > "$1.b" & wait' "$kept" "$machine/pair"
        wait_for eval 'grep -q ^round "$machine/pair.a" && grep -q ^round "$machine/pair.b"'
        run -0 "$sublet" suspend pair
        run -0 "$sublet" resume pair
        goes_on pair.a
        goes_on pair.b
}

@test "a killed helper: the tenant is brought back to running" {
        KEPT_FILLED=64
        daemon_start --suspend-by checkpoint
        holder one 1536 --mem 3G
        "$sublet" suspend one > "$machine/asked" 2>&1 &
        local asked=$! helper
        pause_most=20 wait_for pgrep -P "$daemon" -f 'sublet checkpoint' # it does not live long
        helper=$(pgrep -P "$daemon" -f 'sublet checkpoint')
        kill -KILL "$helper"
        wait "$asked" || grep -q "'one' is running: the helper ended" "$machine/asked"
        wait_for eval '[[ "$(of one state)" == running || "$(of one state)" == suspended ]]'
        "$sublet" resume one
        goes_on one
}

# pair NAME MIB [OPTION...]: NAME.a holds so much from the start, NAME.b takes 64 MiB once there is a file NAME.go
pair() {
        # shellcheck disable=SC2016 # for the inner shell
        lodger "$1" "${@:3}" -- sh -c \
                '"$0" "$2" > "$1.a" & until [ -e "$1.go" ]; do sleep 0.05; done; "$0" 64 > "$1.b" & wait' "$kept" "$machine/$1" "$2"
        wait_for grep -q '^round' "$machine/$1.a"
}

@test "a program that begins in a suspended tenant waits for its memory, and wakes it" {
        daemon_start --suspend-by checkpoint
        pair two 256 --mem 3G
        "$sublet" suspend two
        touch "$machine/two.go"
        wait_for eval '[ "$(of two state)" = running ]'
        goes_on two.a
        goes_on two.b
        happened RESUMED 'in .* for a driver call of process [0-9]'
        [ "$("$sublet" events | grep -c 'RESUMED')" = 1 ]
}

@test "a program that only asks does not wake a suspended tenant" {
        daemon_start --suspend-by checkpoint
        # shellcheck disable=SC2016
        lodger one --mem 2G -- sh -c \
                '"$0" 64 > "$1.a" & until [ -e "$1.go" ]; do sleep 0.05; done; "$2" > "$1.smi"; echo "$?" > "$1.rc"; wait' \
                "$kept" "$machine/one" "$plain/src/sim/nvml/nvidia-smi"
        wait_for grep -q '^round' "$machine/one.a"
        "$sublet" suspend one
        touch "$machine/one.go"
        wait_for [ -s "$machine/one.rc" ]
        [ "$(cat "$machine/one.rc")" = 0 ] || { cat "$machine/one.smi"; return 1; }
        sleep 0.3
        [ "$(of one state)" = suspended ]
}

@test "a call that waits for a tenant without room waits on, others go on, and it is woken when there is room" {
        daemon_start --suspend-by checkpoint --overcommit
        pair two 1536 --mem 3G
        "$sublet" suspend two
        holder other 1536 --mem 3G
        touch "$machine/two.go"
        wait_for happened RESUME_FAILED OUT_OF_MEMORY
        [ "$(of two state)" = suspended ]
        goes_on other
        [ ! -s "$machine/two.b" ]
        "$sublet" end other
        wait_for eval '[ "$(of two state)" = running ]'
        goes_on two.a
        goes_on two.b
}

@test "a call that waits outlives the daemon, and the next one wakes its tenant" {
        daemon_start --suspend-by checkpoint
        pair two 256 --mem 3G
        "$sublet" suspend two
        daemon_end KILL
        touch "$machine/two.go"
        sleep 1
        [ ! -s "$machine/two.b" ]
        daemon_start --suspend-by checkpoint
        wait_for eval '[ "$(of two state)" = running ]'
        goes_on two.a
        goes_on two.b
}

@test "a number that is another process's by now is neither suspended nor resumed" {
        local process began before
        daemon_start --suspend-by checkpoint
        holder one 256 --mem 2G
        process=$(with_children "$supervisor" | while read -r p; do [ "$(< "/proc/$p/comm")" != gpu-kept ] || echo "$p"; done)
        began=$(awk '{ print $22 }' "/proc/$process/stat")
        on "$sublet" checkpoint suspend "$process:$((began + 1))"
        goes_on one
        on "$sublet" checkpoint suspend "$process:$began"
        before=$(rounds one)
        on "$sublet" checkpoint resume "$process:$((began + 1))"
        sleep 0.3
        [ "$(rounds one)" = "$before" ]
        on "$sublet" checkpoint resume "$process:$began"
        goes_on one
        run -2 "$sublet" checkpoint suspend "$process"
        before=$(held_mib one)
        "$sublet" suspend one # the daemon knows when its processes began
        [ "$(held_mib one)" -le $((before - 256)) ]
        "$sublet" resume one
        goes_on one
}

# fed NAME [OPTION...]: a tenant that holds 256 MiB and makes a round for each line that it gets (feed NAME)
fed() {
        mkfifo "$machine/$1.lines"
        # shellcheck disable=SC2016
        lodger "$1" --mem 2G "${@:2}" -- sh -c 'exec "$0" 256 FED < "$1"' "$kept" "$machine/$1.lines"
        exec {line}> "$machine/$1.lines"
        echo >&"$line"
        wait_for grep -q '^round 1$' "$machine/$1"
}
feed() { echo >&"$line"; }
vow() { curl -sf --unix-socket "$SUBLET_DIR/sublet.sock" -d "{\"tenants\":[\"$1\",\"nobody\"]}" http://x/v1/wakers; }

@test "who is idle is suspended if somebody has said that it wakes it, and only then" {
        daemon_start --suspend-by checkpoint
        fed one --sleep-after 1s
        sleep 2.5
        [ "$(of one state) $(of one has_waker)" = "running false" ]
        "$sublet" inspect one | grep -q 'after 1 s idle; not now: nobody has said'
        [ "$(vow one | jq -c '[.tenants, .seconds]')" = '[1,10]' ]
        wait_for eval '[ "$(of one state)" = suspended ]'
        happened SUSPENDED 'idle for'
        feed # it cannot know
        sleep 0.5
        [ "$(rounds one)" = 1 ]
        "$sublet" resume one
        wait_for grep -q '^round 2$' "$machine/one"

        run -0 "$sublet" set one sleep-after=none
        [ "$output" = "one: sleep-after 1 s -> none" ]
        vow one
        sleep 4
        [ "$(of one state)" = running ]
        exec {line}>&-
}

@test "who was put to sleep is woken when nobody is left who would, also by the next daemon" {
        local other
        daemon_start --suspend-by checkpoint
        fed two --sleep-after 1s
        other=$line
        fed one --sleep-after 1s
        vow two
        vow one
        wait_for eval '[ "$(of two state)" = suspended ]'
        "$sublet" suspend two # its user wants it so, too: it stays
        wait_for eval '[ "$(of one state)" = suspended ]'
        daemon_end KILL
        daemon_start --suspend-by checkpoint
        wait_for eval '[ "$(of one state)" = suspended ]'
        wait_for eval '[ "$(of one state)" = running ]'
        happened RESUMED 'nobody is there any more'
        sleep 0.5
        [ "$(of two state)" = suspended ]
        feed
        wait_for grep -q '^round 2$' "$machine/one"
        exec {line}>&- {other}>&-
}

@test "what cannot sleep by itself is refused a time for it" {
        daemon_start --suspend-by checkpoint
        run ! lodger one --sleep-after 30s --job j --mem 1G -- true
        [[ $output == *"no sleep-after with --job"* ]]
        run "$sublet" run --sleep-after 10ms true
        one_line_and_2 'from 1s to 7d'
        run "$sublet" run --no-daemon --sleep-after 30s true
        [[ $output == *"need the daemon"* ]]
        run curl -s --unix-socket "$SUBLET_DIR/sublet.sock" -d '{"tenants":"one"}' http://x/v1/wakers
        [[ $output == *"the body must be"* ]]
        run curl -s --unix-socket "$SUBLET_DIR/sublet.sock" -d "$(jq -nc '{tenants: [range(1025) | "x"]}')" http://x/v1/wakers
        [[ $output == *"more than 1024 tenants"* ]]
}

@test "bad use, an unknown tenant, and a body that asks for two things" {
        run "$sublet" suspend
        one_line_and_2 'which tenant'
        run "$sublet" resume --nonsense
        one_line_and_2 ''
        daemon_start --suspend-by checkpoint
        run -1 "$sublet" suspend nobody
        [[ $output == *"there is no tenant 'nobody'"* ]]
        holder one 64 --mem 1G
        for body in '{"suspended":1}' '{"suspended":true,"mem":"2G"}'; do
                run curl -s --unix-socket "$SUBLET_DIR/sublet.sock" -X PATCH -d "$body" http://x/v1/tenants/one
                [[ $output == *"suspended: true or false, and nothing else"* ]]
        done
        run -0 curl -s --unix-socket "$SUBLET_DIR/sublet.sock" -X PATCH -d '{"suspended":true}' http://x/v1/tenants/one
        [ "$(jq -r '.state' <<< "$output")" = suspended ]
}
