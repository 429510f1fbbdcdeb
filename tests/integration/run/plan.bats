#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The planner on a dozen mixes: the plan and the reasons are files in tests/golden/plan. To accept a changed
# plan: PLAN_ACCEPT=1 bats tests/integration/run/plan.bats, and read the diff.
# variants: plain address, because there are no threads in the verb, and daemon.bats has those of the daemon
bats_require_minimum_version 1.5.0
load ../machine
# shellcheck disable=SC2154  # what machine.bash sets

golden() { # NAME EXIT-CODE
        local file=$BATS_TEST_DIRNAME/../../golden/plan/$1
        local code=0
        "$sublet" plan "$file.yaml" > "$BATS_TEST_TMPDIR/plan" || code=$?
        [ -z "${PLAN_ACCEPT:-}" ] || cp "$BATS_TEST_TMPDIR/plan" "$file.txt"
        diff -u "$file.txt" "$BATS_TEST_TMPDIR/plan"
        [ "$code" -eq "$2" ]
}

@test "a chat model and an embedder take turns, the tighter goal first" { golden 01-chat-and-embed 0; }
@test "four small models share one device and three are free" { golden 02-four-quarters 0; }
@test "untrusted code gets instances of its own" { golden 03-untrusted-on-instances 0; }
@test "where a device cannot be cut, untrusted code does not share" { golden 04-untrusted-without-instances 0; }
@test "batch work alone is sliced by the device" { golden 05-batch-only 0; }
@test "batch work fills what a service with a tight goal leaves" { golden 06-latency-beside-batch 0; }
@test "rare models larger than the device are suspended in turns" { golden 07-rare-large-models 0; }
@test "one team beyond what time gives runs side by side" { golden 08-one-team-side-by-side 0; }
@test "what does not fit is said, with the reason" { golden 09-memory-does-not-fit 1; }
@test "no way to share helps who is too slow alone" { golden 10-too-slow-alone 1; }
@test "a hundred containers fit on thirty-five devices" { golden 11-a-hundred-containers 0; }
@test "a job gets devices of one server that NVLink joins, and shares them in turns" { golden 12-jobs-of-several-devices 0; }
@test "a job is on all of its devices or on none" { golden 13-too-few-for-a-job 1; }

@test "how many sleepers fit beside the busy ones, by host memory and by room to wake" {
        local mix=$BATS_TEST_DIRNAME/../../golden/plan/07-rare-large-models.yaml
        "$sublet" plan --sleepers 4G --host-memory 380G "$mix" > "$BATS_TEST_TMPDIR/plan"
        [ "$(head -n -1 "$BATS_TEST_TMPDIR/plan")" = "$(cat "${mix%.yaml}.txt")" ]
        [ "$(tail -1 "$BATS_TEST_TMPDIR/plan")" = "sleepers of 4 GiB: 20 fit in 380 GiB of host memory; at once 9 can be awake, on 1 device" ]
        [ "$("$sublet" plan --json --sleepers 4G --host-memory 380G "$mix" | jq -c .sleepers)" = \
                '{"memory_bytes":4294967296,"host_memory_bytes":408021893120,"fit":20,"awake_at_once":9,"devices":1,"is_host_memory_full":true}' ]
        [ "$("$sublet" plan --json "$mix" | jq .sleepers)" = null ]
        run -0 "$sublet" plan --sleepers 50G --host-memory 1000G "$mix"
        [ "${lines[-1]}" = "sleepers of 50 GiB: none fits: no device has room for one that wakes" ]
        run -0 "$sublet" plan --sleepers 4G --host-memory 300G "$mix"
        [ "${lines[-1]}" = "sleepers of 4 GiB: none fits: the host memory for it is taken" ]
        run "$sublet" plan --sleepers 4G "$mix"
        one_line_and_2 '--sleepers needs --host-memory'
}

