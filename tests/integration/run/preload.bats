#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The quota kept inside the program, by libsublet.so: nobody supervises, and no program is disturbed.
# variants: plain, because a library with a sanitizer does not go into programs without
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start --memory 24G
        interposed=$plain/tests/gpu/gpu-interposed
        library=$plain/src/preload/libsublet.so
}

teardown() {
        machine_end
}

# inside [OPTION...] -- COMMAND...: a tenant without a supervisor; its books go into $report
inside() {
        on "$plain/src/sublet" run --preload --json --report "$report" "$@"
}

# stops_at_the_quota FAMILY [QUOTA-MiB] [CUDA-ERROR]: as in quota.bats, where a supervisor does it
stops_at_the_quota() {
        local said mib=${2:-1024}
        said=$(inside --mem "${mib}M" -- "$families" "$1" 32)
        echo "$said" && cat "$report"
        [ "$(value last "$said")" = "${3:-CUDA_ERROR_OUT_OF_MEMORY}" ]
        [ "$(value got_mib "$said")" -ge 128 ]
        [ "$(value total_mib "$said")" -eq "$mib" ]
        [ "$(value free_mib "$said")" -lt 128 ]
        [[ $said == *$'\nafter=ok '* ]]
        [ "$(field quota_bytes)" -eq $((mib * MIB)) ]
        [ "$(field peak_bytes)" -le $((mib * MIB)) ]
        [ "$(field peak_bytes)" -ge $((mib * MIB / 10 * 9)) ]
        [ "$(field refusals)" -ge 1 ]
        [ "$(field held_bytes)" -eq 0 ]
}

# is_refused COMMAND...: its driver calls fail, it says so once on stderr, and nothing on stdout is ours
is_refused() {
        run --separate-stderr "$@"
        echo "$output" && echo "$stderr"
        [ "$status" -eq 1 ]
        [ "$output" = "driver: Operation not permitted" ]
        [ "$(grep -c '^sublet: no driver call is made: ' <<< "$stderr")" -eq 1 ]
}

@test "cuMemAlloc, pitched, 1D, 3D and mipmapped memory stops at the quota inside" {
        for family in alloc pitch array array3d mipmap; do
                stops_at_the_quota $family
        done
}

@test "pools, virtual memory and graphs stop at the quota inside" {
        for family in async vmm graph; do
                stops_at_the_quota $family
        done
}

@test "managed memory stops at the quota inside" {
        stops_at_the_quota managed 1024 CUDA_ERROR_NOT_PERMITTED
}

@test "what two processes of a tenant share is charged to both, and stops at the quota" {
        stops_at_the_quota ipc 1536
        stops_at_the_quota mempool-export 1536
}

@test "a supervised tenant and one with the library inside get the same" {
        local outside within
        outside=$(tenant --mem 1G -- "$families" alloc 32)
        within=$(inside --mem 1G -- "$families" alloc 32)
        echo "$outside" && echo "$within"
        [ "$outside" = "$within" ]
}

@test "a libcuda that is opened by its path is no way around" {
        run inside --mem 1G -- "$interposed" dlopen "$plain/src/sim/cuda/libcuda.so.1"
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(value got_mib "$output")" -eq 480 ]
}

@test "functions that cuGetProcAddress gives are no way around" {
        run inside --mem 1G -- "$interposed" procaddress "$plain/src/sim/cuda/libcuda.so.1"
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(value got_mib "$output")" -eq 480 ]
}

@test "dlsym, RTLD_NEXT and dlvsym find the library" {
        run inside -- "$interposed" symbols
        echo "$output"
        [ "$output" = "default=libsublet.so next=libsublet.so versioned=libsublet.so" ]
}

@test "threads that take memory at once get the quota and not a byte more" {
        run inside --mem 1G -- "$interposed" threads 8
        echo "$output"
        [ "$output" = "got_mib=1024" ]
        [ "$(field refusals)" -eq 8 ]
}

