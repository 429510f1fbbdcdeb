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

monitoring=$BATS_TEST_DIRNAME/../../../deploy/kubernetes/monitoring

@test "the rules are good, each alert is raised by its case and by no other, and the operator gets the same" {
        command -v promtool > /dev/null || skip "no promtool (Debian: prometheus)"
        for rules in rules route-rules; do
                cp "$monitoring/$rules.yml" "$BATS_TEST_DIRNAME/$rules-test.yml" "$BATS_TEST_TMPDIR"
                promtool check rules "$BATS_TEST_TMPDIR/$rules.yml"
                promtool test rules "$BATS_TEST_TMPDIR/$rules-test.yml"
                while read -r alert; do
                        grep -q "alertname: $alert\$" "$BATS_TEST_DIRNAME/$rules-test.yml" || { echo "no case for $alert"; return 1; }
                done < <(sed -n 's/^ *- alert: //p' "$monitoring/$rules.yml")
                "$monitoring/rules" "$rules.yml" | sed -n '/^spec:/,$p' | sed '1d; s/^  //' | diff - "$monitoring/$rules.yml"
        done
        "$monitoring/rules" | diff - <("$monitoring/rules" rules.yml)
}

# exported: the names of metrics that a daemon whose device tells everything exports
exported() {
        machine_start
        health 'temperature 31' 'memory_temperature 34' 'power 76000' 'power_limit 700000' 'energy 1' 'sm_clock 345' \
                'memory_clock 3201' 'ecc_corrected 0' 'ecc_uncorrected 0' 'rows_corrected 0' 'rows_uncorrected 0' \
                'remap_pending 0' 'remap_failed 0' 'pcie_replays 0' 'clock_reasons 1' 'link0 1' 'link0_crc 0' \
                'link0_replays 0' 'link0_recoveries 0'
        daemon_start
        "$plain/src/sublet" sim --dir "$machine_dir" --fault xid=13
        wait_for eval 'metrics "^sublet_device_latest_xid"'
        wait_for eval 'metrics "^sublet_device_nvlink_crc"'
        metrics '^# TYPE' | awk '{ print $3 }' | sort -u > "$BATS_TEST_TMPDIR/exported"
}

@test "rules, dashboard and manual name metrics that a daemon exports, and the manual names them all" {
        exported
        while read -r figure; do
                grep -qx "$figure" "$BATS_TEST_TMPDIR/exported" || { echo "no $figure"; return 1; }
        done < <(cat "$monitoring/rules.yml" <(jq -r '.panels[].targets[].expr' "$monitoring/dashboard.json") \
                | grep -oE '(^|[^:a-z_])sublet_[a-z_]+' | grep -oE 'sublet_[a-z_]+' | grep -v '^sublet_extender_' | sort -u)
        while read -r figure; do
                grep -qE "\`(sublet_)?${figure#sublet_}\`|\`${figure#sublet_device_}\`" "$BATS_TEST_DIRNAME/../../../docs/metrics.md" || { echo "not in the manual: $figure"; return 1; }
        done < "$BATS_TEST_TMPDIR/exported"
}

# good_board FILE: what Grafana asks of a dashboard, and what promtool can say of its queries
good_board() {
        jq -e '(.panels | length) > 0 and ([.panels[].id] | length == (unique | length)) and .schemaVersion >= 36 and (.uid | length) > 0' "$1"
        jq -e 'all(.panels[]; (.title | length) > 0 and (.type | IN("timeseries", "stat", "gauge", "bargauge", "table"))
                and .gridPos.x >= 0 and .gridPos.x + .gridPos.w <= 24 and .gridPos.h > 0
                and .datasource.uid == "${source}" and (.targets | length) > 0
                and ([.targets[].refId] | all(. != null) and length == (unique | length)))' "$1"
        jq -e '[.panels[] | .gridPos] as $g | all(range($g | length); . as $i | all(range($i); . as $k | $g[$i] as $a | $g[$k] as $b
                | $a.x >= $b.x + $b.w or $b.x >= $a.x + $a.w or $a.y >= $b.y + $b.h or $b.y >= $a.y + $a.h))' "$1"
        jq -e 'any(.templating.list[]; .name == "source" and .type == "datasource" and .query == "prometheus")' "$1"
        command -v promtool > /dev/null || return 0
        jq '{groups: [{name: "panels", rules: [.panels[] as $p | $p.targets[] | {record: "panel:\($p.id)_\(.refId)", expr}]}]}' "$1" > "$BATS_TEST_TMPDIR/panels.yml"
        promtool check rules "$BATS_TEST_TMPDIR/panels.yml"
}

@test "the dashboards are such that Grafana takes them: places, sources, references and queries" {
        good_board "$monitoring/dashboard.json"
        good_board "$monitoring/route-dashboard.json"
        [ "$(jq -r .uid "$monitoring/dashboard.json")" != "$(jq -r .uid "$monitoring/route-dashboard.json")" ]
        command -v promtool > /dev/null || skip "no promtool (Debian: prometheus)"
}
