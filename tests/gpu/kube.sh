#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kubelet, containerd and runc on this machine's device, or on the simulator: three static pods rent a quarter, a
# quarter and a half of the GPU, of its memory and of its time. Nobody else is there: no API server, so kubelet and the
# device plugin choose. Shown: the quotas, the shares, what attacks get as root of an image, kubelet, containerd, daemon
# and device plugin killed under load, and that the pods' end returns everything. PyTorch where python3 has it, else
# gpu-load. TAP on stdout, raw logs in ${OUT:-/tmp/sublet-kube}, a table, the verdict last; 5 minutes.
#
#       tests/gpu/kube.sh kit FOLDER       here: FOLDER/kube.tar.xz (27 MiB), what a bare machine lacks: kubelet and
#                                          containerd of tests/cluster/today, Debian's runc with its library, two
#                                          images. Beside it belong src and tests of a build
#       tests/gpu/kube.sh BUILD [FOLDER]   there, as root, with python3. FOLDER has the kit (default: BUILD). Libraries
#                                          that the machine lacks are looked for in BUILD/lib
#
#       SECONDS_EACH=15  ATTACKS="caller-raw ..."  KUBE=DIR, where a kit is unpacked
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD

# ---- the kit ----------------------------------------------------------------------------------------
kit() { # FOLDER
        local today
        work=$(mktemp -d) && mkdir -p "$1" "$work/lib" || return 1
        trap 'rm -rf "$work"' EXIT
        today=$(tests/cluster/today/build) || return 1
        echo "# kubelet alone: the programs of tests/cluster/today are one" >&2
        CGO_ENABLED=0 go -C tests/cluster/today/kube build -trimpath -gcflags='all=-l -dwarf=false' -ldflags '-s -w' \
                -o "$work/kubelet" k8s.io/kubernetes/cmd/kubelet || return 1
        cp "$today"/{containerd,containerd-shim-runc-v2,ctr} "$work/" && cp "$(command -v runc)" "$work/" || return 1
        cp -L "$(command -v ip)" "$work/lib/" || return 1 # with its libraries, and runc's
        ldd "$work/runc" "$work/lib/ip" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | grep -v '/libc\.so' | sort -u | xargs -I{} cp -L {} "$work/lib/"
        strip -g "$work/runc" "$work"/lib/* 2> /dev/null
        # shellcheck source=/dev/null
        . tests/cluster/images.bash
        image_pause "$work/pause"
        mkdir -p "$work/machine"/{bin,sbin,usr,lib,lib64,etc,opt,root,home,srv,tmp,var/tmp,dev,proc,sys}
        image_pack "$work/machine" localhost/machine:1 /bin/sh
        rm -r "${work:?}"/{pause,machine}
        tar -C "$work" -c . | xz -9 > "$1/kube.tar.xz" || return 1
        ls -l "$1/kube.tar.xz"
}
if [ "${1:-}" = kit ]; then
        kit "${2:?tests/gpu/kube.sh kit FOLDER}"
        exit
fi

build=$(realpath "${1:-build}") folder=$(realpath "${2:-${1:-build}}")
sublet=$build/src/sublet
out=${OUT:-/tmp/sublet-kube}
[ -x "$sublet" ] || { echo "no $sublet"; exit 1; }
# The machine's own, for its programs
export THEIR_LIBRARIES=${THEIR_LIBRARIES-${LD_LIBRARY_PATH:-}}
[ ! -d "$build/lib" ] || export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ ! -e /sys/module/nvidia/version ] && [ -z "${SUBLET_SIM:-}" ]; then
        exec "$sublet" sim --memory "${SIM_MEMORY:-16G}" -- "$0" "$@"
fi
# Mounts and a network of our own, which go with us.
[ -n "${SUBLET_OWN_MOUNTS:-}" ] || SUBLET_OWN_MOUNTS=1 exec unshare -n -m --propagation slave -- "$0" "$@"

seconds=${SECONDS_EACH:-15}
folders=(/var/lib/kubelet /var/log/pods /var/log/containers /run/sublet /run/containerd /var/lib/sublet)
work=$(mktemp -d /tmp/sublet-kube-XXXXXX)
mkdir -p "$out" "$work"/{static,pids,bin,cni,state,root}
log=$out/kube.log
: > "$log"
n=0 passed=0 failed=0 started=$SECONDS table=()
outside() { env -u LD_PRELOAD "$@"; } # of the simulator, which the runtime itself has no use for

say() { echo "$@" | tee -a "$log"; }
check() { # CLAIM TRUE-IF-NOT-EMPTY
        n=$((n + 1))
        if [ "$2" ]; then passed=$((passed + 1)) && say "ok $n - $1"; else failed=$((failed + 1)) && say "not ok $n - $1"; fi
}
is() { awk -v a="${1:-nan}" -v b="${3:-nan}" "BEGIN { exit !(a != \"nan\" && b != \"nan\" && a + 0 $2 b + 0) }" && echo y; }
for_seconds() { # SECONDS COMMAND...: until it succeeds
        local end=$((SECONDS + $1))
        shift
        until "$@" > /dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}

# ---- parts: start NAME COMMAND...; end NAME SIGNAL; again NAME ------------------------------------------
start() {
        local name=$1
        shift
        printf '%q ' "$@" > "$work/pids/$name.how"
        again "$name"
}
again() {
        eval "exec $(cat "$work/pids/$1.how")" >> "$out/$1.log" 2>&1 < /dev/null &
        echo $! > "$work/pids/$1"
}
end() {
        [ -f "$work/pids/$1" ] || return 0
        kill "-$2" "$(cat "$work/pids/$1")" 2> /dev/null
        wait "$(cat "$work/pids/$1")" 2> /dev/null
}
ctr() { outside "$work/bin/ctr" -a "$work/containerd.sock" -n k8s.io "$@"; }

finish() {
        local id
        rm -f "$work"/static/*
        end plugin TERM
        end kubelet TERM
        for id in $(ctr tasks ls -q 2> /dev/null); do ctr tasks delete -f "$id"; done > /dev/null 2>&1
        end containerd TERM
        end daemon TERM
        umount -l "${folders[@]}" "$work/state" 2> /dev/null
        [ ! -e "$work/ld.so.cache" ] || umount -l /etc/ld.so.cache
        rm -rf --one-file-system "$work"
}
trap finish EXIT

# ---- the machine ------------------------------------------------------------------------------------
if [ -n "${KUBE:-}" ]; then
        cp -r "$KUBE"/* "$work/bin/" || exit 1
else
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$folder/kube.tar.xz" "$work/bin" || exit 1
fi
export PATH=$work/bin:$PATH
# runc starts itself anew without any environment, so its library has to be where all are looked for: in the list of
# libraries as this run sees it, from a folder that goes with it.
if ! ldconfig -p | grep -q libseccomp.so.2; then
        mkdir "$work/seccomp" && cp "$work"/bin/lib/libseccomp.so.2 "$work/seccomp/" || exit 1
        ldconfig -X -C "$work/ld.so.cache" "$work/seccomp" && mount --bind "$work/ld.so.cache" /etc/ld.so.cache || exit 1
fi
net=(ip)
command -v ip > /dev/null || net=(env LD_LIBRARY_PATH="$work/bin/lib" "$work/bin/lib/ip")
python=$(command -v python3)
torch=$(LD_LIBRARY_PATH=$THEIR_LIBRARIES "$python" -c 'import torch; print(torch.__version__ if torch.cuda.is_available() else "")' 2> /dev/null)
[ -z "$torch" ] || PLACES=$("$python" -c 'import sys; print(*{sys.prefix, sys.base_prefix, *filter(None, sys.path)}, sep=":")')
export PLACES=${PLACES:-}
if [ -n "${SUBLET_SIM:-}" ]; then
        machine="simulated (its shares say nothing about a GPU)" bound=20 torch=
        used() { outside env SUBLET_SIM="$SUBLET_SIM" LD_PRELOAD="$LD_PRELOAD" "$build/tests/gpu/gpu-families" meminfo |
                tr ' ' '\n' | awk -F= '/^total_mib/ { t = $2 } /^free_mib/ { f = $2 } END { print t - f }'; }
else
        machine=$(LD_LIBRARY_PATH=$THEIR_LIBRARIES nvidia-smi --query-gpu=name,driver_version --format=csv,noheader -i 0) bound=1
        used() { LD_LIBRARY_PATH=$THEIR_LIBRARIES nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0; }
fi
say "# machine: $machine, $(runc --version | head -1), kernel $(uname -r), $(nproc) processors, torch ${torch:-none}, $(date -u +%FT%TZ)"

"${net[@]}" link set lo up
"${net[@]}" link add node0 type veth peer name node1 || exit 1
"${net[@]}" addr add 10.200.0.1/24 dev node0
for at in node0 node1; do "${net[@]}" link set $at up; done
"${net[@]}" route add default dev node0
for at in "${folders[@]}"; do
        mkdir -p "$at" "$work/root$at" && mount --bind "$work/root$at" "$at" || exit 1
done
mount -t tmpfs none "$work/state" || exit 1 # snapshots: whatever / is made of

daemon_is_there() { "$sublet" ps -q; }
start daemon "$sublet" daemon --state /var/lib/sublet/sublet.db
for_seconds 20 daemon_is_there
before=$(used)

# The runtime's base specification with profile and hook; on the simulator with its nodes and libraries, on a device
# with the libraries of the hook.
outside "$work/bin/ctr" oci spec | "$sublet" oci spec --runtime /dev/stdin > "$work/ours.json" || exit 1
"$python" - "$work/ours.json" << 'END' > "$work/base.json" || exit 1
import json, os, sys
spec = json.load(open(sys.argv[1]))
env = [f"{k}={v}" for k, v in os.environ.items() if k in ("SUBLET_SIM", "LD_PRELOAD", "LD_LIBRARY_PATH")]
for kind in spec.get("hooks", {}).values():
    for hook in kind:
        hook["env"] = [e for e in env if e.startswith("LD_LIBRARY_PATH")]
if os.environ.get("SUBLET_SIM"):
    spec["process"]["env"] = spec["process"].get("env", []) + env
    places = {os.environ["SUBLET_SIM"], os.path.dirname(os.environ["LD_PRELOAD"]), *os.environ["LD_LIBRARY_PATH"].split(":")}
    spec["mounts"] += [{"destination": p, "source": p, "type": "bind", "options": ["rbind", "rw"]} for p in sorted(places) if os.path.isdir(p)]
json.dump(spec, sys.stdout)
END
# It is the default runtime, because kubelet alone knows no runtime classes.
cri='plugins."io.containerd.grpc.v1.cri"'
{
        cat << END
version = 2
root = "$work/state/root"
state = "$work/state/run"
[grpc]
  address = "$work/containerd.sock"
[$cri]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
[$cri.cni]
  conf_dir = "$work/cni"
[$cri.containerd]
  snapshotter = "native"
  default_runtime_name = "sublet"
END
        "$sublet" oci config --file "$work/base.json"
} > "$work/containerd.toml"
start containerd env -u LD_PRELOAD containerd -c "$work/containerd.toml"
for_seconds 30 ctr version
for image in pause machine; do ctr images import "$work/bin/$image.tar" >> "$log" 2>&1; done

cat > "$work/kubelet.yaml" << END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 10.200.0.1
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupsPerQOS: false
enforceNodeAllocatable: []
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
maxOpenFiles: 20000
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "1Mi", nodefs.available: "0%", imagefs.available: "0%"}
staticPodPath: $work/static
fileCheckFrequency: 1s
syncFrequency: 2s
containerRuntimeEndpoint: unix://$work/containerd.sock
END
start kubelet env -u LD_PRELOAD kubelet --config="$work/kubelet.yaml" --root-dir=/var/lib/kubelet --hostname-override=n1 \
        --node-ip=10.200.0.1 --cert-dir="$work/certificates"
for_seconds 60 test -S /var/lib/kubelet/device-plugins/kubelet.sock
# Nodes by the plugin; the libraries are the machine's, which the pods mount.
inject=(--inject nodes)
[ -z "${SUBLET_SIM:-}" ] || inject=()
start plugin "$sublet" device-plugin "${inject[@]}"
for_seconds 30 grep -q 'gpu-mem: registered with kubelet' "$out/plugin.log"
check "kubelet alone has containerd and the device plugin" "$(grep -q 'gpu-mem: registered with kubelet' "$out/plugin.log" && echo y)"

# ---- pods -------------------------------------------------------------------------------------------
# pod NAME GIB SHARE COMMAND...: a static pod whose root is the machine's, read-only
pod() {
        "$python" - "$work" "$build" "$root" "$@" << 'END' > "$work/new.json" && mv "$work/new.json" "$work/static/$1.json"
import json, os, sys
work, build, root, name, gib, share, command = *sys.argv[1:7], sys.argv[7:]
places = [p for p in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/root", "/home", "/srv") if os.path.isdir(p)]
more = [build, root] + [p for p in os.environ["PLACES"].split(":") if os.path.isdir(p)]
for p in sorted(set(more)):
    if not any((p + "/").startswith(q + "/") for q in places):
        places.append(p)
env = [{"name": k, "value": v} for k, v in os.environ.items() if k.startswith(("PATH", "PYTHON", "CUDA", "QUOTA_MIB"))]
if os.environ["THEIR_LIBRARIES"] and not os.environ.get("SUBLET_SIM"):
    env.append({"name": "LD_LIBRARY_PATH", "value": os.environ["THEIR_LIBRARIES"]})
limits = {"sublet.dev/gpu-mem": gib}
if share != "-":
    limits["sublet.dev/gpu-share"] = share
json.dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {
    "hostNetwork": True, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
    "containers": [{"name": "main", "image": "localhost/machine:1", "imagePullPolicy": "Never", "command": command,
        "env": env + [{"name": "HOME", "value": "/tmp"}], "resources": {"limits": limits},
        "volumeMounts": [{"name": f"v{i}", "mountPath": p, "readOnly": True} for i, p in enumerate(places)]}],
    "volumes": [{"name": f"v{i}", "hostPath": {"path": os.path.realpath(p)}} for i, p in enumerate(places)]}}, sys.stdout)
END
}

logged() { cat /var/log/pods/default_"$1"-n1_*/main/*.log 2> /dev/null; } # POD
value() { logged "$1" | tr ' ' '\n' | sed -n "s/^$2=//p" | tail -n 1; } # POD NAME
# of POD FIELD: what the daemon says of it
of() {
        "$sublet" ps --json | "$python" -c '
import json, sys
for t in json.load(sys.stdin):
    if t.get("container", {}).get("name") == sys.argv[1] + "-n1":
        print(t.get(sys.argv[2], t["devices"][0].get(sys.argv[2])))' "$1" "$2"
}
computes() { [ "$(of "$1" used_ns)" -gt 200000000 ]; }
ended() { ! "$sublet" ps --json | grep -q "\"$1-n1\""; }
is_empty() { [ -z "$("$sublet" ps -q)" ]; }

total=$("$python" -c '
import http.client, json, socket
c = http.client.HTTPConnection("sublet")
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect("/run/sublet/sublet.sock")
c.request("GET", "/v1/devices")
print(json.load(c.getresponse())[0]["memory_bytes"] >> 30)') || exit 1
quarter=$(((total - 2) / 4)) # and a rest, for attackers
names=(quarter-a quarter-b half)
declare -A gib=([quarter-a]=$quarter [quarter-b]=$quarter [half]=$((2 * quarter))) share=([quarter-a]=25 [quarter-b]=25 [half]=50)
sees=("$build/tests/gpu/gpu-families" meminfo)
burns=("$build/tests/gpu/gpu-load" -t 900 -k 770 deep)
[ -z "$torch" ] || burns=("$python" "$root/tests/gpu/torch_burn.py" 900)
for name in "${names[@]}"; do
        pod "$name" "${gib[$name]}" "${share[$name]}" /bin/sh -c "${sees[*]}; exec ${burns[*]}"
done
for name in "${names[@]}"; do
        for_seconds 90 computes "$name"
        check "$name computes and sees ${gib[$name]} GiB as its device ($(value "$name" total_mib) MiB)" \
                "$(computes "$name" && is "$(value "$name" total_mib)" == $((gib[$name] * 1024)))"
done
"$sublet" ps | sed 's/^/# /' | tee -a "$log"

# ---- shares -----------------------------------------------------------------------------------------
# measure WHEN: what each had of the time, of what all had
measure() {
        local name sum=0 line part
        local -A from=() to=()
        sleep 2
        for name in "${names[@]}"; do from[$name]=$(of "$name" used_ns); done
        sleep "$seconds"
        for name in "${names[@]}"; do
                to[$name]=$(($(of "$name" used_ns) - from[$name]))
                sum=$((sum + to[$name]))
        done
        line=$(printf '%-28s' "$1")
        for name in "${names[@]}"; do
                part=$(awk "BEGIN { printf \"%.2f\", $sum ? 100 * ${to[$name]} / $sum : 0 }")
                line+=$(printf '%14s' "$part %")
                check "$1: $name within $bound points of ${share[$name]} % ($part)" \
                        "$(is "$part" '>=' $((share[$name] - bound)) && is "$part" '<=' $((share[$name] + bound)))"
        done
        table+=("$line")
        "$sublet" ps | sed 's/^/# /' >> "$log"
}
measure "three pods"

# ---- an escape --------------------------------------------------------------------------------------
# By the device's own figure, beside the three, whose memory does not change; then what root of an image may try.
for attack in ${ATTACKS:-caller-raw caller-own-filter caller-passed export-in-socket exec-midway managed-own-table}; do
        held=$(used) most=0
        QUOTA_MIB=1024 pod "$attack" 1 - /bin/sh -c "sleep 12 | $build/tests/hostile/attack-$attack; echo ended"
        for ((i = 0; i < 90; i++)); do
                now=$(($(used) - held))
                [ $now -le $most ] || most=$now
                ! logged "$attack" | grep -q ended || break
                sleep 0.3
        done
        said=$(logged "$attack" | grep -o 'holding mib=[0-9]*\|cannot.*\|setup.*' | tail -n 1)
        check "as root of its image, $attack: at most its quota of 1024 MiB ($most; ${said:-it said nothing})" \
                "$([ $most -le 1040 ] && [[ $said == @(holding|cannot)* ]] && logged "$attack" | grep -q ended && echo y)"
        rm "$work/static/$attack.json"
        for_seconds 40 ended "$attack"
done
cat > "$out/escape.sh" << 'END'
try() { if "$@" > /dev/null 2>&1; then echo "escaped by: $*"; else echo "stopped: $*"; fi; }
try nsenter -t 1 -m -- test -d /var/lib/kubelet/pods
try mount -t tmpfs none /mnt
try mount -o remount,rw /usr
try sh -c 'echo x > /usr/sublet-was-here'
try sh -c 'echo x > /proc/sys/kernel/core_pattern'
try sh -c 'echo a > /sys/fs/cgroup/devices/devices.allow'
try test -S /run/sublet/sublet.sock
try unshare -m true
try sh -c 'mknod /tmp/sda b 8 0 && dd if=/tmp/sda of=/dev/null count=1'
echo tried
END
tried() { logged attacker | grep -q tried; }
pod attacker 1 - /bin/sh -c "$(cat "$out/escape.sh")"
for_seconds 60 tried
logged attacker | sed 's/^/# /' | tee -a "$log"
check "of what root of the image tried, nothing leads out" \
        "$(tried && ! logged attacker | grep -q 'escaped by' && echo y)"
rm "$work/static/attacker.json"
for_seconds 40 ended attacker

# ---- kills ------------------------------------------------------------------------------------------
has_shim() { [ "$(of "$1" 'keeper')" = "$2" ]; }
# killed PART READY...: it is killed under load and started again; nobody inside notices
killed() {
        local part=$1 name same=y
        local -A shim=()
        shift
        for name in "${names[@]}"; do shim[$name]=$(of "$name" 'keeper'); done
        end "$part" KILL
        sleep 2
        again "$part"
        for_seconds 60 "$@"
        for name in "${names[@]}"; do
                for_seconds 30 has_shim "$name" "${shim[$name]}" || same=
        done
        check "$part killed: the three are the same tenants" "$same"
        measure "$part killed"
}
killed kubelet "$python" -c 'import socket; socket.create_connection(("10.200.0.1", 10250))'
killed containerd ctr version
killed daemon daemon_is_there
killed plugin test -S /var/lib/kubelet/device-plugins/kubelet.sock

# ---- the end ----------------------------------------------------------------------------------------
for name in "${names[@]}"; do rm "$work/static/$name.json"; done
for_seconds 60 is_empty
check "the pods' end empties the ledger" "$(is_empty && echo y)"
is_free() { [ "$(used)" -le $((before + 16)) ]; }
for_seconds 30 is_free
check "and the device ($before MiB used before, $(used) after)" "$(is_free && echo y)"
pod all "$total" 100 /bin/sh -c "${sees[*]}; sleep 5"
sees_all() { is "$(value all total_mib)" '>=' $((total * 1024 - 1024)); }
for_seconds 60 sees_all
check "kubelet has all its ids again: one pod rents the whole ($(value all total_mib) MiB)" "$(sees_all)"
rm "$work/static/all.json"
for_seconds 60 is_empty
"$sublet" events 2> /dev/null | tail -40 >> "$log"

echo "1..$n"
say "# $(printf '%-28s%14s%14s%14s' 'share of the GPU' quarter-a quarter-b half)"
for line in "${table[@]}"; do say "# $line"; done
say "# $((SECONDS - started)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
