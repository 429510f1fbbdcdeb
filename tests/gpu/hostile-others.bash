# SPDX-License-Identifier: Apache-2.0
# The part of hostile.sh whose truth is no figure of the device's memory: what an attack counts itself, natively (its
# positive control) and as a tenant; what needs a daemon; and what the gate takes for a fact of this driver. Uses say,
# check, skip, used, $sublet, $work, $log, table. About 100 s.
# shellcheck shell=bash disable=SC2154,SC2034  # hostile.sh's

# number NAME FILE: what an attack says as NAME=N; -1: nothing
number() { sed -n "s/^\(.* \)\{0,1\}$1=\([0-9]*\).*/\2/p" "$2" 2> /dev/null | tail -1 | grep . || echo -1; }

# counts NAME WORD MOST OPTION...: natively more than MOST of WORD, as a tenant with OPTIONs at most that, and some
counts() {
        local name=$1 word=$2 most=$3 native tenant
        shift 3
        SETTLE_MSEC=100 timeout -s KILL 60 "$work/$name" < /dev/null > "$work/$name.out" 2>&1
        native=$(number "$word" "$work/$name.out")
        timeout -s KILL 60 "$sublet" run -q --no-daemon "$@" -- "$work/$name" < /dev/null > "$work/$name.tenant" 2>&1
        tenant=$(number "$word" "$work/$name.tenant")
        sed "s/^/# $name: /" "$work/$name.out" "$work/$name.tenant" >> "$log"
        if [ "$native" -le "$most" ]; then
                skip "$name: at most $most of $word" "no attack here: $native without a gate"
                return
        fi
        check "$name: at most $most of $word ($tenant; $native without a gate)" \
                "$([ "$tenant" -le "$most" ] && [ "$tenant" -gt 0 ] && echo y)"
        table+=("$(printf '%-24s %9s %9s of %s' "$name" "$native" "$tenant" "$word")")
}

# leaves NAME MEM: natively all that it took is left when it has ended, as a tenant nothing
leaves() {
        local name=$1 mem=$2 native tenant took
        timeout -s KILL 40 "$work/$name" env < /dev/null > "$work/$name.out" 2>&1
        native=$(number left "$work/$name.out")
        timeout -s KILL 60 "$work/$name" "$sublet" run -q --no-daemon --mem "$mem" -- < /dev/null > "$work/$name.tenant" 2>&1
        tenant=$(number left "$work/$name.tenant") took=$(number took "$work/$name.tenant")
        sed "s/^/# $name: /" "$work/$name.out" "$work/$name.tenant" >> "$log"
        if [ "$native" -lt 1000 ]; then
                skip "$name: nothing is left" "no attack here: $native without a gate"
                return
        fi
        check "$name: nothing is left of $took ($tenant; $native without a gate)" \
                "$([ "$tenant" -eq 0 ] && [ "$took" -ge 1000 ] && echo y)"
        table+=("$(printf '%-24s %9s %9s left' "$name" "$native" "$tenant")")
}

until_true() { # SECONDS COMMAND...
        local i
        for ((i = 0; i < $1 * 10; i++)); do
                "${@:2}" && return 0
                sleep 0.1
        done
        return 1
}
listed() { "$sublet" ps -q | grep -qx "$1"; }
is_over() { ! listed "$1"; }
happened() { "$sublet" events | grep -qE "$1"; }
state_is() { [ "$("$sublet" ps -a --json | tr -d ' \n' | grep -o "\"tenant\":\"$1\".*" | grep -o '"state":"[a-z]*"' | head -1)" = "\"state\":\"$2\"" ]; }

daemon_begin() { # OPTION...
        export SUBLET_DIR=$work/node
        mkdir -p "$SUBLET_DIR"
        "$sublet" daemon --dir "$SUBLET_DIR" "$@" >> "$log" 2>&1 &
        daemon=$!
        until_true 10 test -S "$SUBLET_DIR/tenant.sock"
}
daemon_stop() {
        kill "$daemon"
        wait "$daemon"
        daemon=''
        unset SUBLET_DIR
}

# ---- facts that the gate goes by ----------------------------------------------------------------------------------
others_facts() {
        "$sublet" doctor > "$work/doctor" 2>&1
        check 'NUMA_INFO: the driver says of no device that its memory is a node of the host' \
                "$(grep -q '/dev/nvidia0' "$work/doctor" && ! grep -q 'coherent memory' "$work/doctor" && echo y)"
        check 'so a lease is to be had' "$("$sublet" run -q --no-daemon --mem 1G -- true 2>> "$log" && echo y)"
}

