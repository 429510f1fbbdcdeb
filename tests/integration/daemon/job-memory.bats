#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Memory that tenants of one job have of each other: IPC handles and descriptors open, are charged to their owner as
# long as anybody holds them, and to nobody else's job.
# shellcheck disable=SC2154 # what machine.bash and daemon.bash set
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 24G
        daemon_start
        before=$(free_mib 0)
        share=$plain/tests/gpu/gpu-share
        file=$machine/handle
}

teardown() {
        touch "$file.end" 2> /dev/null || true
        node_end
        machine_end
}

says() { grep -q "$2" "$machine/$1"; }
held() { echo $(($(of "$1" held_bytes) / MIB)); }
# kill_program HOW: the program itself, not sublet run
kill_program() { pkill -KILL -f "^$share $1 $file"; }

# told NAME TENANT
told() { "$sublet" events --json | jq -se --arg n "$1" --arg t "$2" 'any(.name == $n and .tenant == $t)'; }

again_is() { grep -qx "$1" "$file.again"; }

# giver HOW [OPTION...]: 512 MiB, in a quota with no room for as much again
giver() {
        local how=$1
        shift
        lodger giver --mem 1200M "$@" -- "$share" "$how" "$file" 512
        if [ "$how" = give ]; then wait_for test -s "$file"; else wait_for says giver CUDA_SUCCESS; fi
}

# taker HOW [OPTION...]: 800 MiB, of which a context takes most, so nothing of 512 fits
taker() {
        local how=$1
        shift
        lodger taker --mem 800M "$@" -- "$share" "$how" "$file"
}

@test "an IPC handle of a tenant of the same job opens, and is charged to its owner alone" {
        giver give --job training
        taker take --job training
        wait_for says taker 'take=CUDA_SUCCESS seen=5eedf00d'
        [ "$(held taker)" -lt 700 ]
        [ "$(held giver)" -gt 900 ]
        # Both sides are told what the one holds of the other's.
        wait_for eval '"$sublet" inspect taker | grep -qx "  borrowed   512 MiB of giver"'
        wait_for eval '"$sublet" inspect giver | grep -qx "  lent       512 MiB to taker"'
        "$sublet" ps | grep -q '^taker .* / 800 MiB +512 MiB '
}

@test "a descriptor of a tenant of the same job opens, and is charged to its owner alone" {
        giver offer --job training
        taker fetch --job training
        wait_for says taker 'fetch=CUDA_SUCCESS seen=5eedf00d'
        [ "$(held taker)" -lt 700 ]
        [ "$(held giver)" -gt 900 ]
}

# stays_charged GIVE TAKE: what the owner has freed is its own charge until the taker lets go
stays_charged() {
        giver "$1" --job training
        taker "$2" --job training
        wait_for says taker seen=5eedf00d
        touch "$file.free"
        wait_for again_is CUDA_ERROR_OUT_OF_MEMORY
        [ "$(held giver)" -gt 900 ]
        kill_program "$2"
        wait_for again_is CUDA_SUCCESS # the taker's end has returned it
}

@test "memory of an IPC handle that its owner frees stays charged to it until a killed taker is gone" {
        stays_charged give take
}

@test "memory of a descriptor that its owner frees stays charged to it until a killed taker is gone" {
        stays_charged offer fetch
}

# without a taker the same memory fits again: what stays_charged sees is the loan
@test "memory that nobody has opened is free at once" {
        giver give --job training
        touch "$file.free"
        wait_for again_is CUDA_SUCCESS
}

@test "another job, no job, and another job's descriptor are refused, and told" {
        giver give --job training
        run on "$sublet" run -q --mem 1200M --job other -- "$share" take "$file"
        [ "$status" -eq 3 ]
        [[ $output == *take=CUDA_ERROR_* ]]
        [[ $output != *5eedf00d* ]]
        run on "$sublet" run -q --mem 1200M -- "$share" take "$file"
        [ "$status" -eq 3 ]
        touch "$file.end"
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        rm -f "$file" "$file.end"
        giver offer --job training
        run on "$sublet" run -q --mem 1200M --job other -- "$share" fetch "$file"
        [ "$status" -eq 3 ]
        [[ $output == *fetch=CUDA_ERROR_* ]]
        "$sublet" events --json | jq -se 'map(select(.name == "FOREIGN_OBJECT")) | length >= 3'
}

