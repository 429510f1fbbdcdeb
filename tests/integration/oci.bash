# SPDX-License-Identifier: Apache-2.0
# Claims about every container runtime. $1 is the name of a bundle; `runtime` starts, lists and ends it:
#       runtime run BUNDLE ID          in the foreground
#       runtime kill ID SIGNAL
#       runtime exec ID COMMAND...
# shellcheck shell=bash disable=SC2034,SC2154  # read by tests, set by bats, machine.bash and container.bash set

# run_in_background BUNDLE ID: output goes to $machine/ID; $container is the runtime's process
run_in_background() {
        runtime run "$bundles/$1" "$2" < /dev/null > "$machine/$2" 2>&1 3>&- &
        container=$!
        started+=("$container")
}

says() {
        grep -q "$2" "$machine/$1"
}

# The container sees its quota as the device's memory and cannot exceed it; the memory of its neighbours is untouched.
sees_its_quota_and_stops_there() {
        local before
        before=$(free_mib)
        bundle a '.annotations = {"sublet.dev/mem": "1G"}' /t/gpu-families alloc 32
        run runtime run "$bundles/a" a
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(value total_mib "$output")" -eq 1024 ]
        [ "$(value last "$output")" = CUDA_ERROR_OUT_OF_MEMORY ]
        [ "$(value got_mib "$output")" -ge 128 ]
        [[ $output == *$'\nafter=ok '* ]]
        wait_for has_tenants 0
        [ "$(free_mib)" -eq "$before" ]
        "$sublet" events --json | jq -se 'any(.name == "QUOTA_REFUSED")'
}

# engines NAME JQ-EDIT: what a container gets of the engines beside compute
engines() {
        bundle "$1" '.annotations = {"sublet.dev/mem": "1G"} | .mounts += [{destination: "/h", source: "'"$plain"'/tests/hostile",
                type: "bind", options: ["ro", "rbind"]}] | '"$2" /h/attack-other-engines
        run runtime run "$bundles/$1" "$1"
        echo "$output"
}

# An image says in NVIDIA_DRIVER_CAPABILITIES which parts of the driver it uses, and gets no others; the annotation
# counts before it; what shows the neighbours' work no container may have.
has_the_capabilities_that_its_image_names() {
        engines d '.process.env += ["NVIDIA_DRIVER_CAPABILITIES=compute,video"]'
        [ "$status" -eq 0 ]
        [ "$(value video "$output")" -eq 8 ]
        [ "$(value graphics "$output")" -eq 0 ]
        wait_for has_tenants 0
        "$sublet" events --json | jq -se 'any(.name == "CAPABILITY_MISSING")'
        engines d '.process.env += ["NVIDIA_DRIVER_CAPABILITIES=compute,video"] | .annotations["sublet.dev/capabilities"] = "graphics"'
        [ "$(value graphics "$output")" -eq 12 ]
        wait_for has_tenants 0
        engines d '.'
        [ "$(value video "$output")" -eq 0 ]
        [ "$(value graphics "$output")" -eq 0 ]
        wait_for has_tenants 0
        engines d '.annotations["sublet.dev/capabilities"] = "all,profile"'
        [ "$status" -ne 0 ]
        [[ $output == *"profile shows the neighbours' work"* ]]
}

# ps shows the container while it runs, and killing it empties the ledger.
is_a_tenant_of_the_daemon_until_it_ends() {
        bundle b '.annotations = {"sublet.dev/mem": "2G", "sublet.dev/share": "25"}' \
                /bin/sh -c 'exec /t/gpu-load -t 60 -k 500 deep'
        run_in_background b b
        wait_for eval '[ "$(of b held_bytes)" -gt 0 ]'
        [ "$(of b quota_bytes)" -eq $((2048 * MIB)) ]
        [ "$("$sublet" ps --json | jq -r '.[0].container.id')" = b ]
        wait_for eval '"$sublet" usage --json | jq -e "map(.gpu_seconds) | add > 0"'
        runtime kill b KILL
        wait "$container" || true
        wait_for has_tenants 0
        [ "$("$sublet" ps -a --json | jq -r '.[] | select(.tenant == "b") | .devices[0].held_bytes')" -eq 0 ]
}

