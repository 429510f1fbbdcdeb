# What a scene with a daemon needs, besides machine.bash.
# shellcheck shell=bash disable=SC2034,SC2154  # what the scenes read, what bats and machine.bash set
load_program=$plain/tests/gpu/gpu-load

# daemon_start [OPTION...]: on the machine, in a directory of its own that everything below asks
daemon_start() {
        export SUBLET_DIR=$machine/node
        mkdir -p "$SUBLET_DIR"
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$sublet" daemon --dir "$SUBLET_DIR" "$@" < /dev/null 3>&- >> "$machine/daemon" 2>&1 &
        daemon=$!
        wait_for eval '"$sublet" ps -q || ! kill -0 "$daemon"'
        "$sublet" ps -q > /dev/null || { cat "$machine/daemon"; return 1; }
}

# daemon_end SIGNAL: the daemon only; its tenants live on
daemon_end() {
        [ -n "${daemon:-}" ] || return 0
        kill "-$1" "$daemon" 2> /dev/null || true
        wait "$daemon" 2> /dev/null || true
        daemon=''
}

# Everything that a scene with a daemon started; then machine_end.
node_end() {
        if [ -n "${daemon:-}" ] && kill -0 "$daemon" 2> /dev/null; then
                "$sublet" ps -q 2> /dev/null | xargs -r "$sublet" end > /dev/null 2>&1 || true
                wait_for eval '[ -z "$("$sublet" ps -q)" ]' || true
        fi
        daemon_end TERM
        [ -z "${supervisors:-}" ] || wait "${supervisors[@]}" 2> /dev/null || true
        supervisors=()
}

# lodger NAME [OPTION...] -- COMMAND...: a tenant in the background, and the daemon knows it when this returns
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
