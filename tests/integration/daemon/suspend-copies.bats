#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Tenants that are suspended by their gate's own copies: what they hold leaves the device by a copy engine and comes
# back by it, whatever fails on the way. On the simulator (docs/suspend.md).
# variants: plain address, because what runs beside the daemon is the library of the plain build
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
# shellcheck disable=SC2154  # what machine.bash sets

swapped=$plain/tests/gpu/gpu-swapped

setup() {
        machine_start --memory 4G
}

teardown() {
        [ -z "${feed:-}" ] || exec {feed}>&- || true
        node_end
        machine_end
}

looks() { grep -c '^look' "$machine/$1" || true; } # NAME
held_mib() { echo $(($(of "$1" held_bytes) / MIB)); } # NAME
happened() { "$sublet" events | grep -E "$1" | grep -q "${2:-}"; }
fault() { "$sublet" sim --dir "$machine_dir" --fault "$1"; } # NAME=VALUE
# fed NAME N MIB HOW [OPTION...]: a tenant with N pieces of MIB; it compares all of them for each line of $feed
fed() {
        feed_file=$machine/feed.$1
        mkfifo "$feed_file"
        exec {feed}<> "$feed_file"
        lodger "$1" "${@:5}" -- sh -c 'exec "$0" "$1" "$2" "$3" < "$4"' "$swapped" "$2" "$3" "$4" "$feed_file"
        wait_for grep -q '^ready' "$machine/$1" || { cat "$machine/$1"; return 1; }
}
look() { # NAME [LINE]: it compares all that it holds, and nothing differs
        local name=$1 before
        before=$(looks "$name")
        echo "${2:-}" >&"$feed"
        wait_for eval '[ "$(looks "$name")" -gt "$before" ]' || { cat "$machine/$name"; return 1; }
        is_right "$name"
}
is_right() { run ! grep -qvE '^(ready|look wrong=0 ms=[0-9.]+)$' "$machine/$1"; } # NAME

@test "what a tenant holds leaves the device by copies and comes back as it was, however it was allocated" {
        local how full
        daemon_start --suspend-by copies
        for how in alloc pool vmm; do
                fed "$how" 6 8 "$how" --mem 2G
                full=$(held_mib "$how")
                "$sublet" suspend "$how"
                [ "$(held_mib "$how")" -le $((full - 48)) ]
                [ "$(of "$how" state) $(of "$how" suspended)" = "suspended true" ]
                [ "$(of "$how" swapped_bytes)" -ge $((48 * MIB)) ]
                "$sublet" resume "$how"
                [ "$(held_mib "$how")" = "$full" ]
                [ "$(of "$how" swapped_bytes)" = 0 ]
                look "$how"
                "$sublet" suspend "$how"
                "$sublet" resume "$how"
                look "$how"
                "$sublet" end "$how"
                exec {feed}>&-
                wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        done
        happened SUSPENDED 'by user 0; copies: ' && happened RESUMED 'copies: .* pieces in '
        run ! happened 'UNKNOWN_|AUDIT_|BOOKS_|FAILED|LOST'
}

@test "a thousand pieces move, another tenant has their room meanwhile, and never their contents" {
        daemon_start --suspend-by copies --overcommit
        fed many 1000 1 alloc --mem 3G
        "$sublet" suspend many
        [ "$(held_mib many)" -lt 100 ]
        lodger other --mem 3G -- "$plain/tests/gpu/gpu-kept" 1536
        wait_for grep -q '^round' "$machine/other"
        "$sublet" end other
        wait_for eval '[ "$("$sublet" ps -q)" = many ]'
        "$sublet" resume many
        look many
        run ! happened 'AUDIT_|BOOKS_|FAILED|LOST'
}

@test "memory with addresses in an NVLink fabric moves with them" {
        machine_end
        machine_start --gpus 2 --nvlink --memory 2G
        daemon_start --suspend-by copies
        fed one 2 512 alloc --gpus 0 --mem 1700M --record "$machine/record" # for whole 512 MiB libcuda makes them
        grep -q 'ALLOC 0xf8 .* made' "$machine/record"
        "$sublet" suspend one
        [ "$(held_mib one)" -lt 100 ]
        "$sublet" resume one
        look one
        run ! happened 'AUDIT_|BOOKS_|FAILED|LOST'
}

