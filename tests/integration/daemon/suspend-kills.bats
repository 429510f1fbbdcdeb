#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# SIGKILL at random moments of suspend and of resume: to the helper that makes the checkpoint, the daemon, the shim,
# both, the program, and the command that started it. Afterwards the tenant is as before, or suspended, or it has ended
# with an event that says so; what the program holds is what it wrote; nothing is charged and nothing held that nobody
# has. On the simulator.
# variants: plain address, because what runs beside the daemon is the library of the plain build
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
# shellcheck disable=SC2154  # what machine.bash sets

kept=$plain/tests/gpu/gpu-kept

setup() {
        machine_start --memory 4G
        n=0
        line=''
        options=() # of the daemon
}

teardown() {
        node_end
        machine_end
}

feed() { (trap '' PIPE && echo >&"$line") 2> /dev/null || true; }
rounds() { grep -c '^round' "$machine/$name" || true; }
is_listed() { "$sublet" ps -q | grep -qx "$name"; }
fail() { # WORD...: what led to it
        echo "round $i: $way, $victim killed after $delay ms: $*"
        "$sublet" events | tail -8
        "$sublet" ps
        tail -3 "$machine/$name"
        return 1
}

# A tenant of its own name; another one in its place when it has ended.
begin() {
        n=$((n + 1))
        name=one-$n
        [ -z "$line" ] || exec {line}>&-
        mkfifo "$machine/$name.lines"
        # shellcheck disable=SC2016
        lodger "$name" --mem 2G -- sh -c 'exec "$0" 192 FED < "$1"' "$kept" "$machine/$name.lines"
        exec {line}> "$machine/$name.lines"
        feed
        wait_for grep -q '^round' "$machine/$name"
        program=$(with_children "$supervisor" | while read -r p; do [ "$(< "/proc/$p/comm")" != gpu-kept ] || echo "$p"; done)
        shim=$(of "$name" "keeper")
}

# How long one of them takes when nobody is killed, in ms.
took() { # WAY
        local since=${EPOCHREALTIME/./}
        "$sublet" "$1" "$name" > /dev/null
        echo $(((${EPOCHREALTIME/./} - since) / 1000))
}

checkpoint_of() { pgrep -P "$1" -f 'sublet checkpoint'; } # DAEMON: its helper

# strike VICTIM
strike() {
        local helper
        case $1 in
        helper)
                helper=$(checkpoint_of "$daemon") || return 0
                kill -KILL "$helper" 2> /dev/null || true
                ;;
        daemon) daemon_end KILL ;;
        shim) kill -KILL "$shim" ;;
        program) kill -KILL "$program" ;;
        run) kill -KILL "$supervisor" ;;
        both) daemon_end KILL && kill -KILL "$shim" ;;
        esac
}

is_settled() {
        local state
        is_listed || return 0
        state=$(of "$name" state)
        [ "$state" = running ] || [ "$state" = suspended ]
}

has_ended() { ! is_listed; }

# What it wrote is there, and it goes on.
is_whole() {
        local before
        [ "$(of "$name" state)" = running ] || "$sublet" resume "$name" || return 1
        before=$(rounds)
        feed
        feed
        wait_for eval '[ "$(rounds)" -gt $((before + 1)) ]' || return 1
        ! grep -qvE '^(ready|round [0-9]+)$' "$machine/$name"
}

# After a tenant has ended: one event of its end, no process, no memory, no charge.
is_gone() {
        local said
        said=$("$sublet" events --json | jq -rs --arg t "$name" '[.[] | select(.tenant == $t) | .name] | [(map(select(. == "TENANT_ENDED")) | length), (map(select(. == "KEEPER_DIED" or . == "SUSPEND_LOST")) | length)] | join(" ")')
        case $1 in
        shim | both) [ "$said" = "1 1" ] || { echo "events: $said"; return 1; } ;;
        program | run) [ "$said" = "1 0" ] || { echo "events: $said"; return 1; } ;;
        *) [[ $said == "1 "[01] ]] || { echo "events: $said"; return 1; } ;;
        esac
        feed # one that was not suspended learns by a call that its gate is gone
        wait_for eval '! kill -0 "$program"' || { echo "the program is there still"; return 1; }
        wait_for eval '[ "$(free_mib)" = "$empty" ]' || { echo "free: $(free_mib) of $empty MiB"; return 1; }
        ! grep -qE 'differs' "$machine/$name"
}

