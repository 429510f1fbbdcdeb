#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `sublet run` is a transparent wrapper, and reports bad usage in one line.
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start
}

teardown() {
        machine_end
}

# ---- exit codes -----------------------------------------------------------------------------------

@test "the exit code is the command's" {
        run tenant -- true
        [ "$status" -eq 0 ]
        run tenant -- sh -c 'exit 3'
        [ "$status" -eq 3 ]
        run tenant -- sh -c 'exit 255'
        [ "$status" -eq 255 ]
}

@test "a command that does not exist is named, and exits with 127" {
        run -127 tenant -- /nonexistent/program
        [[ $output == *"/nonexistent/program: command not found"* ]]
        run -127 tenant -- no-such-program-on-the-path
}

@test "a command that cannot be executed exits with 126" {
        echo data > "$BATS_TEST_TMPDIR/file"
        run tenant -- "$BATS_TEST_TMPDIR/file"
        [ "$status" -eq 126 ]
        run tenant -- /tmp
        [ "$status" -eq 126 ]
}

@test "a command ended by a signal exits with 128 plus its number" {
        local number
        for number in 6 9 11 15; do
                run tenant -- sh -c "ulimit -c 0; kill -$number \$\$"
                [ "$status" -eq $((128 + number)) ]
        done
}

# ---- signals --------------------------------------------------------------------------------------

# passes_on SIGNAL: sent to sublet by another process, it arrives at the command
passes_on() {
        local said=$BATS_TEST_TMPDIR/said code=0 process
        rm -f "$said"
        # A shell's background job ignores INT and QUIT, which a child inherits.
        SUBLET_SIM=$machine_dir env --default-signal "$sublet" run -q -- sh -c \
                "trap 'echo got $1; exit 42' $1; echo ready; while :; do sleep 0.02; done" > "$said" 3>&- &
        process=$!
        wait_for grep -q ready "$said"
        kill -"$1" "$process"
        wait "$process" || code=$?
        echo "$1: exit code $code, said: $(cat "$said")"
        [ "$code" -eq 42 ]
        [ "$(grep -c "got $1" "$said")" -eq 1 ]
}

@test "TERM, INT, HUP, QUIT and USR1 of another process are passed on" {
        local signal
        for signal in TERM INT HUP QUIT USR1; do
                passes_on "$signal"
        done
}

@test "a command that TERM ends by default is reported as such" {
        local code=0 process
        SUBLET_SIM=$machine_dir "$sublet" run -q -- sleep 60 3>&- &
        process=$!
        wait_for pgrep -P "$process" sleep
        kill -TERM "$process"
        wait "$process" || code=$?
        [ "$code" -eq 143 ]
}

# on_terminal COMMAND: with a terminal of its own; what is on stdin is typed
on_terminal() {
        SUBLET_SIM=$machine_dir SHELL=/bin/sh script -qec "$1" /dev/null
}

@test "a ^C at the terminal reaches the command exactly once" {
        local said=$BATS_TEST_TMPDIR/said count=$BATS_TEST_TMPDIR/count code=0
        cat > "$BATS_TEST_TMPDIR/command" <<-'END'
        trap 'echo interrupted >> "$1"' INT
        echo ready
        i=0
        while [ $i -lt 60 ] && [ ! -s "$1" ]; do sleep 0.05; i=$((i + 1)); done
        sleep 0.3
        exit 7
END
        : > "$count"
        {
                wait_for grep -q ready "$said"
                printf '\003'
                sleep 1.5
        } | on_terminal "exec '$sublet' run -q -- sh '$BATS_TEST_TMPDIR/command' '$count'" > "$said" || code=$?
        echo "code $code, said: $(cat "$said")"
        [ "$code" -eq 7 ]
        [ "$(wc -l < "$count")" -eq 1 ]
}

@test "a command on a terminal has that terminal" {
        local there under
        there=$(on_terminal "test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size" < /dev/null)
        under=$(on_terminal "'$sublet' run -q -- sh -c 'test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size'" < /dev/null)
        [[ $there == *terminal* ]]
        [ "$under" = "$there" ]
}

