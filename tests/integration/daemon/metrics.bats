#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Figures for operators: labels, health of the devices, and what the rules and the dashboard make of them.
# variants: plain address, because daemon.bats has its threads
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

teardown() {
        node_end
        machine_end
}

# metrics [PATTERN]: what the daemon exports now, or its lines that have the pattern
metrics() { curl -sf --unix-socket "$SUBLET_DIR/sublet.sock" http://x/metrics | grep -- "${1:-}"; }

# health LINE...: what device 0 tells from now on; the file is there whole or not at all
health() {
        local file=$machine_dir/proc/driver/nvidia/gpus/0000:01:00.0/health
        printf '%s\n' "$@" > "$file.new"
        mv "$file.new" "$file"
}

finding() { on "$sublet" doctor --json | jq -r '.findings[] | select(.name == "health") | .status + " " + .text + " " + .next'; }

@test "a device's health is in metrics, API and doctor, and what it does not tell is in none of them" {
        machine_start
        daemon_start
        wait_for eval 'metrics "^sublet_device_power_watts{.*} 76$"'
        metrics '^sublet_device_temperature_celsius{device="0",uuid="GPU-[^"]*"} 31$'
        run ! metrics sublet_device_utilization_ratio
        run ! metrics nvlink
        curl -sf --unix-socket "$SUBLET_DIR/sublet.sock" http://x/v1/devices | jq -e '.[0].health | .power_watts == 76 and .xid_errors_total == 0 and (has("utilization_ratio") | not)'
        [[ $(finding) == 'ok device 0: 31 C, 76 W'* ]]
        # A device with links, of which one does not tell its replays; no temperature any more.
        health 'power 612500' 'ecc_uncorrected 2' 'link0 1' 'link0_crc 3' 'link1 1' 'link1_crc 4' 'link1_replays 5' 'link2 0'
        wait_for eval 'metrics "^sublet_device_power_watts{.*} 612.5"'
        metrics '^sublet_device_nvlinks_active{.*} 2$'
        metrics '^sublet_device_nvlink_crc_errors_total{.*} 7$'
        run ! metrics nvlink_replay
        wait_for eval '! metrics temperature' # it is read before the power
        metrics '^sublet_device_ecc_uncorrected_errors_total{.*} 2$'
        [[ $(finding) == 'limited device 0: memory errors that ECC could not correct'*'nvidia-smi -r'* ]]
}

@test "Xids are counted from 0, and the latest is told" {
        machine_start
        daemon_start
        wait_for eval 'metrics "^sublet_device_xid_errors_total{.*} 0$"'
        run ! metrics sublet_device_latest_xid
        "$plain/src/sublet" sim --dir "$machine_dir" --fault xid=13
        wait_for eval 'metrics "^sublet_device_xid_errors_total{.*} 1$"'
        metrics '^sublet_device_latest_xid{.*} 13$'
}
