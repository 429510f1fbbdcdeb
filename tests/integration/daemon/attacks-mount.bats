#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A tenant with a file of a mount that answers nobody (tests/hostile/blocked_mount.c), beside one that allocates: for
# that one it makes no difference.
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
# alone: because what calls take is compared
# variants: plain, because the programs are not built with a sanitizer and the claim is about time
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 24G
        daemon=''
        daemon_start
}

teardown() {
        exec 8>&- || true
        [ -z "${other:-}" ] || wait "$other" 2> /dev/null || true
        node_end
        machine_end
}

# took [PREFIX]: p50 and p99 of allocations and of what is freed, by an honest tenant, in tenths of microseconds
took() {
        on "$sublet" run -q --name honest --mem 4G -- "$plain/tests/hostile/gpu-gatecalls" honest 4 > "$BATS_TEST_TMPDIR/took"
        jq -r '[.alloc_1.p50, .free_1.p50, .alloc_1.p99, .free_1.p99] | map(. * 10 | floor) | @tsv' "$BATS_TEST_TMPDIR/took"
}

mount_begin() {
        rm -f "$BATS_TEST_TMPDIR/other.in"
        mkfifo "$BATS_TEST_TMPDIR/other.in"
        QUOTA_MIB=64 on "$sublet" run -q --name other --mem 1G -- "$plain/tests/hostile/attack-blocked-mount" \
                < "$BATS_TEST_TMPDIR/other.in" > "$BATS_TEST_TMPDIR/other" 3>&- &
        other=$!
        exec 8> "$BATS_TEST_TMPDIR/other.in"
        wait_for grep -q '^holding\|^cannot' "$BATS_TEST_TMPDIR/other"
}

mount_end() {
        exec 8>&-
        wait "$other" || true
        other=''
}

# In one of six tries: whatever else the machine does meanwhile makes one of them slower.
@test "a tenant that allocates does so as fast beside one with a mount that answers nobody" {
        local try before beside i
        [ "$(id -u)" -eq 0 ] || skip "not root: cannot mount what everybody would wait for"
        for try in 1 2 3 4 5 6; do
                read -ra before <<< "$(took)"
                mount_begin
                ! grep -q '^cannot' "$BATS_TEST_TMPDIR/other" || skip "$(cat "$BATS_TEST_TMPDIR/other")"
                read -ra beside <<< "$(took)"
                kill -0 "$other" # it was there all the time
                mount_end
                echo "$try: alloc and free, p50 and p99: ${before[*]}, beside the mount ${beside[*]}"
                [ ${#before[@]} -eq 4 ] && [ ${#beside[@]} -eq 4 ]
                for i in 0 1; do # a quarter more at p50, as much again at p99
                        [ "${beside[i]}" -le $((before[i] * 5 / 4)) ] && [ "${beside[i + 2]}" -le $((before[i + 2] * 2)) ] || continue 2
                done
                return 0
        done
        return 1
}
