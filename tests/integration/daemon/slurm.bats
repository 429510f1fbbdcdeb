#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Slurm's shards as leases: slurmctld, slurmd and munged of Debian on one simulated machine, with the files of
# deploy/slurm. slurmd is in a mount namespace, where these files are /etc/pam.d and /etc/security.
# later: because of packages that `make deps` does not install
# variants: plain, because the library in the jobs is not built with a sanitizer, and Slurm is not ours
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

top=$(cd "$BATS_TEST_DIRNAME/../../.." && pwd)
node=$(hostname -s)

setup() {
        for program in slurmctld slurmd srun munged; do
                command -v $program > /dev/null || skip "no $program here: tools/deps slurm"
        done
        [ "$(id -u)" = 0 ] || skip 'slurmd changes users and mounts: it needs root'
        unshare -m true 2> /dev/null || skip 'no mount namespaces here'
        machine_start --memory 24G
        daemon_start
        tmpfs=$(mktemp -d /dev/shm/sublet-slurm-XXXXXX)
        slurm=$machine/slurm
        export SLURM_CONF=$slurm/slurm.conf
        slurm_files
        slurm_start
}

teardown() {
        for process in "${slurmd:-}" "${slurmctld:-}" "${munged:-}"; do
                [ -z "$process" ] || { kill "$process" 2> /dev/null && wait "$process" 2> /dev/null; } || true
        done
        node_end
        machine_end
        [ -z "${tmpfs:-}" ] || rm -rf "$tmpfs"
}

free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# The files of deploy/slurm as an administrator installs them, but for their directory. The prolog is on the simulated
# machine, and what goes into the programs is this machine's library too.
slurm_files() {
        mkdir -p "$slurm"/{munge,state,spool,pam.d,security/namespace.d}
        chmod 755 "$machine" "$slurm" "$slurm/munge"
        for file in prolog epilog namespace settings; do
                sed "s#/etc/sublet/slurm#$slurm#" "$top/deploy/slurm/$file" > "$slurm/$file"
        done
        sed -i "s#^SUBLET=.*#SUBLET=$slurm/sublet#; s#^LEASES=.*#LEASES=$tmpfs/leases#" "$slurm/settings"
        cat > "$slurm/sublet" << END
#!/bin/sh
export SUBLET_SIM=$machine_dir LD_LIBRARY_PATH=$machine_libraries SUBLET_DIR=$SUBLET_DIR
LD_PRELOAD=$machine_preload $plain/src/sublet "\$@" || exit
for last; do :; done
[ ! -d "\$last" ] || echo $machine_preload >> "\$last/ld.so.preload"
END
        cp "$slurm/namespace" "$slurm/security/namespace.d/sublet"
        cp "$top/deploy/slurm/namespace.conf" "$slurm/security/"
        cp "$top/deploy/slurm/pam" "$slurm/pam.d/slurm"
        : > "$slurm/security/limits.conf"
        chmod 755 "$slurm"/{prolog,epilog,sublet,security/namespace.d/sublet}
        head -c 128 /dev/urandom > "$slurm/munge/key"
        chmod 400 "$slurm/munge/key"
        sed -n '/^#/!p' "$top/deploy/slurm/slurm.conf" | sed "s#/etc/sublet/slurm#$slurm#" > "$SLURM_CONF"
        cat >> "$SLURM_CONF" << END
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
AuthInfo=socket=$slurm/munge/socket
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectTypeParameters=CR_Core
MpiDefault=none
SlurmdParameters=config_overrides
NodeName=$node NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:1,shard:24
PartitionName=all Nodes=ALL Default=YES State=UP
END
        printf 'Name=gpu File=/dev/null\nName=shard Count=24\n' > "$slurm/gres.conf"
        echo 'CgroupAutomount=no' > "$slurm/cgroup.conf"
}

