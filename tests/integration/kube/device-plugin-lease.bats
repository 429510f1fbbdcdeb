#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The device plugin with --preload: an allocation is a lease as a directory, which the container mounts.
# shellcheck disable=SC2012,SC2034,SC2119  # names of letters; what daemon.bash reads; daemon_start without options
# waits: for kubelet, and for leases that end
# variants: plain address, because device-plugin.bats has its threads
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon
load ../kubelet

setup() {
        supervisors=()
        sublet=$plain/src/sublet # what goes into programs is not built with a sanitizer
        machine_start --gpus 2 --memory 16G
        daemon_start
        kubelet_start
        tmpfs=$(mktemp -d /dev/shm/sublet-lease-XXXXXX)
        leases=$tmpfs/leases
}

teardown() {
        kubelet_end
        node_end
        machine_end
        rm -rf "$tmpfs"
}

# preloading [N]: the plugin, for the Nth time
preloading() {
        plugin_start --preload --lease-dir "$leases"
        ask wait "$memory" "${1:-1}"
        [ "$answer" = ok ]
}

# ids DEVICE FROM TO: in $ids
ids() {
        local n
        ids=()
        for ((n = $2; n <= $3; n++)); do ids+=("$1-_-$n"); done
}

# older NAME: as if that lease had been made an hour ago; its new name
older() {
        local name=$1
        local old
        old=${name%-*}-$(printf %016x $((16#${name##*-} - 3600 * 1000000000)))
        mv "$leases/$name" "$leases/$old"
        echo "$old"
}

tenants() {
        "$sublet" ps -q
}

# contained COMMAND...: with the mounts of $answer, as a runtime makes them; the simulator's library stands after ours
contained() {
        local words=() word
        for word in $(tr ' ' '\n' <<< "$answer" | grep ^mount: | LC_ALL=C sort -r); do # what others are mounted in comes first
                words+=("${word#mount:}")
        done
        # shellcheck disable=SC2016  # for the inner shell
        on unshare -m bash -c 'mount --make-rprivate / && mount -t tmpfs none /run || exit 99
                machine=$1 n=$2 preload=$3; shift 3
                for ((; n > 0; n--)); do
                        IFS== read -r target source read_only <<< "$1"; shift
                        if [ "$target" = /etc/ld.so.preload ]; then
                                { cat "$source"; echo "$preload"; } > /run/preload && source=/run/preload
                        fi
                        if [ -d "$source" ]; then mkdir -p "$target"; elif [ ! -e "$target" ]; then touch "$target"; fi
                        mount --bind "$source" "$target" || exit 99
                        [ "$read_only" != 1 ] || mount -o remount,bind,ro "$target" || exit 99
                done
                unset LD_PRELOAD
                exec env -i SUBLET_SIM="$machine" "$@"' - "$machine_dir" "${#words[@]}" "$machine_preload" "${words[@]}" "$@"
}

@test "a container's mounts are its quota, and nothing else is in it" {
        unshare -m true 2> /dev/null || skip "no mount namespaces here"
        preloading
        [ "$(stat -c %a "$leases")" = 700 ] # users of the host have no business there
        ids "$first" 0 1
        ask allocate "$memory" "${ids[@]}"
        name=$(ls "$leases")
        [[ $name =~ ^k8s-[0-9a-f]{16}-[0-9a-f]{16}$ ]]
        [[ $answer = *"mount:/run/sublet/lease=$leases/$name=1"* ]]
        [[ $answer = *"mount:/run/sublet/lease/region=$leases/$name/region "* || $answer = *"/$name/region" ]]
        [[ $answer = *"mount:/etc/ld.so.preload=$leases/$name/ld.so.preload=1"* ]]
        [[ $answer = *"env:NVIDIA_VISIBLE_DEVICES=$first"* && $answer != *LD_PRELOAD* ]]
        [ "$(tenants)" = "$name" ]
        [ "$(of "$name" quota_bytes)" = 2147483648 ]
        run contained "$plain/tests/gpu/gpu-interposed" threads 2
        echo "$output"
        [ "$output" = "got_mib=2048" ]
}

@test "leases that a library keeps are of the devices' memory, whatever host memory there is for others" {
        daemon_end TERM
        daemon_start --swap 20G
        preloading
        lists "$memory" '32 32'
        ids "$first" 0 1
        ask allocate "$memory" "${ids[@]}"
        [ "$("$sublet" ps --json | jq -c 'map(.swap)')" = '[false]' ]
}

@test "a lease ends when kubelet's checkpoint has dropped its allocation, and not before it can have it" {
        preloading
        ids "$first" 0 1
        checkpoint u-other "$second-_-3"
        ask allocate "$memory" "${ids[@]}"
        name=$(ls "$leases")
        checkpoint u-other "$second-_-4"
        sleep 1
        [ "$(ls "$leases")" = "$name" ] # kubelet has yet to write it
        checkpoint u-web "${ids[1]}" "${ids[0]}"
        name=$(older "$name")
        plugin_end
        preloading 2 # another, which knows it by its name
        checkpoint u-web "${ids[1]}" "${ids[0]}"
        sleep 1
        [ "$(ls "$leases")" = "$name" ]
        echo '{"Data":' > "$folder/kubelet_internal_checkpoint"
        sleep 1
        [ "$(ls "$leases")" = "$name" ]
        checkpoint u-other "$second-_-4"
        wait_for eval '[ -z "$(ls "$leases")" ]'
        wait_for eval '[ -z "$(tenants)" ]'
}

@test "what kubelet allocates anew is free, though its checkpoint has not said so" {
        preloading
        ids "$first" 0 15
        ask allocate "$memory" "${ids[@]}"
        checkpoint u-ended "${ids[@]}"
        ask allocate "$memory" "$first-_-0"
        [[ $answer = 'error FAILED_PRECONDITION'*'no lease: '* ]] # seconds old: it may be an init container's
        older "$(ls "$leases")"
        ask allocate "$memory" "$first-_-0" "$first-_-1"
        [[ $answer = *mount:/run/sublet/lease=* ]]
        [ "$(ls "$leases" | wc -l)" = 1 ]
}

@test "a lease that cannot be made is an allocation that fails, in the daemon's words" {
        preloading
        [ ! -e "$folder/sublet.dev_gpu-share.sock" ] # time is not divided without a supervisor
        lodger other --mem 15G --gpu 0 -- sleep 60
        ids "$first" 0 3
        ask allocate "$memory" "${ids[@]}"
        [[ $answer = 'error FAILED_PRECONDITION'*'no lease: '* ]]
        [ -z "$(ls "$leases")" ]
        daemon_end TERM
        ask allocate "$memory" "$second-_-0"
        [[ $answer = 'error '*daemon* ]]
        [ -z "$(ls "$leases")" ]
        daemon_start
}

@test "bad use is refused in one line" {
        run -2 "$sublet" device-plugin --preload --seats 2
        [[ $output = *--seats* ]]
        run -2 "$sublet" device-plugin --preload --placed
        [[ $output = *--placed* ]]
        run -2 "$sublet" device-plugin --preload --lease-dir here
        [[ $output = *--lease-dir* ]]
        [ "$(stat -f -c %T "$machine")" != tmpfs ] || skip "/tmp is a tmpfs here"
        run -1 "$sublet" device-plugin --kubelet "$folder" --preload --lease-dir "$machine/leases"
        [[ $output = *"not on a tmpfs"* ]]
}