# A container that asks for nothing has no device. One that was given a device node without a lease, or asks for more
# than there is, does not start, and the runtime shows our message.
is_not_started_without_a_lease() {
        bundle c '.' /bin/sh -c 'echo it ran; /t/gpu-families meminfo'
        run runtime run "$bundles/c" c
        echo "$output"
        [[ $output == *'it ran'* && $output != *total_mib* ]]
        bundle d '.linux.devices = [{path: "/dev/nvidia0", type: "c", major: 1, minor: 3}]' /bin/sh -c 'echo it ran'
        run runtime run "$bundles/d" d
        echo "$output"
        [[ $status -ne 0 && $output == *'sublet: '* && $output != *'it ran'* ]]
        bundle d '.annotations = {"sublet.dev/mem": "999G"}' /bin/sh -c 'echo it ran'
        run runtime run "$bundles/d" d
        echo "$output"
        [[ $status -ne 0 && $output == *'sublet: '*'999G is more'* && $output != *'it ran'* ]]
        wait_for has_tenants 0
}

# A device must be behind a gate: without a profile, or with one whose listener is not ours, nothing starts. A container
# written for another driver starts and has no device.
is_not_let_near_a_device_under_another_profile() {
        bundle g '.annotations = {"sublet.dev/mem": "1G"} | del(.linux.seccomp)' /bin/sh -c 'echo it ran'
        run runtime run "$bundles/g" g
        echo "$output"
        [[ $status -ne 0 && $output == *'without a gate'* && $output != *'it ran'* ]]
        bundle g '.annotations = {"sublet.dev/mem": "1G"} | .linux.seccomp.listenerMetadata = "sublet/4 525.60.13" | del(.hooks)' \
                /bin/sh -c '/t/gpu-families meminfo; echo it ran'
        run runtime run "$bundles/g" g
        echo "$output"
        [[ $output == *'it ran'* && $output != *total_mib* ]]
        wait_for eval '"$sublet" events | grep -q "LEASE_REFUSED.*not one for driver"'
}

# Stopping, or any signal, interrupts a caller in a driver call; the kernel restarts it (gate/state/restart_cache.h). A
# reply that arrives in the same moment may be lost (docs/containers.md), and then the program fails: one of three may.
# Without gate/state/restart_cache.c all do.
does_not_mind_being_stopped() {
        local try fine=0
        # shellcheck disable=SC2016 # for the inner shell
        bundle h '.annotations = {"sublet.dev/mem": "2G"}' /bin/sh -c '/t/gpu-families alloc 64 & p=$!; n=0
                while [ $n -lt 20000 ] && kill -STOP $p && kill -CONT $p; do n=$((n + 1)); done 2> /dev/null; wait $p; echo "status=$? stops=$n"'
        for try in 1 2 3; do
                run runtime run "$bundles/h" h
                echo "$try: $output"
                wait_for has_tenants 0
                [[ $output == *last=CUDA_ERROR_OUT_OF_MEMORY* && $output == *$'\nafter=ok '* && $output == *status=0* ]] || continue
                [ "$(value stops "$output")" -gt 1000 ]
                fine=$((fine + 1))
                [ "$fine" -lt 2 ] || break
        done
        [ "$fine" -eq 2 ]
        run "$sublet" events
        [[ $output != *FOREIGN_OBJECT* && $output != *DENIED* && $output != *BOOKS_NOT_EMPTY* ]]
}