# ---- transparent ----------------------------------------------------------------------------------

@test "a megabyte through stdin and stdout arrives unchanged" {
        head -c 1048576 /dev/urandom > "$BATS_TEST_TMPDIR/in"
        tenant -q -- cat < "$BATS_TEST_TMPDIR/in" > "$BATS_TEST_TMPDIR/out"
        cmp "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
}

@test "arguments, environment, folder and umask are the command's own" {
        cd /var
        umask 027
        run env -u LD_PRELOAD SUBLET_SIM="$machine_dir" COLOUR='light blue' "$sublet" run -q -- sh -c \
                'printf "%s|" "$#" "$1" "$2" "$COLOUR" "$PWD" "$(umask)"' - 'a b' '--mem'
        [ "$output" = '2|a b|--mem|light blue|/var|0027|' ]
}

@test "no descriptor of sublet's is open in the command" {
        local here under
        here=$(bash -c 'ls /proc/self/fd' 3>&- | tr '\n' ' ')
        under=$(SUBLET_SIM=$machine_dir "$sublet" run -q -- bash -c 'ls /proc/self/fd' 3>&- | tr '\n' ' ')
        [ "$under" = "$here" ]
}

@test "without -- the command's options stay the command's" {
        run on "$sublet" run -q --mem 1G sh -c 'exit 5'
        [ "$status" -eq 5 ]
}

# ---- what it says ---------------------------------------------------------------------------------

@test "the summary is one line per device, on stderr" {
        run --separate-stderr on "$sublet" run --no-daemon --mem 1G -- echo hello
        [ "$output" = hello ]
        [ "$stderr" = 'sublet: echo: device 0: quota 1 GiB, peak 0 B' ]
}

@test "-q prints nothing at all" {
        run --separate-stderr on "$sublet" run -q --mem 1G -- true
        [ -z "$output" ]
        [ -z "$stderr" ]
}

@test "--name is the tenant's name" {
        run on "$sublet" run --no-daemon --name chat -- true
        [[ $output == 'sublet: chat: device 0:'* ]]
}

@test "--json is one line that parses and has the tenant's figures" {
        run --separate-stderr on "$sublet" run --json --name 'a "b"' --mem 1G -- sh -c 'exit 4'
        [ "$status" -eq 4 ]
        [ -z "$output" ]
        [ "${#stderr_lines[@]}" -eq 1 ]
        printf '%s\n' "$stderr" | /usr/bin/python3 -c '
import json, sys
books = json.load(sys.stdin)
assert books["tenant"] == "a \"b\"", books
assert books["exit_code"] == 4, books
device, = books["devices"]
assert device["device"] == 0 and device["quota_bytes"] == 1 << 30, device
assert device["held_bytes"] == 0 and device["peak_bytes"] == 0 and device["refusals"] == 0, device
assert device["total_bytes"] > 100 << 30, device
assert 0 < books["elapsed_seconds"] < 60, books
'
}

@test "--report writes the summary to a file and nothing to stderr" {
        run --separate-stderr on "$sublet" run --report "$BATS_TEST_TMPDIR/file" --mem 2G -- true
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        [ "$(cat "$BATS_TEST_TMPDIR/file")" = 'sublet: true: device 0: quota 2 GiB, peak 0 B' ]
}

@test "a report that cannot be written is one line before the command starts; on a full disk the exit code says it" {
        run on "$sublet" run --report /nonexistent/report -- touch "$BATS_TEST_TMPDIR/started"
        [ "$status" -eq 125 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"--report /nonexistent/report: No such file"* ]]
        [ ! -e "$BATS_TEST_TMPDIR/started" ]
        [ -c /dev/full ] || return 0
        run on "$sublet" run --name lost --report /dev/full -- true
        [ "$status" -eq 125 ] && [[ $output == *"/dev/full: No space left on device; the summary is here:"*"sublet: lost: device 0: quota "* ]]
        run on "$sublet" run --report /dev/full -- sh -c 'exit 3'
        [ "$status" -eq 3 ]
}

