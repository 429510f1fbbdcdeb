# SPDX-License-Identifier: Apache-2.0
# The processes of a cluster: each is started from a file that says how, is known by its pid, and can be ended and
# started again from any test.
# shellcheck shell=bash disable=SC2154  # $cluster is the caller's
#
# $cluster is the folder of all of it: parts/NAME (the command), pids/NAME, log/NAME.

# part_start NAME [COMMAND...]: with COMMAND, or as it was started before
part_start() {
        local name=$1 command
        shift
        [ $# -eq 0 ] || printf '%q ' "$@" > "$cluster/parts/$name"
        command=$(cat "$cluster/parts/$name")
        eval "exec $command" < /dev/null >> "$cluster/log/$name" 2>&1 3>&- 4>&- &
        echo $! > "$cluster/pids/$name"
        disown
}

part_is_alive() {
        local state
        state=$(sed -n 's/^State:[[:space:]]*\([A-Z]\).*/\1/p' "/proc/$(cat "$cluster/pids/$1")/status" 2> /dev/null)
        [ -n "$state" ] && [ "$state" != Z ]
}

# part_end NAME [SIGNAL]: and waits for it; what does not end in 10 s is killed
part_end() {
        local pid i
        [ -f "$cluster/pids/$1" ] || return 0
        pid=$(cat "$cluster/pids/$1")
        kill "-${2:-TERM}" "$pid" 2> /dev/null || true # it may be gone: not a failure of the test that asks
        for ((i = 0; i < 200; i++)); do
                part_is_alive "$1" || break
                sleep 0.05
        done
        kill -KILL "$pid" 2> /dev/null || true
        rm -f "$cluster/pids/$1"
}

part_restart() { # NAME [SIGNAL]
        part_end "$@"
        part_start "$1"
}

# until_ok SECONDS COMMAND...: until it succeeds
until_ok() {
        local end=$((SECONDS + $1))
        shift
        while ! "$@" > /dev/null 2>&1; do
                if [ "$SECONDS" -ge "$end" ]; then
                        echo "cluster: in vain: $*" >&2
                        return 1
                fi
                sleep 0.2
        done
}
