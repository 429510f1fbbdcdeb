#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Memory that one program hands to another: within a tenant it is one charge; between two it is refused,
# or charged to both.
# variants: plain address, because quota.bats has the same threads
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        machine_start --memory 24G
        share=$plain/tests/gpu/gpu-share
        file=$BATS_TEST_TMPDIR/handle
}

teardown() {
        touch "$file.end"
        machine_end
}

# A giver of 512 MiB is there, under the options given
giver() {
        report=$BATS_TEST_TMPDIR/giver.json tenant --name giver --mem 2G "$@" -- "$share" give "$file" 512 3>&- > "$BATS_TEST_TMPDIR/giver" &
        giver=$!
        wait_for test -s "$file"
}

@test "within a tenant it works, and is charged once" {
        local said
        # One context is a quota of 1 GiB short of two contexts and twice the memory.
        said=$(tenant --mem 2G -- sh -c "
                '$share' give '$file' 512 & while [ ! -s '$file' ]; do sleep 0.05; done
                '$share' take '$file' & sleep 1; touch '$file.end'; wait")
        echo "$said" && cat "$report"
        [[ $said == *'take=CUDA_SUCCESS seen=5eedf00d'* ]]
        [ "$(field peak_bytes)" -ge $((512 * MIB)) ]
        [ "$(field peak_bytes)" -lt $((2048 * MIB)) ]
        [ "$(field refusals)" -eq 0 ]
        books_are_empty
}

@test "another tenant's is refused by default, and told" {
        giver
        run tenant --name taker --mem 2G -- "$share" take "$file"
        echo "$output" && cat "$report"
        [ "$status" -eq 3 ]
        [[ $output == *take=CUDA_ERROR_* ]]
        [[ $output != *5eedf00d* ]]
        [[ $(cat "$report") =~ \"(FOREIGN_OBJECT|DENIED)\":[1-9] ]]
        touch "$file.end"
        wait "$giver"
        books_are_empty
}

@test "a refusal does the giver no harm" {
        giver
        run tenant --name taker --mem 2G -- "$share" take "$file"
        [ "$status" -eq 3 ]
        touch "$file.end"
        wait "$giver"
        [ "$(cat "$BATS_TEST_TMPDIR/giver")" = 'give=ok mib=512' ]
        [ "$(field held_bytes "$BATS_TEST_TMPDIR/giver.json")" -eq 0 ]
}

@test "with --ipc=host it works between tenants, and each is charged" {
        local alone
        tenant --name taker --mem 2G -- "$families" start > /dev/null
        alone=$(field peak_bytes)
        giver --ipc=host
        {
                sleep 1
                touch "$file.end"
        } 3>&- &
        run tenant --name taker --mem 2G --ipc=host -- "$share" take "$file"
        echo "$output" && cat "$report"
        [ "$status" -eq 0 ]
        [[ $output == *'take=CUDA_SUCCESS seen=5eedf00d'* ]]
        [ "$(field peak_bytes)" -ge $((alone + 480 * MIB)) ]
        books_are_empty
        wait "$giver"
        [ "$(field peak_bytes "$BATS_TEST_TMPDIR/giver.json")" -ge $((512 * MIB)) ]
        [ "$(field held_bytes "$BATS_TEST_TMPDIR/giver.json")" -eq 0 ]
}

@test "with --ipc=host what the driver tells no size of is refused, not taken for nothing" {
        giver --ipc=host
        "$plain/src/sublet" sim --dir "$machine" --fault no-size=1
        run tenant --name taker --mem 2G --ipc=host -- "$share" take "$file"
        "$plain/src/sublet" sim --dir "$machine" --fault no-size=0
        echo "$output" && cat "$report"
        [ "$status" -eq 3 ]
        [ "$(field FOREIGN_OBJECT)" -gt 0 ]
        touch "$file.end"
        wait "$giver"
        books_are_empty
}

@test "with --ipc=host what does not fit the taker's quota is refused" {
        giver --ipc=host
        run tenant --name taker --mem 800M --ipc=host -- "$share" take "$file"
        echo "$output" && cat "$report"
        [ "$status" -eq 3 ]
        [ "$(field peak_bytes)" -le $((800 * MIB)) ]
        touch "$file.end"
        wait "$giver"
}