@test "--help prints the usage on stdout and names every option" {
        local option
        run --separate-stderr "$sublet" run --help
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        for option in --mem --gpu --managed --host-mem --ipc --name --json --report --quiet --verbose; do
                [[ $output == *"$option"* ]]
        done
}

@test "sublet help names every verb; an unknown verb is one line and exits with 2" {
        run --separate-stderr "$sublet" help
        [ "$status" -eq 0 ]
        [[ $output == *' run '* && $output == *' sim '* && $output == *' explain '* ]]
        run "$sublet" rum
        one_line_and_2 "'rum': did you mean 'run'"
        run "$sublet" frobnicate
        one_line_and_2 "'frobnicate' \\("
}

@test "help VERB is VERB --help" {
        diff <("$sublet" help run) <("$sublet" run --help)
        run "$sublet" help evnets
        one_line_and_2 "did you mean 'events'"
        run "$sublet" help run ps
        one_line_and_2 "'ps' is one too many"
}

@test "what cannot be printed is an error that names the place" {
        [ -c /dev/full ] || skip "no /dev/full"
        local verb
        for verb in help --version "run --help" explain doctor "oci profile"; do
                # shellcheck disable=SC2016,SC2086  # for the inner shell
                run -1 on bash -c '"$@" > /dev/full' - "$sublet" $verb
                [[ $output == "sublet: "*"No space left on device" ]] || { echo "$verb: $output"; return 1; }
        done
}

# ---- bad orders -----------------------------------------------------------------------------------

@test "a malformed size is one line and exits with 2" {
        local size
        for size in 8X '' -1G 1G2 G 8GG 101% 0 99999999999999999999G; do
                run on "$sublet" run --mem "$size" -- true
                one_line_and_2 "--mem"
        done
}

@test "a size without its unit is one line that asks for it, and exits with 2" {
        run on "$sublet" run --mem 8 -- true
        one_line_and_2 'did you mean 8G\?'
        run on "$sublet" run --mem 8G,0=4096 -- true
        one_line_and_2 'did you mean 4096M\?'
        run on "$sublet" run --host-mem 8 -- true
        one_line_and_2 'did you mean 8G\?'
        run on "$sublet" lease --no-daemon --mem 8 "/dev/shm/sublet-none-$$"
        [ "$status" -ne 0 ] && [[ $output == *"did you mean 8G?"* ]]
        run "$sublet" sim --memory 24 -- true
        [ "$status" -ne 0 ] && [[ $output == *"did you mean 24G?"* ]]
}

@test "without a daemon it is said what does not hold; where one was named, nothing is started" {
        run on "$sublet" run -- true
        [ "$status" -eq 0 ]
        [[ ${lines[0]} == "sublet: no daemon is in /run/sublet: only the quota of memory holds, "* ]]
        run on "$sublet" run --no-daemon -- true
        [ "$status" -eq 0 ] && [[ $output != *"no daemon"* ]]
        run on "$sublet" run --dir /nonexistent -- touch "$BATS_TEST_TMPDIR/started"
        [ "$status" -eq 125 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"no daemon is in /nonexistent"* ]]
        SUBLET_DIR=/nonexistent run on "$sublet" run -- touch "$BATS_TEST_TMPDIR/started"
        [ "$status" -eq 125 ] && [[ $output == *"no daemon is in /nonexistent"* ]]
        run on "$sublet" run --share 30 -- touch "$BATS_TEST_TMPDIR/started"
        [ "$status" -eq 125 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"none is in /run/sublet"* ]]
        [ ! -e "$BATS_TEST_TMPDIR/started" ]
        run -0 on "$sublet" run --dir /nonexistent --no-daemon -- true
}

@test "bad use is said before a daemon is looked for" {
        for bad in "--mem 8" "--mem 8X" "--mem 0" "--mem 200%" "--host-mem 8" "--managed maybe"; do
                # shellcheck disable=SC2086  # words
                run on "$sublet" run --dir /nonexistent $bad -- true
                one_line_and_2 "${bad%% *}"
        done
        run on "$sublet" lease --mem 8 /nonexistent/lease
        one_line_and_2 'did you mean 8G\?'
}