@test "processes killed anywhere leave the books right" { # tests/all kills: 10 000
        local kills=${SUBLET_KILLS:-300}
        run inside --mem 4G -- "$interposed" forks "$kills"
        echo "$output" && cat "$report"
        [ "$output" = "killed=$kills" ]
        [ "$(field held_bytes)" -eq 0 ]
        [ "$(field peak_bytes)" -le $((9 * 64 * MIB)) ] # eight at a time; the sum is taken while they change
}

@test "a signal handler may make driver calls, wherever it interrupts" {
        run inside --mem 1G -- "$interposed" signals 1000
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(value bad "$output")" -eq 0 ]
        [ "$(value handled "$output")" -gt 0 ]
}

@test "a forked child has books of its own, and its parent's are left alone" {
        run inside --mem 1G -- "$interposed" fork
        [ "$output" = "child=0 parent=0" ]
        run inside --mem 1G -- "$interposed" spawn
        [ "$output" = "got_mib=1024" ]
}

@test "a program that closes everything does not lose its lease" {
        run inside --mem 1G -- "$interposed" close "$interposed" threads 2
        echo "$output"
        [ "$output" = "got_mib=1024" ]
}

@test "ld.so.preload guards what a cleared environment starts" {
        unshare -rm true 2> /dev/null || skip "no private mounts here"
        printf '%s\n%s\n' "$library" "$machine_preload" > "$machine/preload"
        run on unshare -rm sh -c 'touch /etc/ld.so.preload; mount --bind "$1" /etc/ld.so.preload || exit 77
                export LD_PRELOAD=
                exec "$2" run --preload --mem 1G -q -- env -i SUBLET_SIM="$SUBLET_SIM" "$3" threads 2' \
                - "$machine/preload" "$plain/src/sublet" "$interposed"
        [ "$status" -ne 77 ] || skip "no bind mounts here"
        echo "$output"
        [ "$output" = "got_mib=1024" ]
}

@test "without a lease nothing reaches the driver" {
        is_refused on env LD_PRELOAD="$library:$machine_preload" "$interposed" fork
}

@test "a lease that is no sealed page is refused" {
        cp /bin/true "$machine/file"
        is_refused on env LD_PRELOAD="$library:$machine_preload" GUEST="$interposed" PLACE="$machine/file" \
                bash -c 'exec 1000< "$PLACE"; exec "$GUEST" fork'
}

@test "a region that is none is refused" {
        head -c 300000 /dev/zero > "$machine/file"
        is_refused inside -q -- env -u LD_PRELOAD INNER="$library:$machine_preload" GUEST="$interposed" PLACE="$machine/file" \
                bash -c 'exec 1001<> "$PLACE"; LD_PRELOAD=$INNER exec "$GUEST" fork'
}

@test "no variable of the environment switches it off" {
        run inside --mem 1G -- env SUBLET=0 SUBLET_DISABLE=1 SUBLET_PRELOAD=0 SUBLET_DIR=/nonexistent "$interposed" threads 2
        [ "$output" = "got_mib=1024" ]
}

@test "the library exports what it stands before, and nothing else" {
        run sh -c 'nm -D --defined-only "$1" | grep " T " | sed "s/.* T //; s/@.*//" | sort | tr "\n" " "' - "$library"
        local calls
        calls=$(sed -n 's/^CALL( \([A-Za-z0-9_]*\),.*/\1/p' "$BATS_TEST_DIRNAME/../../../src/preload/calls.def" | sort | tr '\n' ' ')
        [ "$output" = "close close_range closefrom ${calls}dlsym dlsym dup dup2 dup3 ioctl mmap mmap64 munmap " ]
}

@test "time is not the library's: --share with --preload names the daemon" {
        run inside --share 30 -- true
        [ "$status" -eq 125 ]
        [[ $output == *daemon* ]]
}
