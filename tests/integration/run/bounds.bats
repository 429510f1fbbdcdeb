#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Promises in milliseconds or processor time, measured on the program as it is used. Each test takes the best or the
# median of several measurements, because other processes may use the machine meanwhile.
# variants: plain, because a sanitizer's time does not count
# alone: because tests beside it would be measured, too
bats_require_minimum_version 1.5.0
# shellcheck disable=SC2154 # what machine.bash, daemon.bash and lessor.bash set
load ../machine
load ../daemon
load ../lessor

setup() {
        machine_start --memory 64G
        stalled_before=$(stalled) began=$(now)
}

teardown() {
        local process
        exec 7>&- 8<&-
        for process in ${lessor:-} ${runner:-}; do
                kill -9 "$process" 2> /dev/null || true
        done
        node_end
        machine_end
}

now() { date +%s%N; }

# Microseconds in which some process waited for a processor (the kernel's pressure figures); 0 without such figures
stalled() { sed -n 's/^some.* total=//p' /proc/pressure/cpu 2> /dev/null | grep . || echo 0; }

# holds VALUE BOUND UNIT: fails above it; says loudly that nothing is known if others kept the processors all the time
holds() {
        local share
        echo "$1 $3, at most $2"
        [ "$1" -gt "$2" ] || return 0
        share=$((($(stalled) - stalled_before) * 100 * 1000 / ($(now) - began)))
        [ "$share" -lt 70 ] || skip "the machine is busy ($share% of the time somebody waits for a processor): $1 $3 where $2 are promised"
        return 1
}

# lessor_node_start [OPTION...]: a lessor with a directory of its own
lessor_node_start() {
        node=$machine/node
        mkdir -p "$node"
        export SUBLET_DIR=$node
        lessor_start "$@"
}

@test "a change is in force when it is answered, within 10 ms" {
        daemon_start
        lodger one --mem 8G -- sleep 60
        for ((i = 0; i < 40; i++)); do
                curl -sS --max-time 10 --unix-socket "$SUBLET_DIR/sublet.sock" http://sublet/v1/tenants/one -X PATCH \
                        -d "{\"mem\":\"$((2 + i % 5))G\",\"share_permille\":$((100 + i))}" -o /dev/null -w '%{http_code} %{time_total}\n'
        done > "$machine/times"
        [ "$(grep -c '^200 ' "$machine/times")" -eq 40 ]
        holds "$(awk '{ print int($2 * 1000000) }' "$machine/times" | sort -n | sed -n 36p)" 10000 "us, nine of ten"
}

@test "a tenant's death is accounted for within 10 ms of its last process's" {
        local best=1000000
        for _ in 1 2 3 4 5; do
                lessor_node_start
                runner_start -- "$load_program" -t 30 sync
                wait_for has_channels
                tell death "$(pgrep -P "$runner" | head -1)"
                echo "us: $(number took)"
                [ "$(number took)" -gt "$best" ] || best=$(number took)
                wait "$runner" || true
                kill -9 "$lessor"
        done
        holds "$best" 10000 "us, the best of five"
}

@test "a killed daemon disables no tenant: all run within a second" {
        local start
        lessor_node_start --off
        runner_start -- "$load_program" -k 1000 -t 0.2 sync
        wait_for has_channels
        sleep 1
        start=$(now)
        kill -9 "$lessor"
        wait "$runner"
        holds $((($(now) - start) / 1000000)) 1500 "ms, of which 200 are its work, and its end"
}

@test "200 tenants cost the daemon less than a twentieth of a core" {
        local before start spent
        daemon_start
        for ((i = 0; i < 200; i++)); do
                on "$sublet" run -q --name "t$i" --mem 256M -- sleep 120 < /dev/null > /dev/null 2>&1 3>&- &
                supervisors+=("$!")
        done
        wait_for eval '[ "$("$sublet" ps --json | jq "[.[] | select(.state == \"running\")] | length")" -eq 200 ]'
        before=$(awk '{ print $14 + $15 }' "/proc/$daemon/stat") start=$(now)
        sleep 5
        spent=$(($(awk '{ print $14 + $15 }' "/proc/$daemon/stat") - before))
        echo "$spent ticks of $(getconf CLK_TCK) a second in $((($(now) - start) / 1000000)) ms"
        [ $((spent * 20 * 1000)) -lt $((($(now) - start) / 1000000 * $(getconf CLK_TCK))) ]
        curl -sS --unix-socket "$SUBLET_DIR/sublet.sock" http://sublet/metrics | grep -q '^sublet_tenants 200$'
}