# The container does not notice that the daemon is killed and restarted.
outlives_the_daemon() {
        bundle e '.annotations = {"sublet.dev/mem": "1G"}' \
                /bin/sh -c 'echo it waits; until [ -e /tmp/go ]; do sleep 0.1; done; exec /t/gpu-families alloc 64'
        rm -f "$rootfs/tmp/go"
        run_in_background e e
        wait_for says e 'it waits'
        wait_for has_tenants 1
        daemon_end KILL
        touch "$rootfs/tmp/go"
        wait "$container"
        says e 'last=CUDA_ERROR_OUT_OF_MEMORY'
        daemon_start
        wait_for has_tenants 0
        rm -f "$rootfs/tmp/go"
}

# Without a daemon nothing takes the listener, so the runtime refuses.
is_not_started_without_a_daemon() {
        bundle f '.annotations = {"sublet.dev/mem": "1G"}' /bin/sh -c 'echo it ran'
        daemon_end TERM
        run runtime run "$bundles/f" f
        echo "$output"
        [ "$status" -ne 0 ]
        [[ $output != *'it ran'* ]]
}

# A process that is put into a running container belongs to the container's tenant and shares what is left of its quota.
execs_into_the_same_tenant() {
        bundle g '.annotations = {"sublet.dev/mem": "1G"}' /bin/sh -c '/t/gpu-families meminfo; exec sleep 60'
        run_in_background g g
        wait_for says g total_mib=1024
        run runtime exec g /t/gpu-families alloc 32
        echo "$output"
        [ "$(value total_mib "$output")" -eq 1024 ]
        [ "$(value last "$output")" = CUDA_ERROR_OUT_OF_MEMORY ]
        has_tenants 1
        runtime kill g KILL
        wait "$container" || true
        wait_for has_tenants 0
}

# ---- trust groups: a fake in MPS's place, as in daemon/groups.bats -------------------------------------------------

mps_daemon_start() {
        daemon_end TERM
        PATH=$BATS_TEST_DIRNAME/../../fakes/mps:$PATH daemon_start
}

# in_group NAME JQ-EDIT COMMAND...: a bundle with this machine's Python and the fake, as a client
in_group() {
        local name=$1 edit=$2
        shift 2
        # shellcheck disable=SC2016 # of jq
        bundle "$name" '.mounts += ([["/usr", "/usr"], ["/lib", "/lib"], ["/lib64", "/lib64"], ["'"$BATS_TEST_DIRNAME"'/../../fakes/mps", "/f"]]
                | map({source: .[0], destination: .[1], type: "bind", options: ["ro", "rbind"]}))
                | (.mounts[].destination, .process.env[]) |= gsub("/usr/lib/sublet"; "/sublet")
                | .annotations = {"sublet.dev/mem": "1G"} | '"$edit" "$@"
}

# Containers of a group are clients of one server; with those of another they share neither pipe nor files, whatever
# user they are inside, and no other user of the machine connects.
shares_its_groups_server_and_no_other() {
        local id
        local -A group=([a]=chat [b]=chat [c]=other)
        mps_daemon_start
        for id in a b c; do
                in_group "$id" '.annotations["sublet.dev/group"] = "'"${group[$id]}"'"' \
                        /usr/bin/python3 /f/nvidia-cuda-mps-control client wait
        done
        jq '.process.user = {uid: 1000, gid: 1000}' "$bundles/b/config.json" > "$bundles/b/new"
        mv "$bundles/b/new" "$bundles/b/config.json"
        chmod -R a+rwX "$machine" # the simulated nodes
        chmod 755 "$SUBLET_DIR"
        for id in a b c; do
                run_in_background "$id" "$id"
                wait_for says "$id" client= || { cat "$machine/$id"; "$sublet" events; false; }
        done
        cat "$machine"/[abc]
        for id in a b c; do
                [ "$(value group "$(cat "$machine/$id")")" = 0x0 ]
                [ "$(value channel "$(cat "$machine/$id")")" = 0x0 ]
        done
        [ "$("$sublet" ps --json | jq -c '[.[] | [.tenant, .group]] | sort')" = '[["a","chat"],["b","chat"],["c","other"]]' ]
        cmp <(runtime exec a cat /tmp/nvidia-mps/server) "$SUBLET_DIR/mps/0-1/pipe/server"
        cmp <(runtime exec c cat /tmp/nvidia-mps/server) "$SUBLET_DIR/mps/0-2/pipe/server"
        run -1 cmp "$SUBLET_DIR/mps/0-1/pipe/server" "$SUBLET_DIR/mps/0-2/pipe/server"
        run ! runtime exec a sh -c 'echo > /tmp/nvidia-mps/mine'
        runtime exec a sh -c 'echo > /dev/shm/mine'
        runtime exec b cat /dev/shm/mine
        run ! runtime exec c cat /dev/shm/mine
        [ ! -e /dev/shm/mine ]
        run ! setpriv --reuid 4001 --regid 4001 --clear-groups test -x "$SUBLET_DIR/mps/0-1/pipe"
        for id in a b c; do
                runtime kill "$id" KILL
        done
        wait "${started[@]}" || true
        wait_for has_tenants 0
        wait_for eval '[ ! -e "$SUBLET_DIR/mps/0-1" ] && [ ! -e "$SUBLET_DIR/mps/0-2" ]'
}

