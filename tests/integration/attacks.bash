# SPDX-License-Identifier: Apache-2.0
# What the suites of attacks share (tests/hostile), besides machine.bash.
# shellcheck shell=bash disable=SC2034,SC2154  # what the tests read, what bats and machine.bash set
QUOTA=1024
SLACK=16 # MiB; the larger of it and half a percent

setup() {
        machine_start --memory 24G
        export QUOTA_MIB=$QUOTA
        before=$(free_mib 0)
}

teardown() {
        [ -z "${attacker:-}" ] || kill -KILL "$attacker" 2> /dev/null || true
        machine_end
}

# held_now: sets $now to what the device holds besides what it held before, in MiB. What cannot be read is no 0.
held_now() {
        local free
        free=$(free_mib 0 2> "$BATS_TEST_TMPDIR/unread") || true
        [[ $free = [0-9]* ]] || { echo "the device's free memory cannot be read: $(cat "$BATS_TEST_TMPDIR/unread")"; return 1; }
        now=$((before - free))
}

# all_back: the device holds what it held before
all_back() {
        local now
        held_now && [ "$now" -eq 0 ]
}

# attack NAME COMMAND...: what the device holds for it at the worst, in MiB, in $held; what it said in $said. It has
# five minutes: the longest takes one.
attack() {
        local out=$BATS_TEST_TMPDIR/out in=$BATS_TEST_TMPDIR/in most=0 now name=$1 since=$SECONDS
        shift
        rm -f "$in" "$out" && mkfifo "$in"
        "$@" "$plain/tests/hostile/attack-$name" < "$in" > "$out" 2> "$out.err" 3>&- &
        attacker=$!
        exec 7> "$in"
        while kill -0 "$attacker" 2> /dev/null && ! grep -q '^holding' "$out"; do
                [ $((SECONDS - since)) -lt 300 ] || { echo "$name: it is not done after 300 s; $(cat "$out" "$out.err")"; return 1; }
                held_now || return 1
                [ "$now" -le "$most" ] || most=$now
                sleep 0.2
        done
        held_now || return 1
        [ "$now" -le "$most" ] || most=$now
        exec 7>&-
        wait "$attacker" || true
        attacker=''
        held=$most said=$(cat "$out" "$out.err")
        echo "$name: the device held $held MiB; $said"
}

# stops NAME [OPTION...]: without a gate past the quota, with one not
stops() {
        local name=$1 allowed=$((QUOTA + SLACK))
        shift
        SETTLE_MSEC=100 attack "$name" on # nothing settles where there is no gate
        [[ $said != *cannot=* ]] || skip "${said#*cannot=}"
        [ "$held" -gt $((QUOTA + SLACK)) ] || { echo "no attack: without a gate it had $held MiB"; return 1; }
        wait_for all_back
        attack "$name" tenant --mem ${QUOTA}M "$@" --
        [ "$held" -le "$allowed" ] || { echo "past the quota: $held MiB of $QUOTA"; return 1; }
        wait_for all_back # all of it came back
}

# keeps NAME [OPTION...]: where the simulator cannot play the device without a gate (bare system calls), so that only
# tests/gpu/hostile.sh has the positive control: as a tenant it gets its quota, and no more
keeps() {
        local name=$1 allowed=$((QUOTA + SLACK))
        shift
        attack "$name" tenant --mem ${QUOTA}M "$@" --
        [[ $said != *cannot=* ]] || skip "${said#*cannot=}"
        [ "$held" -ge $((QUOTA - 64)) ] || { echo "no attack: it got $held MiB of $QUOTA"; return 1; }
        [ "$held" -le "$allowed" ] || { echo "past the quota: $held MiB of $QUOTA"; return 1; }
        wait_for all_back
}