@test "who sleeps for others needs host memory, has a lease with --swap, and does not wake in less than the link takes" {
        local mix=$BATS_TEST_DIRNAME/../../golden/plan/07-rare-large-models.yaml
        run -1 "$sublet" plan --host-memory 200G "$mix"
        [[ $output == *"3 rare services do not fit at once: those idle are suspended, in up to 180 GiB of host memory"* ]]
        [ "${lines[-1]}" = "does not fit: draw-5: suspended, these would need 240 GiB of host memory, and the server has 200 GiB left for it" ]
        run -0 "$sublet" plan --host-memory 300G "$mix"
        [ "$output" = "$(cat "${mix%.yaml}.txt")" ]

        run -0 "$sublet" plan -o run "$mix"
        [ "$(grep -c -- '--name draw-.* --swap -- COMMAND$' <<< "$output")" = 5 ]
        run ! grep -- '--name chat-.*--swap' <<< "$output"
        "$sublet" plan -o run "$mix" | grep -q '^# under sublet daemon --swap 307200M, or more$'
        "$sublet" plan -o kubernetes "$mix" > "$BATS_TEST_TMPDIR/pods"
        [ "$(grep -c 'sublet.dev/swap: "true"' "$BATS_TEST_TMPDIR/pods")" = 1 ] # of the two services' Deployments

        # two of 60 GiB, one out and one in, at 53 GB/s: 2.4 s
        sed 's/wake: 30s/wake: 2500ms/' "$mix" > "$BATS_TEST_TMPDIR/mix.yaml"
        run -0 "$sublet" plan "$BATS_TEST_TMPDIR/mix.yaml"
        sed 's/wake: 30s/wake: 2400ms/' "$mix" > "$BATS_TEST_TMPDIR/mix.yaml"
        run -1 "$sublet" plan "$BATS_TEST_TMPDIR/mix.yaml"
        echo '{"suspend_rate": 106}' > "$BATS_TEST_TMPDIR/facts.json"
        run -0 "$sublet" plan --facts="$BATS_TEST_TMPDIR/facts.json" "$BATS_TEST_TMPDIR/mix.yaml"
}

@test "pods of one team that run side by side are in its group" {
        local mix=$BATS_TEST_DIRNAME/../../golden/plan/08-one-team-side-by-side.yaml
        "$sublet" plan -o run "$mix" | grep -q -- '--mode spatial'
        "$sublet" plan -o kubernetes "$mix" > "$BATS_TEST_TMPDIR/pods"
        cat "$BATS_TEST_TMPDIR/pods"
        [ "$(grep -c 'annotations: {sublet.dev/group: "a"}}$' "$BATS_TEST_TMPDIR/pods")" -eq "$(grep -c '^kind: Deployment' "$BATS_TEST_TMPDIR/pods")" ]
        run ! grep 'cannot ask' "$BATS_TEST_TMPDIR/pods"
        sed 's/team: a/team: "Ask \& find"/' "$mix" > "$BATS_TEST_TMPDIR/odd.yaml"
        "$sublet" plan -o kubernetes "$BATS_TEST_TMPDIR/odd.yaml" | grep -q 'sublet.dev/group: "Ask---find"'
}

@test "a job is one lease, one command, one pod" {
        local jobs=$BATS_TEST_DIRNAME/../../golden/plan/12-jobs-of-several-devices.yaml
        "$sublet" plan -o run "$jobs" > "$BATS_TEST_TMPDIR/plan"
        [ "$(grep -c '^sublet run --name fsdp-1 --gpu [0-9],[0-9],[0-9],[0-9] --mem 61440M' "$BATS_TEST_TMPDIR/plan")" -eq 1 ]
        [ "$(grep -c '^sublet run --name ddp-' "$BATS_TEST_TMPDIR/plan")" -eq 2 ]
        "$sublet" plan -o kubernetes "$jobs" | grep -q 'sublet.dev/gpu-count: "4", sublet.dev/gpu-mem: "60"'
        [ "$("$sublet" plan --json "$jobs" | jq -c '[.devices[].leases[] | select(.tenant == "fsdp-1") | [.gpus, .part]]')" = \
                "$("$sublet" plan --json "$jobs" | jq -c '[.devices[].leases[] | select(.tenant == "fsdp-1") | .gpus] | .[0] as $g | [range(4)] | map([$g, .])')" ]
        run "$sublet" plan --gpus H200=4:nvlonk "$jobs"
        [ "$output" = "sublet: --gpus: 'H200=4:nvlonk': a model and a number, such as H200=2 or H200=2:nvlink" ]
}

@test "the plan as JSON has a lease for each replica" {
        "$sublet" plan --json "$BATS_TEST_DIRNAME/../../golden/plan/06-latency-beside-batch.yaml" > "$BATS_TEST_TMPDIR/plan"
        grep -q '"command": "sublet run --name rank-1 --gpu 0 --mem 10240M --share [0-9.]* --class latency -- COMMAND"' "$BATS_TEST_TMPDIR/plan"
        [ "$(grep -c '"tenant":' "$BATS_TEST_TMPDIR/plan")" -eq 2 ]
}