@test "managed memory leaves the device beside what copies move, and every word is as it was" {
        local full free
        daemon_start --suspend-by copies
        fed one 8 16 managed --mem 2G # four of them are managed
        full=$(held_mib one)
        free=$(free_mib)
        "$sublet" suspend one
        [ "$(held_mib one)" -le $((full - 128)) ]
        [ "$(of one swapped_bytes)" -ge $((128 * MIB)) ]
        [ $(($(free_mib) - free)) -ge $((full - $(held_mib one) - 16)) ] # the device has it, too
        happened SUSPENDED 'by user 0; copies: '
        "$sublet" resume one
        [ "$(held_mib one)" = "$full" ]
        [ "$(of one swapped_bytes)" = 0 ]
        look one
        "$sublet" suspend one # some of it is in the host already
        look one
        [ "$(of one state)" = running ]
        happened RESUMED 'for work that it has put'
        run ! happened 'UNKNOWN_|AUDIT_|BOOKS_|FAILED|LOST'
}

@test "managed memory of several processes of a tenant leaves the device, one of which has ended" {
        local full
        daemon_start --suspend-by copies
        mkfifo "$machine/feed.one"
        exec {feed}<> "$machine/feed.one"
        # shellcheck disable=SC2016
        lodger one --mem 3G -- sh -c '"$0" 4 32 managed < /dev/null; (sleep 1000 | exec "$0" 4 32 managed) &
                exec "$0" 4 32 managed < "$1"' "$swapped" "$machine/feed.one"
        wait_for eval '[ "$(grep -c "^ready" "$machine/one")" = 3 ]' || { cat "$machine/one"; false; }
        full=$(held_mib one)
        "$sublet" suspend one
        [ "$(held_mib one)" -le $((full - 256)) ]
        "$sublet" resume one
        look one
        run ! happened 'AUDIT_|BOOKS_|FAILED|LOST'
}

@test "a migration that fails half way leaves the tenant as it was, and the next time it goes" {
        local full fault
        daemon_start --suspend-by copies
        fed one 6 16 managed --mem 2G
        full=$(held_mib one)
        for fault in migrate-refused-at=1 migrate-refused-at=3; do
                fault "$fault"
                run ! "$sublet" suspend one
                [ "$(of one state) $(held_mib one)" = "running $full" ]
                happened SUSPEND_FAILED 'moving managed memory at 0x[0-9a-f]*: status 0x51'
                look one
        done
        "$sublet" suspend one
        look one
        run ! happened 'AUDIT_|BOOKS_|LOST'
}

@test "a call that would bring managed memory to the device waits and wakes the tenant" {
        local full
        daemon_start --suspend-by copies
        fed one 6 16 managed --mem 2G
        full=$(held_mib one)
        "$sublet" suspend one
        sleep 0.5
        [ "$(of one state)" = suspended ]
        look one prefetch
        [ "$(of one state) $(held_mib one)" = "running $full" ]
        run ! happened RESUMED 'for work that it has put' # the call came first
        run ! happened 'AUDIT_|BOOKS_|FAILED|LOST'
}

@test "work that a program puts while it is away wakes it, and waits until all is back" {
        daemon_start --suspend-by copies
        fed one 4 8 alloc --mem 2G
        "$sublet" suspend one
        sleep 0.5
        [ "$(of one state)" = suspended ] # it does nothing
        look one
        [ "$(of one state)" = running ]
        happened RESUMED 'for work that it has put'
}

@test "who is idle is put to sleep although nobody has said that it would wake it, and wakes by its work" {
        daemon_start --suspend-by copies
        fed one 4 8 alloc --mem 2G --sleep-after 1s
        wait_for eval '[ "$(of one state)" = suspended ]'
        happened SUSPENDED 'idle for'
        sleep 1
        [ "$(of one state)" = suspended ]
        look one
        happened RESUMED 'for work that it has put'
}

@test "a busy tenant with --swap that its user suspends stays out until somebody resumes it" {
        daemon_start --suspend-by copies --swap 4G
        fed one 4 8 alloc --mem 2G --swap
        "$sublet" suspend one
        echo >&"$feed"
        sleep 1
        [ "$(of one state) $(looks one)" = "suspended 0" ]
        "$sublet" resume one
        wait_for eval '[ "$(looks one)" = 1 ]'
        is_right one
        look one
}

@test "managed memory that is mapped while the rest is away waits for that, and for room in the quota" {
        daemon_start --suspend-by copies
        QUOTA_MIB=1500 on "$sublet" run -q --name one --mem 1500M --sleep-after 1s -- "$plain/tests/hostile/attack-managed-asleep" \
                < <(sleep 60) > "$machine/one" 2>&1 3>&- &
        wait_for happened SUSPENDED || { cat "$machine/one"; "$sublet" events; return 1; }
        wait_for grep -q '^holding' "$machine/one"
        cat "$machine/one"
        [ "$(sed -n 's/^holding mib=//p' "$machine/one")" -le 1500 ]
        [ "$(held_mib one)" -le 1500 ]
        [ "$("$sublet" events | grep -c ' RESUMED')" -ge 2 ] # for the mappings
        "$sublet" end one
}