slurm_start() {
        munged -F --force --socket="$slurm/munge/socket" --key-file="$slurm/munge/key" --pid-file="$slurm/munge/pid" \
                --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed" > "$slurm/munge/said" 2>&1 3>&- &
        munged=$!
        wait_for [ -S "$slurm/munge/socket" ]
        slurmctld -D -i > "$slurm/ctld.said" 2>&1 3>&- &
        slurmctld=$!
        # shellcheck disable=SC2016  # for the inner shell
        unshare -m sh -c 'mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/sublet/lease || exit 99
                [ -e /etc/ld.so.preload ] || touch /etc/ld.so.preload
                mkdir -p /etc/security && mount --bind "$1/pam.d" /etc/pam.d && mount --bind "$1/security" /etc/security || exit 99
                exec slurmd -D -N "$2"' - "$slurm" "$node" > "$slurm/slurmd.said" 2>&1 3>&- &
        slurmd=$!
        wait_for eval 'sinfo -h -o %T | grep -qx idle' || { tail -n 20 "$slurm"/*.log "$slurm"/*.said; return 1; }
}

# job COMMAND...: srun with the simulated machine's programs; says what the daemons said if it fails
job() {
        SUBLET_SIM=$machine_dir LD_LIBRARY_PATH=$machine_libraries PATH=$plain/src/sim/nvml:$PATH timeout 60 srun -Q "$@" 3>&- ||
                { r=$?; tail -n 15 "$slurm/slurmd.log"; return $r; }
}

@test "srun --gres=shard:8 nvidia-smi shows 8 GiB, and the lease ends with the job" {
        run job --gres=shard:8 nvidia-smi
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *" 8192MiB "* ]]
        wait_for eval '[ -z "$(ls "$tmpfs/leases")" ] && [ -z "$("$sublet" ps -q)" ]'
        "$sublet" ps -a | grep slurm-1
}

@test "a user's job can read its lease, and write its usage segment only" {
        # shellcheck disable=SC2016  # for the job
        run -0 setpriv --reuid=65534 --regid=65534 --clear-groups timeout 60 srun -Q --chdir=/ --gres=shard:8 sh -c 'id -u
                cd /run/sublet/lease && test -r page && test -x libsublet.so && test -w region && test ! -w page && ! touch new 2> /dev/null &&
                grep -x /run/sublet/lease/libsublet.so /etc/ld.so.preload'
        echo "$output"
        [[ $output == 65534*libsublet.so* ]]
}

@test "the steps and tasks of a job share its shards" {
        # The first step holds 3 of 4 GiB; both tasks of the second find one.
        # shellcheck disable=SC2016  # for the job
        run job -n 1 -c 2 --gres=shard:4 bash -c '"$0" hold 3072 "$1/held" & holder=$!
                until [ -s "$1/held" ]; do sleep 0.1; done
                srun --overlap -n 2 -c 1 sh -c "until mkdir \"\$1/turn\" 2> /dev/null; do sleep 0.1; done
                        \"\$0\" threads 2; rmdir \"\$1/turn\"" "$0" "$1"
                kill "$(cat "$1/held")"; wait $holder' "$plain/tests/gpu/gpu-interposed" "$machine"
        echo "$output"
        [ "$(grep -c '^got_mib=1024$' <<< "$output")" -eq 2 ]
}

@test "a job without shards is left alone: no lease, no library" {
        run -0 job cat /etc/ld.so.preload
        [ -z "$output" ] || { echo "$output"; return 1; }
        run -0 job --gres=gpu:1 sh -c 'ls /run/sublet/lease; cat /etc/ld.so.preload'
        [ -z "$output" ] || { echo "$output"; return 1; }
        [ ! -d "$tmpfs/leases" ]
}

@test "where there is no lease to be had, the job does not start" {
        daemon_end TERM
        run ! job --gres=shard:8 touch "$machine/ran"
        echo "$output"
        [ ! -e "$machine/ran" ]
        wait_for eval 'sinfo -h -R -o %E | grep -q "Prolog error"'
}

@test "a lease that cannot be mounted is a step that does not start" {
        sed -i 's#^mount --bind "$lease/region".*#mount --bind "$lease/no-such-file" /run/sublet/lease/region#' "$slurm/security/namespace.d/sublet"
        run job --gres=shard:8 touch "$machine/ran"
        echo "$output"
        [ ! -e "$machine/ran" ]
        [[ $output == *"launch failed"* ]] # srun's exit code is 0 then
}
