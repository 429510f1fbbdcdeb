#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A whole server: two devices joined by NVLink, natively and as a tenant. Needs gcc, the CUDA driver headers, PyTorch
# and JAX. TAP on stdout, raw output in ${OUT:-/tmp/sublet-gpu}/server.log; ends with tables.
#
#       tests/gpu/server.sh [PATH-OF-SUBLET]          about 7 minutes; PARTS="memory rates" (in order):
#
#       memory    families of memory, peers, frameworks: that they run, end at the quota and give all back. 4 minutes;
#                 SERVER_FAST=1: less, 100 s
#       jax       of that only JAX on one device with 10 GiB; 40 s
#       rates     all-reduce, DDP, FSDP and pmap of a tenant alone, within 1 % of native, by turns (rates.py). 170 s
#
# NVLink multicast stays off: it can put devices that others share out of service.
set -u
cd "$(dirname "$0")/../.." || exit 1
here=tests/gpu
sublet=$(realpath "${1:-build/src/sublet}") || exit 1
out=${OUT:-/tmp/sublet-gpu}
cuda=${CUDA_HOME:-/usr/local/cuda}
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2> /dev/null; rm -rf "$work"' EXIT
mkdir -p "$out" "$work/lanes"
log=$out/server.log
: > "$log"

{ uname -a; nvidia-smi; nvidia-smi topo -m; date -u; } >> "$log" 2>&1

field() { tr ' ' '\n' | sed -n "s/^$1=//p" | tail -1; }
# verdict NAME CONDITION...: a line of TAP, numbered at the end
verdict() { if [ "$2" ]; then echo "ok - $1"; else echo "not ok - $1"; fi; }
# as_tenant NAME QUOTA SECONDS COMMAND...: output in lanes/NAME.out, report in lanes/NAME.report; of devices GPUS (0,1)
as_tenant() {
        local name=$1 quota=$2 limit=$3
        shift 3
        timeout -k 2 "$limit" "$sublet" run --json --report "$work/lanes/$name.report" --gpu "${GPUS:-0,1}" --mem "$quota" -- "$@" \
                > "$work/lanes/$name.out" 2>&1 < /dev/null
}
natively() {
        local name=$1 limit=$2
        shift 2
        timeout -k 2 "$limit" "$@" > "$work/lanes/$name.out" 2>&1 < /dev/null
}
is_empty() { [ -s "$1" ] && ! grep -q '"held_bytes":[1-9]' "$1" && echo y; }

# ---- every family, both devices reach each other -----------------------------------------------
# pieces MIB QUOTA-MIB of each size; natively a family takes as much as the quota and no more
sizes=("1 2048" "64 6144" "512 12288" "1024 16384" "16384 40960")
families=(alloc pitch managed async vmm array array3d mipmap graph ipc mempool-export)
if [ "${SERVER_FAST:-}" ]; then
        sizes=("1 2048" "512 12288" "16384 40960")
        families=(alloc async vmm graph ipc mempool-export)