@test "a quota larger than the device is one line with the device's size, and exits with 2" {
        run on "$sublet" run --mem 200G -- true
        one_line_and_2 'device 0 has \(140 GiB\)'
}

@test "a quota of the whole device is accepted" {
        tenant --mem 100% -- true
        [ "$(field quota_bytes)" -eq "$(field total_bytes)" ]
}

@test "a device that does not exist is one line and exits with 2" {
        local gpu
        for gpu in 7 1 -1 x '' 0,9 '0,'; do
                run on "$sublet" run --gpu "$gpu" -- true
                one_line_and_2 "--gpu"
        done
        run on "$sublet" run --mem 1=4G -- true
        one_line_and_2 "there is no device 1"
}

@test "a missing command is one line and exits with 2" {
        run on "$sublet" run
        one_line_and_2 'no command'
        run on "$sublet" run --mem 1G --
        one_line_and_2 'no command'
}

@test "an unknown option, or one without its value, is one line and exits with 2" {
        run on "$sublet" run --memry 1G -- true
        one_line_and_2 '--memry: did you mean --mem'
        run on "$sublet" run -z -- true
        one_line_and_2 '-z'
        run on "$sublet" run --mem
        one_line_and_2 '--mem needs a value'
}

@test "what docker has and a tenant has not is said, and exits with 2" {
        run -2 "$sublet" run -it -- true
        [[ $output == "sublet: the command has this terminal already: leave -i out" ]]
        run -2 "$sublet" run -qx -- true # a letter in a word of letters
        [[ $output == "sublet: unknown option -x "* ]]
}

@test "an unknown choice is one line and exits with 2" {
        run on "$sublet" run --managed=perhaps -- true
        one_line_and_2 'charge, deny or allow'
        run on "$sublet" run --ipc=perhaps -- true
        one_line_and_2 'private or host'
        run on "$sublet" run --host-mem 8X -- true
        one_line_and_2 '--host-mem'
}

@test "bad usage starts nothing" {
        run on "$sublet" run --mem 8X -- touch "$BATS_TEST_TMPDIR/started"
        [ "$status" -eq 2 ]
        [ ! -e "$BATS_TEST_TMPDIR/started" ]
}

# ---- waits ----------------------------------------------------------------------------------------

# libcuda asks the driver for something where a wait has lasted for a second. Refused, it says that the work is done.
@test "a wait of more than a second ends when the work does" {
        run tenant -q -- "$plain/tests/gpu/gpu-load" -k 1500000 -t 1 sync
        [ "$status" -eq 0 ]
        [[ $output =~ p50_us=([0-9]+) ]]
        [ "${BASH_REMATCH[1]}" -ge 1490000 ]
}

# ---- the machine ----------------------------------------------------------------------------------

@test "a missing driver is one line and exits with 2" {
        [ ! -e /proc/driver/nvidia ] || skip "this machine has a driver"
        run env -u SUBLET_SIM "$sublet" run -- true
        one_line_and_2 'no NVIDIA driver'
}

@test "a simulated machine that does not exist is one line and exits with 2" {
        SUBLET_SIM=/nonexistent run "$sublet" run -- true
        one_line_and_2 '/nonexistent'
        SUBLET_SIM='' run "$sublet" run -- true
        one_line_and_2 'SUBLET_SIM'
}

@test "a simulated machine that has ended is one line and exits with 2" {
        kill "$machine_process"
        wait "$machine_process" || true
        run on "$sublet" run -- true
        one_line_and_2 'driver'
}

@test "a tenant inside a tenant is refused with a message" {
        run on "$sublet" run -q -- env LD_PRELOAD= "$sublet" run -q -- touch "$BATS_TEST_TMPDIR/started"
        [ "$status" -ne 0 ]
        [[ $output == *'is already a tenant'* ]]
        [ ! -e "$BATS_TEST_TMPDIR/started" ]
}
