#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Attacks on the daemon itself, of a user or a container, by what it may do: on the time of the loop, and on the disk.
# variants: plain, because the programs are not built with a sanitizer and the claim is about how long things take
bats_require_minimum_version 1.5.0
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
load ../machine
load ../daemon

setup() {
        [ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
        machine_start --memory 24G
        chmod a+rx "$machine"
        attacks=$plain/tests/hostile
        setpriv --reuid 4001 --regid 4001 --clear-groups test -x "$attacks/attack-segments-full" ||
                skip "other users cannot reach $attacks"
}

teardown() {
        rm -rf "${tmpfs:-}"
        [ -z "${attacker:-}" ] || kill "$attacker" 2> /dev/null || true
        node_end
        machine_end
}

# as_user UID COMMAND...: as somebody else, who may use the machine
as_user() {
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}

# attacked UID NAME ARGUMENT...: the program runs as that user until attack_end; what it says is in $machine/attack
attacked() {
        mkfifo "$machine/in"
        setpriv --reuid "$1" --regid "$1" --clear-groups "$attacks/attack-$2" "$SUBLET_DIR" "$(cat "$machine/id")" \
                "${@:3}" < "$machine/in" > "$machine/attack" 2>&1 3>&- &
        attacker=$!
        exec 7> "$machine/in"
}

attack_end() {
        exec 7>&-
        wait "$attacker"
        attacker=''
}

# spent: what the daemon has used of a processor, in hundredths of a second
spent() { awk '{ print $14 + $15 }' "/proc/$daemon/stat"; }

@test "usage segments that take long to look at do not keep the daemon from others" {
        local since began
        daemon_start
        since=$SECONDS began=$(spent)
        attacked 4001 segments-full 24
        wait_for grep -q '^leases=24' "$machine/attack"
        sleep 8
        echo "$(cat "$machine/attack"); $(($(spent) - began)) hundredths in $((SECONDS - since)) s"
        [ "$(value ms "$(grep '^look' "$machine/attack")")" -ge 15 ] || { echo "no attack"; return 1; }
        [ $((($(spent) - began) / (SECONDS - since))) -lt 20 ] # of a processor; without a bound all of it
        attack_end
}

# kept: how many tenancies the store has
kept() {
        /usr/bin/python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM tenants").fetchone()[0])' "$SUBLET_DIR/sublet.db"
}

is_refused() {
        local i
        for ((i = 0; i < 20; i++)); do
                run as_user 4001 "$sublet" run --mem 1G -- true
                [ "$status" -eq 0 ] || break
        done
        [[ $output == *'has begun 1000 tenancies'* ]]
}

@test "a user that begins tenancies without a pause does not fill the store, and others begin theirs" {
        daemon_start
        attacked 0 tenancies-many 1200 # root is not asked: what there would be
        attack_end
        [[ $(cat "$machine/attack") == *'begun=1200'* ]] || { echo "no attack: $(cat "$machine/attack")"; return 1; }
        [ "$(kept)" -eq 1200 ]
        rm "$machine/in"
        attacked 4001 tenancies-many 1200
        attack_end
        cat "$machine/attack"
        [ "$(kept)" -ge 2200 ]
        [ "$(kept)" -lt 2350 ] # one a second comes
        [[ $(cat "$machine/attack") == *'refused=200'* ]]
        is_refused # one may come at the edge of a second
        as_user 4001 timeout 20 "$sublet" run --wait=10s --mem 1G -- true
        as_user 4002 timeout 20 "$sublet" run --mem 1G -- true
}

are_running() { [ "$("$sublet" ps --json | jq -c '[.[].state]')" = '["running","running"]' ]; }

# With 45 s for each of them, a daemon that waited would not be there in time.
@test "files that a container keeps others from opening do not hold the next daemon up, and what is leased stays so" {
        local since
        tmpfs=$(mktemp -d /dev/shm/sublet-leased-XXXXXX)
        daemon_start
        on "$sublet" lease --mem 8G "$tmpfs/one" > /dev/null
        on "$sublet" lease --mem 8G "$tmpfs/two" > /dev/null
        are_running
        daemon_end TERM
        mkfifo "$machine/in"
        "$attacks/attack-region-leased" "$tmpfs"/*/region < "$machine/in" > "$machine/attack" 2>&1 3>&- &
        attacker=$!
        exec 7> "$machine/in"
        wait_for grep -q '^leased=2' "$machine/attack" || skip "$(cat "$machine/attack")"
        # shellcheck disable=SC2016 # for the inner shell
        run -124 timeout 2 sh -c ': <> "$1"' - "$tmpfs/one/region"
        since=$SECONDS
        daemon_start 7>&- # the attack ends with the last who has it open
        [ $((SECONDS - since)) -lt 25 ]
        [ "$("$sublet" ps -q | sort | paste -sd,)" = one,two ]
        run ! as_user 4001 "$sublet" run --mem 10G -- true
        attack_end
        wait_for are_running
}

# answers_until SECONDS: how long an answer of the daemon's takes at most until $SECONDS is that
answers_until() {
        local from took slowest=0
        while [ "$SECONDS" -lt "$1" ]; do
                from=$(date +%s%N)
                "$sublet" ps -q > /dev/null
                took=$((($(date +%s%N) - from) / 1000000))
                [ "$took" -le "$slowest" ] || slowest=$took
                sleep 0.2
        done
        echo "an answer took at most $slowest ms"
        [ "$slowest" -lt 5000 ]
}

# The servers of these two let go after 15 s; a daemon that waits answers nobody until then.
@test "a program on a device that does not let itself be looked at does not hold the daemon up" {
        local name=$BATS_TEST_TMPDIR/said
        daemon_start
        lodger inside --preload --attach=never --mem 64M -- sleep 60 # only then is anything looked for
        on "$attacks/attack-exec-beside" > "$name" 2>&1 3>&- &
        attacker=$!
        wait_for eval 'grep -q "^executes\|^cannot" "$name" || ! kill -0 "$attacker"'
        [[ $(cat "$name") != cannot=* ]] || skip "$(cat "$name")"
        answers_until $((SECONDS + 8))
        "$sublet" events | grep 'STRANGER.*does not let itself be looked at'
        kill -KILL "$attacker"
        attacker=''
}

@test "nor does a process of a suspended tenant" {
        local name=$BATS_TEST_TMPDIR/said
        daemon_start --suspend-by checkpoint
        mkfifo "$machine/in"
        on "$sublet" run -q --name asleep --mem 2G -- "$attacks/attack-exec-suspended" < "$machine/in" > "$name" 2>&1 3>&- &
        attacker=$!
        exec 7> "$machine/in"
        wait_for grep -q '^ready\|^cannot' "$name"
        [[ $(cat "$name") != cannot=* ]] || skip "$(cat "$name")"
        "$sublet" suspend asleep
        echo >&7
        answers_until $((SECONDS + 8))
        [ "$(of asleep state)" = suspended ]
        exec 7>&-
        wait_for eval '! kill -0 "$attacker"' # its books are empty then
        attacker=''
}