fi
# family_lane FAMILY: all sizes of one family, one line each
family_lane() {
        local family=$1 size step mib name got last native refused code
        for size in "${sizes[@]}"; do
                read -r step mib <<< "$size"
                [ "$family $step" = "mempool-export 16384" ] && continue # libcuda's importer ends, natively, too
                name=$family-$step
                FAMILIES_PEERS=1 natively "$name-native" 40 "$work/families" "$family" "$step" "$((mib - 2048 < step ? step : mib - 2048))"
                native=$(field got_mib < <(grep '^family=' "$work/lanes/$name-native.out"))
                FAMILIES_PEERS=1 as_tenant "$name" "${mib}M" 40 "$work/families" "$family" "$step"
                code=$?
                got=$(field got_mib < <(grep '^family=' "$work/lanes/$name.out"))
                last=$(field last < <(grep '^family=' "$work/lanes/$name.out"))
                refused=$(field last < <(grep '^family=' "$work/lanes/$name-native.out"))
                printf '%-15s %6s MiB of %6s: native %6s, tenant %6s %s\n' "$family" "$step" "$mib" "${native:-?}" \
                        "${got:-?}" "$last" >> "$work/lanes/table-$family"
                # Arrays have a largest size.
                if [ "$native $refused" = "0 CUDA_ERROR_INVALID_VALUE" ]; then
                        verdict "$family $step MiB: refused as natively" \
                                "$([ "$got $last" = "0 CUDA_ERROR_INVALID_VALUE" ] && is_empty "$work/lanes/$name.report")" >> "$work/lanes/tap-$family"
                        continue
                fi
                {
                        verdict "$family $step MiB: runs natively" "$(grep '^after=ok' "$work/lanes/$name-native.out")"
                        verdict "$family $step MiB: ends at the quota and is usable afterwards" \
                                "$([ $code = 0 ] && grep '^after=ok' "$work/lanes/$name.out" && [ "${got:-0}" -gt 0 ] && [ "$got" -le "$mib" ] && echo y)"
                        # Each graph takes 32 MiB of its own.
                        [ "$family $step" = "graph 1" ] || verdict "$family $step MiB: what is missing to the quota is less than contexts and one piece" \
                                "$([ "${got:-0}" -ge $((mib - step - 1900)) ] && echo y)"
                        verdict "$family $step MiB: nothing is held at the end" "$(is_empty "$work/lanes/$name.report")"
                        verdict "$family $step MiB: no call without a rule" "$(grep -qE 'UNKNOWN_(CLASS|CONTROL)' "$work/lanes/$name.out" || echo y)"
                } >> "$work/lanes/tap-$family"
        done
}
# Two at once: what they hold together must fit.
run_families() {
        local running=()
        for family in "${families[@]}"; do
                family_lane "$family" & running+=($!)
                if [ ${#running[@]} -ge 2 ]; then wait "${running[@]}"; running=(); fi
        done
        wait "${running[@]}"
}

# ---- memory of one device that the other uses -------------------------------------------------
run_peers() {
        local mode step name code
        for mode in plain async managed vmm vmm-fd ipc; do
                for step in 64 1024 4096; do
                        [ "${SERVER_FAST:-}" ] && [ "$step" = 4096 ] && continue
                        name=peers-$mode-$step
                        natively "$name-native" 20 "$work/peers" "$mode" "$step" 2
                        as_tenant "$name" 24G 20 "$work/peers" "$mode" "$step" 2
                        code=$?
                        {
                                verdict "peers $mode $step MiB: runs natively" "$(grep 'result=ok' "$work/lanes/$name-native.out")"
                                verdict "peers $mode $step MiB: as a tenant" "$([ $code = 0 ] && grep 'result=ok' "$work/lanes/$name.out")"
                                verdict "peers $mode $step MiB: nothing is held at the end" "$(is_empty "$work/lanes/$name.report")"
                        } >> "$work/lanes/tap-peers"
                done
        done
}

# ---- frameworks ----------------------------------------------------------------------------------
cat > "$work/both" <<'END'
#!/bin/bash
# both PROGRAM MODE: two ranks, one per device
store=$(mktemp -u)
python3 "$1" "$2" 0 "$store" &
python3 "$1" "$2" 1 "$store"
second=$?
wait $! && exit $second
END
chmod +x "$work/both"
# run_frameworks MODE...: one after the other
run_frameworks() {
        local mode code command
        for mode; do
                case $mode in
                one | jax) command=(python3 "$here/server.py" "$mode") ;;
                *) command=("$work/both" "$here/server.py" "$mode") ;;
                esac
                natively "torch-$mode-native" 60 "${command[@]}"
                as_tenant "torch-$mode" 24G 60 "${command[@]}"
                code=$?
                {
                        verdict "$mode: runs natively" "$(grep -E 'sum=|ok=1' "$work/lanes/torch-$mode-native.out")"
                        verdict "$mode: as a tenant" "$([ $code = 0 ] && grep -E 'sum=|ok=1' "$work/lanes/torch-$mode.out")"
                        verdict "$mode: nothing is held at the end" "$(is_empty "$work/lanes/torch-$mode.report")"
                        verdict "$mode: no call without a rule" "$(grep -qE 'UNKNOWN_(CLASS|CONTROL)' "$work/lanes/torch-$mode.out" || echo y)"
                } >> "$work/lanes/tap-torch-$mode"
        done
}

# JAX takes three quarters of what it sees: 7.2 GiB of 10.
run_jax_one() {
        local code held command=(python3 "$here/server.py" jax-one)
        if ! python3 -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("jax"))'; then
                echo 'ok - jax-one: six of 1 GiB with 10 GiB # SKIP no jax here' > "$work/lanes/tap-torch-jax-one"
                return
        fi
        CUDA_VISIBLE_DEVICES=0 natively torch-jax-one-native 60 "${command[@]}"
        GPUS=0 as_tenant torch-jax-one 10G 60 "${command[@]}"
        code=$?
        held=$(field held < "$work/lanes/torch-jax-one.out")
        {
                verdict 'jax-one: twelve of 1 GiB natively' "$(grep 'ok=1 held=12 ' "$work/lanes/torch-jax-one-native.out")"
                verdict "jax-one: six of 1 GiB with 10 GiB, and an end before the quota (${held:-none})" \
                        "$([ $code = 0 ] && grep -q ok=1 "$work/lanes/torch-jax-one.out" && [ "${held:-0}" -ge 6 ] && [ "$held" -lt 10 ] && echo y)"
                verdict 'jax-one: nothing is held at the end' "$(is_empty "$work/lanes/torch-jax-one.report")"
                verdict 'jax-one: no call without a rule' "$(grep -qE 'UNKNOWN_(CLASS|CONTROL)' "$work/lanes/torch-jax-one.out" || echo y)"
        } >> "$work/lanes/tap-torch-jax-one"
}
part_jax() { run_jax_one; }

