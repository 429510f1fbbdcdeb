# SPDX-License-Identifier: Apache-2.0
# Helpers of integration tests with a daemon, besides machine.bash.
# shellcheck shell=bash disable=SC2034,SC2154  # read by tests, set by bats and machine.bash set
load_program=$plain/tests/gpu/gpu-load

# daemon_start [OPTION...]: on the machine, in a directory of its own; all helpers below ask this daemon
daemon_start() {
        export SUBLET_DIR=$machine/node
        mkdir -p "$SUBLET_DIR"
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$sublet" daemon --dir "$SUBLET_DIR" "$@" < /dev/null 3>&- >> "$machine/daemon" 2>&1 &
        daemon=$!
        wait_for eval '"$sublet" ps -q || ! kill -0 "$daemon"'
        "$sublet" ps -q > /dev/null || { cat "$machine/daemon"; return 1; }
}

# daemon_end SIGNAL: the daemon only; its tenants live on. Fails if it has crashed, which tenants may not have noticed
daemon_end() {
        local code=0
        [ -n "${daemon:-}" ] || return 0
        kill "-$1" "$daemon" 2> /dev/null || true
        wait "$daemon" 2> /dev/null || code=$?
        daemon=''
        case $code in
        132 | 134 | 135 | 136 | 139) echo "the daemon has crashed: $code"; tail -20 "$machine/daemon"; return 1 ;;
        esac
}

# with_children PROCESS...: prints the processes and all their descendants
with_children() {
        local process
        for process; do
                echo "$process"
                with_children $(pgrep -P "$process")
        done
}

# Ends everything that a test with a daemon started, except the machine (machine_end). A failed test may leave a tenant
# that no daemon knows: what does not end by itself is killed with its descendants, so that the next test can begin.
node_end() {
        local left=()
        if [ -n "${daemon:-}" ] && kill -0 "$daemon" 2> /dev/null; then
                "$sublet" ps -q 2> /dev/null | xargs -r "$sublet" end > /dev/null 2>&1 || true
                wait_for eval '[ -z "$("$sublet" ps -q)" ]' || true
                kill "$daemon" 2> /dev/null || true
                if ! wait_for eval '! kill -0 "$daemon"'; then
                        echo "the daemon did not end: $daemon"
                        daemon_end KILL
                        machine_end
                        return 1
                fi
        fi
        daemon_end TERM
        if [ -n "${supervisors:-}" ] && ! patience=10 wait_for eval '! kill -0 "${supervisors[@]}"'; then
                mapfile -t left < <(with_children "${supervisors[@]}")
                echo "still there, and ended: ${left[*]}"
                kill -KILL "${left[@]}" 2> /dev/null || true
        fi
        [ -z "${supervisors:-}" ] || wait "${supervisors[@]}" 2> /dev/null || true
        supervisors=()
}

# held_in FILE: waits for the process number that `guest hold` writes there once it holds its memory
held_in() { wait_for [ -s "$1" ] && cat "$1"; }

# lodger NAME [OPTION...] -- COMMAND...: starts a tenant in the background; the daemon lists it when this returns
lodger() {
        local name=$1
        shift
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$sublet" run -q --name "$name" "$@" < /dev/null > "$machine/$name" 2>&1 3>&- &
        supervisor=$!
        supervisors+=("$supervisor")
        wait_for eval '"$sublet" ps -q | grep -qx "$name" || ! kill -0 "$supervisor"'
        "$sublet" ps -q | grep -qx "$name" || { cat "$machine/$name"; return 1; }
}

# of TENANT FIELD: a number or word of the daemon's answer about its first device, or about itself
of() {
        "$sublet" ps --json | jq -r --arg t "$1" --arg f "$2" '.[] | select(.tenant == $t) | .devices[0][$f] // .[$f]'
}