# ---- with a daemon ------------------------------------------------------------------------------------------------
others_outlived() {
        local before holder name=hostile-$$
        before=$(used)
        "$work/outlived" keep "$name" > "$work/keep.out" 2>&1 &
        holder=$!
        sleep 1
        QUOTA_MIB=512 timeout -s KILL 60 "$sublet" run -q --name taker --mem 4G -- "$work/outlived" take "$name" \
                < /dev/null > "$work/outlived.out" 2>&1
        sed 's/^/# outlived: /' "$work/outlived.out" >> "$log"
        check "outlived: its memory is on the device still ($(($(used) - before)) MiB): an attack" \
                "$([ $(($(used) - before)) -ge 512 ] && echo y)"
        check 'outlived: its lease is not given away' "$(until_true 20 state_is taker kept && echo y)"
        check 'kcmp finds whoever has the control file (the event names it)' \
                "$(happened "taker: BOOKS_NOT_EMPTY.*process $holder has it open" && echo y)"
        kill -KILL $holder
        wait $holder 2> /dev/null
        check 'outlived: it is over when that has let go' "$(until_true 20 is_over taker && echo y)"
}

others_answer_kept() {
        local what
        for what in block piece list; do
                "$sublet" run -q --name "$what" --mem 2G -- "$work/answer_kept" "$what" < /dev/null > "$work/answer.$what" 2>&1 &
                until_true 30 grep -q = "$work/answer.$what"
                if ! grep -qx waiting=1 "$work/answer.$what"; then
                        skip "answer_kept $what" "$(tail -1 "$work/answer.$what")"
                else
                        check "answer_kept $what: it leaves its device all the same" \
                                "$(timeout 60 "$sublet" suspend "$what" >> "$log" 2>&1 && echo y)"
                fi
                "$sublet" end "$what" >> "$log" 2>&1
                wait $!
        done
}

has_pipe() { compgen -G "$SUBLET_DIR/mps/0-*/pipe" > /dev/null; }

# A group's server is its user's: 4001 connects and computes, 4002 may not even enter.
others_mps() {
        local before pipe
        if ! command -v nvidia-cuda-mps-control > /dev/null || ! command -v setpriv > /dev/null; then
                skip "a group's MPS server is its user's" 'no nvidia-cuda-mps-control, or no setpriv'
                return
        fi
        if ! setpriv --reuid 4001 --regid 4001 --clear-groups test -x "$sublet"; then
                skip "a group's MPS server is its user's" "no other user reaches $sublet"
                return
        fi
        chmod 755 "$work" "$SUBLET_DIR"
        before=$("$sublet" events | grep -c UNEXPLAINED_MEMORY)
        setpriv --reuid 4001 --regid 4001 --clear-groups "$sublet" run -q --name a --group chat --mem 4G -- "$work/load" -t 12 deep \
                < /dev/null > "$work/mps.out" 2>&1 &
        until_true 20 has_pipe
        pipe=$(ls -d "$SUBLET_DIR"/mps/0-*/pipe)
        sleep 6
        check 'no other user enters the pipe of a group' \
                "$([ -n "$pipe" ] && ! setpriv --reuid 4002 --regid 4002 --clear-groups test -x "$pipe" && echo y)"
        check 'its own does' "$(setpriv --reuid 4001 --regid 4001 --clear-groups test -x "$pipe" && echo y)"
        wait $!
        sed 's/^/# mps: /' "$work/mps.out" >> "$log"
        check 'and has computed as a client of its server' "$([ "$(number pieces "$work/mps.out")" -gt 0 ] && echo y)"
        check 'no memory of the server is unexplained' \
                "$([ "$("$sublet" events | grep -c UNEXPLAINED_MEMORY)" -eq "$before" ] && echo y)"
}

others_counts() {
        counts listens_many listening 16384 --mem 2G
        counts groups_of_ranges groups 16384 --mem 2G
        counts ranges_many ranges $((65536 + 2048)) --mem 2G
        counts pools_many 'pools mib' 256 --mem 2G --host-mem 256M
        counts preemption_modes taken 1 --mem 2G
        counts channels_all channels 320 --mem 2G
        leaves listens_kept 256M
        leaves groups_hidden 1G
}

others_attached() {
        if [ "$("$work/attached" | wc -l)" -lt 2 ]; then
                skip 'attached: only devices of the lease' 'one device'
                return
        fi
        # shellcheck disable=SC2046  # numbers
        check 'attached: only devices of the lease' \
                "$([ "$("$sublet" run -q --no-daemon --gpu 1 --mem 1G -- "$work/attached" $("$work/attached"))" = attached=1 ] && echo y)"
}

others_daemon() {
        daemon_begin --suspend-by copies
        others_outlived
        others_answer_kept
        others_mps
        daemon_stop
}

# OTHERS: which of them
others() {
        local part
        for part in ${OTHERS:-facts counts attached daemon}; do "others_$part"; done
}