@test "what a tenant may have in host memory bounds it: more is not suspended, and nothing is lost" {
        daemon_start --suspend-by copies --swap 8G
        fed one 8 32 alloc --mem 2G --host-swap 100M --sleep-after 1s
        [ "$(of one host_swap_bytes)" = $((100 * MIB)) ]
        wait_for eval 'happened NOT_PUT_TO_SLEEP "may have 100 MiB in host memory"'
        run -1 "$sublet" suspend one
        [[ $output == *"'one' holds "*", and may have 100 MiB in host memory (--host-swap): give it more ('sublet set one host-swap=SIZE')"* ]]
        [ "$(of one state) $(of one swapped_bytes) $(of one ready_bytes)" = "running 0 0" ]
        look one
        daemon_end TERM
        daemon_start --suspend-by copies # the next daemon has it from the shim, and no bound for all
        wait_for eval '[ "$(of one state)" = running ]'
        run -1 "$sublet" suspend one
        [[ $output == *"--host-swap"* ]]
        run -0 "$sublet" set one host-swap=1G sleep-after=none
        [[ $output == *"host-swap 100 MiB -> 1 GiB"* ]]
        "$sublet" suspend one
        [ "$(of one state)" = suspended ]
        "$sublet" resume one
        look one
        "$sublet" set one host-swap=100M
        run -1 "$sublet" suspend one
        "$sublet" set one host-swap=none
        [ "$(of one host_swap_bytes)" = null ]
        "$sublet" suspend one
        look one
        run ! happened 'AUDIT_|BOOKS_|FAILED|LOST'
}

@test "who leaves for others leaves with all that it has: --swap with less host memory than quota is refused" {
        daemon_start --suspend-by copies --swap 8G
        run -2 on "$sublet" run --swap --mem 2G --host-swap 1G -- true
        [[ $output == *"of 2 GiB it may not have 1 GiB only in host memory (host-swap)"* ]]
        fed one 1 8 alloc --swap --mem 1G --host-swap 1G
        run -1 "$sublet" set one host-swap=512M
        run -1 "$sublet" set one mem=1500M
        "$sublet" set one host-swap=2G mem=1500M
        run -2 "$sublet" set one host-swap=8
        run -2 on "$sublet" run --no-daemon --host-swap 1G -- true
        [[ $output == *"need the daemon"* ]]
}

@test "a driver call that needs what is away waits and wakes the tenant, and does not fail" {
        daemon_start --suspend-by copies
        mkfifo "$machine/feed.kept"
        exec {feed}<> "$machine/feed.kept"
        # it allocates in each round; its first call after a line reads what is away
        lodger kept --mem 2G -- sh -c 'exec "$0" 64 FED < "$1"' "$plain/tests/gpu/gpu-kept" "$machine/feed.kept"
        wait_for grep -q '^ready' "$machine/kept"
        for round in 1 2 3; do
                "$sublet" suspend kept
                echo >&"$feed"
                wait_for eval '[ "$(grep -c "^round" "$machine/kept")" = "$round" ]' || { cat "$machine/kept"; false; }
        done
        run ! grep -qvE '^(ready|round [0-9]+)$' "$machine/kept"
        [ "$(of kept state)" = running ]
}

@test "what fails on the way out leaves the tenant as it was, and the next time it goes" {
        local kind
        daemon_start --suspend-by copies
        fed one 6 8 alloc --mem 2G
        for kind in copy-fault-at=3 map-refused-at=1 map-refused-at=4 pin-refused-at=1 oom-at=1; do
                fault "$kind"
                run ! "$sublet" suspend one
                [ "$(of one state)" = running ]
                look one
        done
        [ "$("$sublet" events | grep -c SUSPEND_FAILED)" = 5 ]
        "$sublet" suspend one
        "$sublet" resume one
        look one
        run ! happened 'AUDIT_|BOOKS_|LOST'
}