@test "measured figures replace the built-in ones" {
        echo '{"spatial_gain": 1.0}' > "$BATS_TEST_TMPDIR/facts"
        run "$sublet" plan --facts="$BATS_TEST_TMPDIR/facts" "$BATS_TEST_DIRNAME/../../golden/plan/08-one-team-side-by-side.yaml"
        [[ "$output" != *spatial* ]]
}

@test "a bad file is one line with the place, and exit code 2" {
        cd "$BATS_TEST_TMPDIR"
        printf 'services:\n- {name: a, memory: lots}\n' > a.yaml
        run "$sublet" plan a.yaml
        [ "$status" -eq 2 ]
        [ "$output" = "sublet: a.yaml:2: service 'a': memory: a size such as 8G is needed: what a replica holds, its context included" ]
        printf 'services:\n- {name: a, memory: 8}\n' > a.yaml
        run -2 "$sublet" plan a.yaml
        [ "$output" = "sublet: a.yaml:2: service 'a': memory: a unit is missing: did you mean 8G?" ]
        printf 'services:\n- name: a\n  memory: 8G\n  requests: 3\n  time: 5ms\n  colour: red\n' > a.yaml
        run "$sublet" plan a.yaml
        [ "$output" = "sublet: a.yaml:6: service 'a': colour: there is no such key" ]
        printf '# mine\nservices: 5\n' > a.yaml
        run -2 "$sublet" plan a.yaml
        [[ $output == "sublet: a.yaml:2: a list of services is needed, such as "* ]]
        printf 'services:\n- {name: a, memory: 8G, load: 10%%}\n- {name: a, memory: 4G, load: 10%%}\n' > a.yaml
        run -2 "$sublet" plan a.yaml
        [ "$output" = "sublet: a.yaml:3: service 'a': name: another service has it" ]
        printf 'services:\n- {name: a, memory: 8G, load: 10%%}\n\nspares: 1\n' > a.yaml
        run "$sublet" plan a.yaml
        [ "$output" = "sublet: a.yaml:4: there is no key 'spares': services and gpus" ]
        printf 'services:\n- {name: a, memory: 8G, load: 10%%}\ngpus: [Voodoo2]\n' > a.yaml
        run "$sublet" plan a.yaml
        [[ $output == "sublet: a.yaml:3: gpus: the model 'Voodoo2'"* ]]
        printf 'services:\n- {name: a, memory: 8G, load: 10%%}\n' > a.yaml
        SUBLET_DIR=$BATS_TEST_TMPDIR run "$sublet" plan a.yaml
        [[ $output == "sublet: a.yaml names no devices ('gpus: [H200=2]', or --gpus H200=2): no daemon answers"* ]]
        run "$sublet" plan --gpus Voodoo2 a.yaml
        [ "$output" = "sublet: --gpus: the model 'Voodoo2' is not known here ('sublet plan --models')" ]
}

@test "what is printed for people is there for programs: figures and models" {
        [ "$("$sublet" plan --facts --json | jq -r '.[] | select(.name == "window") | "\(.value) \(.unit) \(.source)"')" = "10 ms assumed: the shortest period of turns" ]
        echo '{"window": 7}' > "$BATS_TEST_TMPDIR/facts"
        [ "$("$sublet" plan --facts --facts="$BATS_TEST_TMPDIR/facts" -o json | jq -r '.[] | select(.name == "window") | "\(.value) \(.source)"')" = "7 $BATS_TEST_TMPDIR/facts" ]
        [ "$("$sublet" plan --models --json | jq -r 'map(.name) | join(" ")')" = "$("$sublet" plan --models | awk '{ print $1 }' | xargs)" ]
        [ "$("$sublet" plan --models --json | jq -r '.[] | select(.name == "T4") | "\(.memory_bytes / 1048576) \(.has_mig)"')" = "15360 false" ]
}

@test "a file that is not there is bad use, of plan and of route" {
        run "$sublet" plan "$BATS_TEST_TMPDIR/none.yaml"
        one_line_and_2 'none.yaml: No such file'
        run -2 "$sublet" route "$BATS_TEST_TMPDIR/none.yaml"
        [[ ${#lines[@]} -eq 1 && $output == *"none.yaml: No such file"* ]]
}

@test "memory that is wanted is said with who is there" {
        printf 'services:\n- {name: a, memory: 60G, load: 10%%, count: 3}\n' > "$BATS_TEST_TMPDIR/a.yaml"
        run "$sublet" plan --gpus H200 "$BATS_TEST_TMPDIR/a.yaml"
        [ "$status" -eq 1 ]
        [[ $output == *"does not fit: a-3: 180 GiB of memory are wanted, with those who are there, and the H200 has "* ]]
}