# SUBLET_KILLS=400 SUBLET_SECONDS=1200 for a long run, SUBLET_SEED=N for the same one again
# kill_all WAY VICTIM...: suspended that way
kill_all() {
        local kills=${SUBLET_KILLS:-8} until=$((SECONDS + ${SUBLET_SECONDS:-60})) seed=${SUBLET_SEED:-$RANDOM}
        local by=$1 victims=("${@:2}") i way victim delay empty asked program shim name held
        declare -A ends=() span=()
        echo "seed $seed"
        RANDOM=$seed
        daemon_start --suspend-by "$by" "${options[@]}"
        empty=$(free_mib)
        begin
        span[suspend]=$(took suspend)
        span[resume]=$(took resume)
        echo "suspend ${span[suspend]} ms, resume ${span[resume]} ms"
        for ((i = 0; i < kills && SECONDS < until; i++)); do
                victim=${victims[i % ${#victims[@]}]}
                way=$([ $((i / ${#victims[@]} % 2)) -eq 0 ] && echo suspend || echo resume)
                delay=$((RANDOM % (span[$way] + 50)))
                held=$(of "$name" held_bytes)
                # It is at work; not while copies are made: a simulated program's bytes are done by itself.
                [ "$by" = copies ] || [ $((RANDOM % 2)) -eq 0 ] || feed
                [ "$way" = suspend ] || "$sublet" suspend "$name" > /dev/null || fail "suspend"
                "$sublet" "$way" "$name" > /dev/null 2>&1 3>&- &
                asked=$!
                # As often as not from when the checkpoint begins: a suspension waits before that.
                if [ "$by" = checkpoint ] && [ $((RANDOM % 2)) -eq 0 ] && patience=3 pause_most=20 wait_for checkpoint_of "$daemon"; then
                        delay=$((RANDOM % (span[resume] + 50)))
                fi
                sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
                strike "$victim"
                echo "$i: $way, $victim after $delay ms"
                wait "$asked" || true
                [[ $victim != @(daemon|both) ]] || daemon_start --suspend-by "$by" "${options[@]}"
                case $victim in
                shim | program | run | both) wait_for has_ended || fail "it is listed still" ;;
                *) wait_for is_settled || fail "it is on its way still" ;;
                esac
                if is_listed; then
                        ends[$(of "$name" state)]=1
                        is_whole || fail "it is not whole"
                        [ "$(of "$name" swapped_bytes)" = 0 ] || fail "it runs, and something is swapped"
                        wait_for eval '[ "$(of "$name" held_bytes)" -le $((held + 64 * MIB)) ]' || fail "it holds more than before"
                else
                        ends[ended]=1
                        is_gone "$victim" || fail "it has ended"
                        begin
                fi
        done
        echo "$i kills: ${!ends[*]}"
        run ! grep -E 'BOOKS_NOT_EMPTY|AUDIT_MISMATCH|SUSPEND_LOST|RESUME_FAILED' <("$sublet" events)
        "$sublet" end "$name"
        exec {line}>&- # not before: the program ends with its lines
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        wait_for eval '[ "$(free_mib)" = "$empty" ]'
}

@test "whoever is killed at any moment of a suspension: as before, suspended, or ended with an event, and nothing is left" {
        kill_all checkpoint helper daemon shim program
}

@test "the same of a suspension by copies" {
        kill_all copies daemon shim program
}

@test "the same where host memory is ready before, of who started it, and of daemon and shim at once" {
        options=(--swap 2G)
        kill_all copies run both shim
}