# Of its 20 memories each has a second handle while it is copied: the first 20 frees of the way out are those.
@test "what cannot be unmapped or freed on the way out is whole, and no handle of ours keeps what has left" {
        local kind empty
        daemon_start --suspend-by copies --swap 2G
        empty=$(free_mib)
        fed one 6 32 alloc --mem 2G --swap
        for kind in unmap-refused-at=1 unmap-refused-at=7 free-refused-at=1 free-refused-at=9 free-refused-at=30; do
                fault "$kind"
                run ! "$sublet" suspend one
                [ "$(of one state)" = running ]
                look one
        done
        [ "$("$sublet" events | grep -c SUSPEND_FAILED)" = 5 ]
        "$sublet" suspend one
        [ "$(free_mib)" -ge $((empty - 64)) ]
        fault free-refused-at=1 # of ours, when all is back
        "$sublet" resume one
        look one
        "$sublet" suspend one
        [ "$(free_mib)" -ge $((empty - 64)) ]
        "$sublet" resume one
        look one
        run ! happened 'AUDIT_|BOOKS_|LOST'
}

@test "what fails on the way back leaves the tenant suspended with all that it had, and the next time it comes" {
        local kind away
        daemon_start --suspend-by copies
        fed one 6 8 alloc --mem 2G
        "$sublet" suspend one
        away=$(of one swapped_bytes)
        for kind in copy-fault-at=2 map-refused-at=5 map-refused-at=20 oom-at=1 oom-at=4; do
                fault "$kind"
                run ! "$sublet" resume one
                [ "$(of one state)" = suspended ]
                [ "$(of one swapped_bytes)" = "$away" ]
        done
        [ "$("$sublet" events | grep -c RESUME_FAILED)" = 5 ]
        "$sublet" resume one
        look one
        run ! happened 'AUDIT_|BOOKS_|LOST'
}

@test "a daemon that is killed leaves it suspended, and the next one brings it back" {
        daemon_start --suspend-by copies
        fed one 4 8 alloc --mem 2G
        "$sublet" suspend one
        daemon_end KILL
        sleep 1 # longer than a daemon may be silent
        daemon_start # whatever it is told
        wait_for eval '[ "$(of one state)" = suspended ]'
        "$sublet" resume one
        look one
        daemon_end TERM
        daemon_start --suspend-by copies
        wait_for eval '[ "$(of one state)" = running ]' # its shim is back
        "$sublet" suspend one
        daemon_end TERM # one that ends in good order lets nobody run either
        daemon_start --suspend-by copies
        wait_for eval '[ "$(of one state)" = suspended ]'
        look one
}

@test "a tenant runs again beside a busy one however many daemons there were while it was away" {
        local i
        daemon_start --suspend-by copies
        fed one 4 8 alloc --mem 1G
        lodger busy --mem 1G -- "$load_program" -t 300 deep
        "$sublet" suspend one
        for i in 1 2 3; do
                daemon_end KILL
                sleep 1
                daemon_start --suspend-by copies
                wait_for eval '[ "$(of one state) $(of busy state)" = "suspended running" ]'
        done
        "$sublet" resume one
        look one
        look one
        [ "$(of busy state)" = running ]
}

rss_mib() { echo $(($(awk '/^VmRSS/ { print $2 }' "/proc/$(of "$1" "keeper")/status") / 1024)); } # NAME: its shim's
is_ready() { [ "$(rss_mib "$1")" -ge "$2" ]; } # NAME MIB

@test "host memory is ready before a tenant with --swap leaves, is kept while it runs, and bounded by --swap" {
        daemon_start --suspend-by copies --swap 1G
        fed one 6 64 alloc --mem 1G --swap
        wait_for is_ready one 800 # all that it holds, with what the driver took
        "$sublet" suspend one
        "$sublet" resume one
        look one
        is_ready one 800
        [ "$(of one ready_bytes)" -ge $((800 * MIB)) ]
        # shellcheck disable=SC2016
        lodger other --mem 1G -- sh -c 'sleep 100 | "$0" 4 64' "$swapped"
        wait_for grep -q '^ready' "$machine/other"
        sleep 2
        run ! is_ready other 500 # nobody expects it to leave
        "$sublet" suspend other # and then the other one's has to be less
        wait_for eval '! is_ready one 700' || { rss_mib one; false; }
        "$sublet" resume other
        wait_for is_ready one 800
        "$sublet" suspend one
        daemon_end TERM
        daemon_start --suspend-by copies # without a bound
        wait_for eval '[ "$(of one state)" = suspended ]'
        "$sublet" resume one
        look one
        wait_for eval '! is_ready one 500' || { rss_mib one; false; }
}

