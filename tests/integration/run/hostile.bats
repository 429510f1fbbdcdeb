#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A tenant that knows the driver's calls and makes them itself gets no byte, channel or object more.
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start --memory 24G
        hostile=$plain/tests/gpu/gpu-hostile # bare system calls
}

teardown() {
        machine_end
}

# takes_only_the_quota SPELLING
takes_only_the_quota() {
        local said
        said=$(tenant --mem 1G -- "$hostile" "--$1" --steps 64)
        echo "$said" && cat "$report"
        [ "$(value got_mib "$said")" -eq 1024 ]
        [[ $said == *'status=0x51'* ]] # NV_ERR_NO_MEMORY
        [[ $said == *'freed n=16 total_mib=1024 free_mib=1024 '* ]]
        [ "$(field peak_bytes)" -eq $((1024 * MIB)) ]
        [ "$(field refusals)" -eq 1 ]
        books_are_empty
}

@test "without a supervisor the same program takes the whole device" {
        local said
        said=$(on "$raw" --steps 1024)
        echo "$said"
        [ "$(value got_mib "$said")" -ge 22528 ]
}

@test "an allocation as CUDA spells it takes the quota and no more" {
        takes_only_the_quota plain
}

@test "an allocation by the heap's old call takes the quota and no more" {
        takes_only_the_quota legacy
}

@test "an allocation inside an XFER request takes the quota and no more" {
        takes_only_the_quota xfer
}

@test "a request with another type, direction or upper half takes the quota and no more" {
        takes_only_the_quota type
}

# refused_foreign SPELLING: a system call of another table is refused before any driver sees it
refused_foreign() {
        local said
        said=$(tenant --mem 1G -- "$hostile" "--$1" --steps 64)
        echo "$said" && cat "$report"
        [ "$(value got_mib "$said")" -eq 0 ]
        [[ $said == *"spelling=$1 mib=64 rc=-1 errno="* ]]
        [ "$(field peak_bytes)" -eq 0 ]
}

@test "i386 system calls carry nothing past the gate" {
        refused_foreign i386
}

@test "x32 system calls carry nothing past the gate" {
        refused_foreign x32
}

@test "two programs of a tenant at once take its quota together, and no more" {
        local said
        said=$(tenant --mem 1G -- sh -c "'$hostile' --max 768 --hold 1 & '$hostile' --max 768 --hold 1; wait")
        echo "$said"
        [ "$(printf '%s\n' "$said" | sed -n 's/^raw got_mib=\([0-9]*\).*/\1/p' | paste -sd+ | bc)" -eq 1024 ]
        [ "$(field peak_bytes)" -eq $((1024 * MIB)) ]
        books_are_empty
}

@test "memory of a program that ended is the tenant's again" {
        local said
        said=$(tenant --mem 1G -- sh -c "'$hostile' --max 1024 > /dev/null; '$hostile'")
        [ "$(value got_mib "$said")" -eq 1024 ]
        books_are_empty
}

@test "switching a neighbour's channel off is denied, and told" {
        local said
        said=$(tenant --mem 1G -- "$hostile" --disable-foreign)
        echo "$said" && cat "$report"
        [[ $said == *' off '* ]]
        [[ $said != *' off rc=0 errno=0 status=0x0'* ]]
        grep -q '"DENIED":1' "$report"
}

@test "a reference to a neighbour's memory is refused, and told" {
        local said neighbour=$BATS_TEST_TMPDIR/neighbour client
        on "$raw" --max 64 --hold 3 3>&- > "$neighbour" &
        wait_for grep -q '^raw ' "$neighbour"
        client=$(value client "$(cat "$neighbour")")
        said=$(tenant --mem 1G -- "$hostile" --dup "$client" 5c100000)
        wait $!
        echo "$said" && cat "$report"
        [[ $said == *"dup client=$client"* ]]
        [[ $said != *'rc=0 errno=0 status=0x0'* ]]
        grep -q '"FOREIGN_OBJECT":1' "$report"
        [ "$(field peak_bytes)" -eq 0 ]
}

@test "a tenant that makes itself undumpable is supervised all the same by root" {
        [ "$(id -u)" -eq 0 ] || skip "not root"
        local said
        said=$(tenant --mem 1G -- "$hostile" --undumpable)
        echo "$said"
        [ "$(value got_mib "$said")" -eq 1024 ]
        books_are_empty
}

@test "a tenant that a user's supervisor cannot read gets nothing" {
        [ "$(id -u)" -eq 0 ] || skip "not root: cannot become somebody else"
        local said
        chmod -R go+rwX "$machine" "$BATS_TEST_TMPDIR"
        run setpriv --reuid 65534 --regid 65534 --clear-groups env SUBLET_SIM="$machine_dir" LD_PRELOAD="$machine_preload" \
                "$sublet" run --mem 1G -- "$hostile"
        echo "$output"
        [[ $output == *'raw got_mib=1024 '* ]]
        run setpriv --reuid 65534 --regid 65534 --clear-groups env SUBLET_SIM="$machine_dir" LD_PRELOAD="$machine_preload" \
                "$sublet" run --mem 1G -- "$hostile" --undumpable
        echo "$output"
        [[ $output != *'raw got_mib='[1-9]* ]]
        [[ $output == *TENANT_UNREADABLE* ]]
}