part_memory() {
        local stubs program kit
        stubs="-L$cuda/lib64/stubs -L$cuda/targets/x86_64-linux/lib/stubs"
        for program in families peers fabricfacts; do
                kit=
                [ $program = fabricfacts ] && kit=tests/hostile/kit.c
                # shellcheck disable=SC2086  # lists
                gcc -O2 -std=gnu17 "$here/$program.c" $kit -I"$cuda/include" $stubs -lcuda -ldl -lpthread -o "$work/$program" || exit 1
        done
        natively facts 20 "$work/fabricfacts" # what the driver does, and no library
        run_families & lane1=$!
        run_peers & lane2=$!
        { run_frameworks one jax fsdp nvshmem; run_jax_one; } & lane3=$!
        wait $lane1 $lane2 $lane3
        run_frameworks reduce ddp # what is measured runs alone
}

# ---- a tenant alone, of native -------------------------------------------------------------------
part_rates() {
        local i
        export SUBLET_DIR=$work/node
        mkdir -p "$SUBLET_DIR"
        "$sublet" daemon --dir "$SUBLET_DIR" >> "$log" 2>&1 &
        daemon=$!
        for ((i = 0; i < 100; i++)); do [ ! -S "$SUBLET_DIR/tenant.sock" ] || break; sleep 0.1; done
        timeout -k 2 "${RATES_LIMIT:-175}" python3 "$here/rates.py" compare "$work/lanes/tap-rates" \
                "$sublet" run -q --name alone --gpu 0,1 --mem 32G --share 100 -- > "$work/lanes/rates" 2> "$work/lanes/rates.out"
        [ -s "$work/lanes/tap-rates" ] || verdict 'rates: the programs run' '' > "$work/lanes/tap-rates"
        for ((i = 0; i < 50; i++)); do [ -n "$("$sublet" ps -q)" ] || break; sleep 0.1; done
        verdict 'rates: nothing is left of the tenant' "$([ -z "$("$sublet" ps -q)" ] && echo y)" >> "$work/lanes/tap-rates"
        kill "$daemon" && wait "$daemon"
        daemon='' && unset SUBLET_DIR
}

for part in ${PARTS:-memory rates}; do
        declare -F "part_$part" > /dev/null || { echo "server.sh: PARTS has no '$part'" >&2; exit 2; }
        "part_$part"
done

# ---- tables ----------------------------------------------------------------------------------------
tail -n +1 "$work"/lanes/*.out "$work"/lanes/*.report >> "$log" 2>/dev/null
[ ! -e "$work/lanes/facts.out" ] || cat "$work/lanes/facts.out"
cat "$work"/lanes/table-* 2>/dev/null
for mode in one ddp fsdp reduce jax jax-one nvshmem; do
        [ -e "$work/lanes/torch-$mode.out" ] || continue
        paste -d '|' <(grep -E '^(one|jax|jax-one|ddp|fsdp|reduce|nvshmem) ' "$work/lanes/torch-$mode-native.out" | sort) \
                <(grep -E '^(one|jax|jax-one|ddp|fsdp|reduce|nvshmem) ' "$work/lanes/torch-$mode.out" | sort) |
                sed 's/|/   | as a tenant: /'
done
[ ! -e "$work/lanes/rates" ] || tee -a "$log" < "$work/lanes/rates"
cat "$work"/lanes/tap-* | nl -w1 -s' ' | sed -E 's/^([0-9]+) (not )?ok - /\2ok \1 - /' > "$out/server.tap"
# what failed and what was not tried or not decided; and all that is measured
grep -E '^not ok|# SKIP|of native' "$out/server.tap"
skipped=$(grep -c '# SKIP' "$out/server.tap") failed=$(grep -c '^not ok' "$out/server.tap")
passed=$(($(grep -c '^ok' "$out/server.tap") - skipped))
echo "1..$((passed + failed + skipped))"
echo "server: $passed passed, $failed failed, $skipped skipped or not decided, seconds=$SECONDS"
[ "$failed" = 0 ]