@test "what a process had that has ended comes back as long as another one has its files" {
        local full
        daemon_start --suspend-by copies
        mkfifo "$machine/feed.one"
        exec {feed}<> "$machine/feed.one"
        # shellcheck disable=SC2016
        lodger one --mem 2G -- sh -c '"$0" 4 8 < "$1"; cat > /dev/null < "$1"' "$swapped" "$machine/feed.one"
        wait_for grep -q '^ready' "$machine/one"
        full=$(held_mib one)
        "$sublet" suspend one
        echo leave >&"$feed"
        wait_for grep -q '^left' "$machine/one"
        [ "$(held_mib one)" -le $((full - 32)) ]
        "$sublet" resume one
        [ "$(held_mib one)" = "$full" ]
        run ! happened 'RESUME_FAILED|AUDIT_|BOOKS_|LOST'
}

@test "a suspended tenant that ends, and one whose shim is killed, leave nothing behind" {
        local empty shim
        daemon_start --suspend-by copies
        empty=$(free_mib)
        fed one 4 8 alloc --mem 2G
        "$sublet" suspend one
        "$sublet" end one
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        wait_for eval '[ "$(free_mib)" = "$empty" ]'
        exec {feed}>&-
        fed two 4 8 alloc --mem 2G
        "$sublet" suspend two
        shim=$(of two "keeper")
        kill -KILL "$shim"
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        happened KEEPER_DIED
        wait_for eval '[ "$(free_mib)" = "$empty" ]'
        run ! happened 'AUDIT_|BOOKS_'
}

# Positive control: with T1 as before (a call is under way until its caller has the answer) none of them leaves.
@test "a tenant leaves although a call of it is never over, since its answer or a list goes to memory that does not come" {
        local what empty
        daemon_start --suspend-by copies --swap 4G
        empty=$(free_mib)
        for what in block piece list; do
                lodger "$what" --mem 2G --swap -- "$plain/tests/hostile/attack-answer-kept" "$what"
                wait_for grep -q = "$machine/$what"
                ! grep -q 'cannot=' "$machine/$what" || skip "no userfaultfd here"
                grep -qx waiting=1 "$machine/$what"
                "$sublet" suspend "$what"
                [ "$(held_mib "$what")" -lt 64 ]
                "$sublet" resume "$what"
                [ "$(held_mib "$what")" -ge 64 ]
                "$sublet" end "$what"
                wait_for eval '[ -z "$("$sublet" ps -q)" ]'
                wait_for eval '[ "$(free_mib)" = "$empty" ]'
        done
        run ! happened 'AUDIT_|BOOKS_|FAILED|LOST'
}

# Positive control: without the message `away` the processes that hold nothing go on.
@test "with the shim of a suspended tenant all of its processes end, also those that no list has" {
        daemon_start --suspend-by copies
        # shellcheck disable=SC2016
        lodger one --mem 2G -- sh -c '(setsid sleep 1000 & echo $! > "$1.sleeper"; echo $$ > "$1.shell"
                sleep 1000 | "$0" 4 8 & wait)' "$swapped" "$machine/one"
        wait_for grep -q '^ready' "$machine/one"
        "$sublet" suspend one
        kill -KILL "$(of one "keeper")"
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        wait_for eval '! kill -0 "$(< "$machine/one.sleeper")"'
        wait_for eval '! kill -0 "$(< "$machine/one.shell")"'
        wait_for eval '! kill -0 "$supervisor"'
        # one that has been resumed goes on as it likes
        # shellcheck disable=SC2016
        lodger two --mem 2G -- sh -c '(echo $$ > "$1.shell"; sleep 1000 | "$0" 4 8 & wait; sleep 1000)' "$swapped" "$machine/two"
        wait_for grep -q '^ready' "$machine/two"
        "$sublet" suspend two
        "$sublet" resume two
        sleep 0.5
        kill -KILL "$(of two "keeper")"
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        sleep 1
        kill -0 "$(< "$machine/two.shell")"
        kill "$supervisor"
}

@test "what copies cannot move goes the driver's way with auto, and is refused with the reason without" {
        daemon_start --suspend-by copies
        fed one 4 8 managed --mem 2G
        look one duplicate
        run ! "$sublet" suspend one
        happened SUSPEND_FAILED 'it has asked for managed memory that stays on a device'
        look one
        daemon_end TERM
        daemon_start --suspend-by auto
        wait_for eval '[ "$(of one state)" = running ]'
        run ! "$sublet" suspend one # on the simulator
        happened SUSPEND_FAILED 'cuCheckpointProcessCheckpoint'
        look one
        "$sublet" set one sleep-after=1s # now it is known that it would not wake by itself
        sleep 2.5
        [ "$(of one state) $(of one has_waker)" = "running false" ]
}