@test "an owner that ends stays listed with its charge until its taker has let go" {
        giver give --job training
        taker take --job training
        wait_for says taker seen=5eedf00d
        kill_program give
        wait_for told LENT_AT_END giver
        [ "$(held giver)" -gt 400 ]
        touch "$file.end"
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        wait_for eval '[ "$(free_mib 0)" = "$before" ]'
}

shim_of() { # the field is older than its word
        local field=keep
        of "$1" "${field}er"
}

@test "when the owner's shim is killed, its taker is ended: nobody would be charged" {
        giver give --job training
        taker take --job training
        wait_for says taker seen=5eedf00d
        kill -KILL "$(shim_of giver)"
        wait_for told LENDER_LOST taker
        wait_for eval '[ -z "$("$sublet" ps -q)" ]'
        kill_program give # without a shim it holds what it has, as ever
        wait_for eval '[ "$(free_mib 0)" = "$before" ]'
}

@test "when the taker's shim is killed, the owner's charge returns with the taker's last process" {
        giver give --job training
        taker take --job training
        wait_for says taker seen=5eedf00d
        touch "$file.free"
        wait_for again_is CUDA_ERROR_OUT_OF_MEMORY
        kill -KILL "$(shim_of taker)"
        wait_for told KEEPER_DIED taker
        wait_for again_is CUDA_ERROR_OUT_OF_MEMORY # its program still has the memory
        kill_program take
        wait_for again_is CUDA_SUCCESS
}

@test "a job works without its daemon" {
        giver give --job training
        lodger taker --mem 800M --job training -- sh -c "while [ ! -e '$file.go' ]; do sleep 0.02; done; exec '$share' take '$file'"
        daemon_end KILL
        touch "$file.go"
        wait_for says taker 'take=CUDA_SUCCESS seen=5eedf00d'
        daemon_start
        wait_for eval '[ "$(held giver)" -gt 900 ]'
}

# ---- attacks by bare driver calls (tests/hostile/lent.c) -------------------------------------------------------

lent() { printf %s "$plain/tests/hostile/attack-lent"; }

# taken JOB: 1 if a tenant of that job gets what FILE names, else 0
taken() { value took "$(on "$sublet" run -q --mem 1G --job "$1" -- "$(lent)" take "$file")"; }

# stands TRY: a tenant of another job makes a client at once after the simulator was told the next one's number
stands() {
        lodger "stand$1" --mem 1G --job other -- sh -c "while [ ! -e '$file.now$1' ]; do sleep 0.02; done; exec '$(lent)' stand '$file'"
        on "$sublet" sim --dir "$machine" --fault next-client=$(($(cut -d' ' -f1 "$file") - 0xc1d00000))
        touch "$file.now$1"
        wait_for test -s "$file.stand"
        [ "$(cat "$file.stand")" = "$(cat "$file")" ]
}

# reused close|free: the owner's client goes, and a tenant of another job gets its number, with memory of that handle
reused() {
        lodger giver --mem 1G --job training -- "$(lent)" give "$file"
        wait_for test -s "$file"
        [ "$(taken training)" = 1 ] # the positive control
        touch "$file.$1"
        wait_for test -s "$file.gone"
        for try in 1 2 3 4 5 6 7 8 9 10; do # the daemon makes clients of its own at times, and may have taken the number
                stands "$try" && break
                "$sublet" end "stand$try" > /dev/null
                [ "$try" -lt 10 ] && rm "$file.stand"
        done
        [ "$(cat "$file.stand")" = "$(cat "$file")" ] || { echo "no attack: $(cat "$file.stand" "$file")"; return 1; }
        [ "$(taken training)" = 0 ]
        [ "$(taken other)" = 1 ] # it is memory of that job now
}

@test "a client number that is used again by another job, after its owner has freed it, names nothing of the job's" {
        reused free
}

@test "nor after its owner has closed all its descriptors, of which no driver call tells" {
        reused close
}

@test "a job of the same name of another user is another job" {
        chmod 755 "$machine"
        lodger giver --mem 1G --job training -- "$(lent)" give "$file"
        wait_for test -s "$file"
        [ "$(taken training)" = 1 ]
        run -0 on setpriv --reuid 4711 --regid 4711 --clear-groups "$sublet" run -q --mem 1G --job training -- "$(lent)" take "$file"
        [[ $output == *took=0* ]]
}
