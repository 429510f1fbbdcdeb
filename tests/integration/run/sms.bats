#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --sms: whichever context a program makes current, it computes on its part of the multiprocessors only.
# variants: plain address, because quota.bats and steer.bats have the same threads
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        sms=$plain/tests/gpu/gpu-sms
}

teardown() {
        node_end
        machine_end
}

# part SMS [OPTION...] -- COMMAND...: a tenant with a part of the device
part() {
        local size=$1
        shift
        on "$plain/src/sublet" run --preload --sms "$size" --json --report "$report" "$@"
}

# rates TEXT: one line for each kind of context
rates() { sed -n 's/.* rate=\([0-9.]*\).*/\1/p' <<< "$1"; }

# all_are TEXT RATE PERCENT: every rate is RATE, within PERCENT
all_are() {
        rates "$1" | awk -v want="$2" -v off="$3" '{ n++; if ($1 > want * (1 + off / 100) || $1 < want * (1 - off / 100)) bad = 1 } END { exit bad || !n }'
}

@test "every kind of context and stream has the tenant's part: 25, 50 and 100 percent" {
        local whole all said
        machine_start
        all=$(on "$sms" primary)
        whole=$(rates "$all")
        for row in "25% 32" "50% 64" "100% 132" "64 64" "30 32"; do
                read -r size given <<< "$row"
                said=$(part "$size" -- "$sms" count runtime primary created thread stream graph reset)
                echo "--sms $size: $said" && cat "$report"
                [ "$(value count "$said")" -eq "$given" ]
                [ "$(rates "$said" | wc -l)" -eq 7 ]
                all_are "$said" "$(awk -v r="$whole" -v n="$given" 'BEGIN { print r * n / 132 }')" 6
                [ "$(field given)" -eq "$given" ]
                [ "$(field of)" -eq 132 ]
                [ "$(field held_bytes)" -eq 0 ]
        done
}

@test "a program that divides the device itself divides its part" {
        machine_start
        run part 32 -- "$sms" -g 16 primary
        echo "$output"
        [[ $output == *"all=32 asked=16 given=16"* ]]
        run ! part 32 -- "$sms" -g 40
        [[ $output == *CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION* ]]
}

@test "without --sms the library leaves contexts alone" {
        machine_start
        run on "$plain/src/sublet" run --preload --json --report "$report" -- "$sms" count -g 32 primary
        echo "$output"
        [[ $output == *count=132*"all=132 asked=32 given=32"* ]]
        run ! grep -q multiprocessors "$report"
}

@test "the memory quota holds in a part as it does without one" {
        machine_start
        run part 25% --mem 1G -- "$families" alloc 32
        echo "$output"
        [ "$(value last "$output")" = CUDA_ERROR_OUT_OF_MEMORY ]
        [ "$(field peak_bytes)" -le $((1024 * MIB)) ]
        [ "$(field held_bytes)" -eq 0 ]
}

@test "an impossible part is refused in one line, and nothing runs on more" {
        machine_start
        run --separate-stderr part 133 -- "$sms" count primary
        echo "$output" && echo "$stderr"
        [ "$status" -eq 3 ]
        [ "$(grep -c '^sublet: no context is made: --sms 133: device 0 has 132 multiprocessors$' <<< "$stderr")" -eq 1 ]
        [[ $stderr == *CUDA_ERROR_NOT_SUPPORTED* && $output != *rate* ]]
        node_end
        machine_end
        machine_start --driver 535.288.01
        run part 25% -- true
        [ "$status" -ne 0 ]
        [ "$output" = "sublet: --sms needs a driver with green contexts, 550 or newer; this is 535" ]
}

@test "--sms names where it works" {
        machine_start
        run on "$plain/src/sublet" run --sms 25% -- true
        [ "$status" -eq 2 ]
        [[ $output == *"add --preload, --mode spatial or --group"* ]]
        for wrong in 0 0% 101% 5000 many -1 25%%; do
                run on "$plain/src/sublet" run --preload --sms "$wrong" -- true
                [ "$status" -eq 2 ]
                [[ $output == "sublet: --sms $wrong: a part of the multiprocessors, such as 25% or 32" ]]
        done
}

@test "a tenant of the daemon has its part, and the API shows it" {
        machine_start
        daemon_start
        sublet=$plain/src/sublet # what goes into programs is not built with a sanitizer; daemon and shims are
        for attach in never auto; do
                run on "$sublet" run -q --preload --attach=$attach --sms 25% --mem 8G -- "$sms" count primary graph
                echo "$output"
                [ "$status" -eq 0 ]
                [ "$(value count "$output")" -eq 32 ]
        done
        mkdir "$machine/barrier"
        wait_for eval '[ -z "$("$sublet" ps -q)" ]' # an ended one is listed until its shim has gone
        run -0 "$sublet" ps
        [[ $output == TENANT* && $output != *SMS* ]]
        lodger half --preload --attach=never --sms 50% --mem 8G -- "$sms" steady "$machine/barrier" half
        wait_for eval '[ -e "$machine/barrier/half.ready" ]'
        [ "$(of half sms)" = 50% ]
        lodger other --preload --attach=never --mem 8G -- sleep 60
        "$sublet" ps
        "$sublet" ps | grep -qE '^TENANT .* CAP +SMS +CLASS '
        "$sublet" ps | grep -qE '^half .*% +- +- +50% +normal +preload '
        "$sublet" ps | grep -qE '^other .*% +- +- +- +normal +preload '
        touch "$machine/barrier/go"
        wait_for eval 'grep -q count=64 "$machine/half"'
        run on "$sublet" run --preload --sms 9% --attach=never -- "$sms" count
        [[ $output == *count=8* ]]
}

@test "a mounted lease has its part" {
        machine_start
        unshare -m true 2> /dev/null || skip "no mount namespaces here"
        tmpfs=$(mktemp -d /dev/shm/sublet-sms-XXXXXX)
        on "$plain/src/sublet" lease --no-daemon --mem 8G --sms 64 "$tmpfs/chat" > /dev/null
        # shellcheck disable=SC2016  # for the inner shell
        run on unshare -m sh -c 'mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/sublet/lease &&
                mount --bind "$1" /run/sublet/lease && mount -o remount,bind,ro /run/sublet/lease &&
                mount --bind "$1/region" /run/sublet/lease/region && shift &&
                LD_PRELOAD=/run/sublet/lease/libsublet.so:$LD_PRELOAD exec "$@"' - "$tmpfs/chat" "$sms" count primary
        rm -rf "$tmpfs"
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(value count "$output")" -eq 64 ]
}