# What cannot be given is refused; a process of the machine is in no group of containers.
is_refused_what_its_group_cannot_have() {
        refused() { # TEXT JQ-EDIT
                in_group d "$2" /bin/sh -c 'echo it ran'
                run runtime run "$bundles/d" d
                echo "$output"
                [[ $status -ne 0 && $output == *"$1"* && $output != *'it ran'* ]]
        }
        mps_daemon_start
        refused 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE' '.annotations += {"sublet.dev/group": "g", "sublet.dev/cap": "40"}'
        refused 'leave the variable out' '.annotations["sublet.dev/group"] = "g" | .process.env += ["CUDA_MPS_PIPE_DIRECTORY=/mps"]'
        refused 'annotate it, or its pod, with sublet.dev/group' '.annotations = {} | .process.env += ["SUBLET_MEM=1G", "SUBLET_GROUP=g"]'
        in_group d '.annotations += {"sublet.dev/group": "g", "sublet.dev/mode": "auto", "sublet.dev/share": "20", "sublet.dev/latency": "20ms"}' \
                /bin/sh -c 'ls /tmp/nvidia-mps; /t/gpu-families meminfo'
        run -0 runtime run "$bundles/d" d # by turns
        [[ $output == *total_mib=1024* && $output != *control* ]]
        wait_for has_tenants 0
        refused 'leave --group or --job out' '.annotations += {"sublet.dev/group": "g", "sublet.dev/job": "j"}'
        in_group d '.annotations["sublet.dev/group"] = "g" | del(.hooks)' /bin/sh -c '/t/gpu-families meminfo; echo it ran'
        run runtime run "$bundles/d" d
        echo "$output"
        "$sublet" events
        [[ $output == *'it ran'* && $output != *total_mib* ]]
        wait_for eval '"$sublet" events | grep -q "LEASE_REFUSED.*no hook came"'
        wait_for has_tenants 0
        in_group a '.annotations["sublet.dev/group"] = "chat"' /usr/bin/python3 /f/nvidia-cuda-mps-control client wait
        run_in_background a a
        wait_for says a client=
        place=$(ls "$SUBLET_DIR/mps")
        # shellcheck disable=SC2016 # of the command
        run -0 --separate-stderr on "$sublet" run -q --group chat --mem 1G -- sh -c 'echo "$CUDA_MPS_PIPE_DIRECTORY"; ls "$0"' "$SUBLET_DIR/mps"
        [[ ${lines[0]} == "$SUBLET_DIR/mps/"*/pipe && ${lines[0]} != */"$place/"* && ${lines[1]} == "$place" ]]
        runtime kill a KILL
        wait "$container" || true
        wait_for has_tenants 0
}
