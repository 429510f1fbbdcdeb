#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Containers on this machine's device, or on the simulator: runc starts PyTorch under the profile and hook of
# `sublet oci spec`. Each container's root is the machine's own, read-only, so that only runc has to be installed.
# Needs root, runc (or RUNTIME=crun) and python3; PyTorch on a real device. TAP on stdout, raw logs in
# ${OUT:-/tmp/sublet-container}; three minutes; the verdict is the last line.
#
#       tests/gpu/container.sh [BUILD]      SUBLET=... RUNTIME=runc SECONDS_EACH=10 SHARES="70 30"
#                                           PARTS="quota gate shares groups"
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
sublet=$(realpath "${SUBLET:-$build/src/sublet}") || exit 1
runtime=${RUNTIME:-runc}
if [ ! -e /sys/module/nvidia/version ] && [ -z "${SUBLET_SIM:-}" ]; then
        # shellcheck disable=SC2086  # options
        exec "$sublet" sim ${SIM_OPTIONS:-} -- "$0" "$@"
fi
# Mounts of our own, which go with us. crun refuses the hybrid layout of control groups.
if [ -z "${SUBLET_OWN_MOUNTS:-}" ]; then
        SUBLET_OWN_MOUNTS=1 exec unshare -m --propagation slave -- "$0" "$@"
fi
umount /sys/fs/cgroup/unified 2> /dev/null
out=${OUT:-/tmp/sublet-container}
read -ra shares <<< "${SHARES:-70 30}"
seconds=${SECONDS_EACH:-10}
parts=" ${PARTS:-quota gate shares groups} "
work=$(mktemp -d /tmp/sublet-gpu-container-XXXXXX)
log=$out/container.log
n=0 passed=0 failed=0 started=$SECONDS daemon=
mkdir -p "$out" "$work/root" "$work/share" "$work/state"
: > "$log"
export SUBLET_DIR=$work/node

outside() { env -u LD_PRELOAD "$@"; } # of the simulator, which the runtime itself has no use for
runs() { outside "$runtime" --root "$work/state" "$@"; }
finish() {
        local id
        for id in q t0 t1 u g0 g1 s; do runs delete -f "$id" 2> /dev/null; done
        [ -z "$daemon" ] || kill "$daemon" 2> /dev/null
        wait 2> /dev/null
        rmdir /tmp/nvidia-mps 2> /dev/null # where the pipe was mounted: these containers' root is the machine's
        umount -R -l "$work/root" 2> /dev/null && rm -rf "$work"
}
trap finish EXIT

say() { echo "$@" | tee -a "$log"; }
check() { # CLAIM TRUE-IF-NOT-EMPTY
        n=$((n + 1))
        if [ "$2" ]; then passed=$((passed + 1)) && say "ok $n - $1"; else failed=$((failed + 1)) && say "not ok $n - $1"; fi
}
is() { awk -v a="${1:-nan}" -v b="${3:-nan}" "BEGIN { exit !(a != \"nan\" && b != \"nan\" && a + 0 $2 b + 0) }" && echo y; }
value() { sed -n "s/^\(.* \)\?$2=\([^ ]*\).*/\2/p" "$1" 2> /dev/null | tail -1; } # FILE NAME
for_seconds() { # SECONDS COMMAND...: until it succeeds
        local end=$((SECONDS + $1))
        shift
        until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}

# ---- the machine ------------------------------------------------------------------------------
if [ -n "${SUBLET_SIM:-}" ]; then
        machine="simulated, programs of its own instead of PyTorch (its shares say nothing about a GPU)"
        bound=20 # it computes on the CPU, which other programs use too
        quota_program=("$(realpath "$build/tests/gpu/gpu-families")" alloc 64)
        time_program=("$(realpath "$build/tests/gpu/gpu-load")" -t 100 -k 770 deep)
else
        bound=1
        machine=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
        python=$(command -v python3)
        quota_program=("$python" "$PWD/tests/gpu/torch_oom.py")
        time_program=("$python" "$PWD/tests/gpu/torch_burn.py" 100)
fi
say "# machine: $machine, $(runs --version 2>&1 | head -1), kernel $(uname -r), $(nproc) processors, $(date -u +%FT%TZ)"
mount --rbind / "$work/root" && mount --make-rslave "$work/root" || { say "# the root cannot be mounted a second time"; exit 1; }

daemon_start() {
        "$sublet" daemon --dir "$SUBLET_DIR" >> "$out/daemon.log" 2>&1 &
        daemon=$!
        for_seconds 20 test -S "$SUBLET_DIR/seccomp.sock"
}
mkdir -p "$SUBLET_DIR"
daemon_start
check "the daemon listens for containers" "$([ -S "$SUBLET_DIR/seccomp.sock" ] && echo y)"
"$sublet" oci profile > "$out/profile.json" 2>> "$log"
check "there is a profile for this driver, and this libseccomp makes what it should of it" \
        "$([ -s "$out/profile.json" ] && echo y)"

# ---- containers -------------------------------------------------------------------------------
# bundle NAME ANNOTATIONS-JSON COMMAND...: the specification is runc's own, with our profile and hook; then the nodes
bundle() {
        local name=$1 notes=$2
        shift 2
        mkdir -p "$work/$name"
        (cd "$work/$name" && rm -f config.json && outside "$runtime" spec) || return 1
        "$sublet" oci spec --runtime "$work/$name/config.json" > "$work/$name/ours.json" || return 1
        python3 - "$work/$name" "$work" "$notes" "$@" << 'END'
import glob, json, os, stat, sys
at, work, notes, command = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:]
spec = json.load(open(at + "/ours.json"))
spec["root"] = {"path": work + "/root", "readonly": True}
spec["annotations"] = dict(notes, **{"run.oci.hooks.stderr": "/dev/stderr"})
spec["process"].update(args=command, terminal=False, cwd="/", noNewPrivileges=True)
kept = ("PATH", "LD_", "SUBLET_SIM", "PYTHON", "CUDA", "HOME")
spec["process"]["env"] = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(kept)]
spec["process"].pop("rlimits", None)
for kind in spec["process"]["capabilities"]:
    spec["process"]["capabilities"][kind] = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL"]
spec["mounts"].append({"destination": "/var/tmp", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]})
spec["mounts"].append({"destination": work + "/share", "source": work + "/share", "type": "bind", "options": ["rbind", "rw"]})
spec["mounts"] = [m for m in spec["mounts"] if m["destination"] != "/sys"]
for m in spec["mounts"]:
    if m["destination"] == "/dev/shm":
        m["options"] = [o for o in m["options"] if not o.startswith("size=")] + ["size=4g"]
spec["linux"].pop("maskedPaths", None)
spec["linux"]["readonlyPaths"] = ["/proc/sys"]
spec["linux"]["namespaces"] = [{"type": t} for t in ("pid", "mount", "ipc", "uts")]
nodes = [] if os.environ.get("SUBLET_SIM") else sorted(glob.glob("/dev/nvidia[0-9]*")) + ["/dev/nvidiactl", "/dev/nvidia-uvm"]
spec["linux"]["devices"], rules = [], [{"allow": False, "access": "rwm"}]
for node in nodes:
    which = os.stat(node).st_rdev
    where = {"type": "c", "major": os.major(which), "minor": os.minor(which)}
    spec["linux"]["devices"].append(dict(where, path=node, fileMode=0o666, uid=0, gid=0))
    rules.append(dict(where, allow=True, access="rw"))
spec["linux"]["resources"] = {"devices": rules}
if notes.get("gate") == "none":
    del spec["linux"]["seccomp"]
json.dump(spec, open(at + "/config.json", "w"), indent=1)
END
}

# used TENANT...: milliseconds on the device since each began, by the daemon's meter, read together
used() {
        "$sublet" ps --json 2>> "$log" | python3 -c '
import json, sys
of = {t["tenant"]: sum(d["used_ns"] for d in t["devices"]) // 1000000 for t in json.load(sys.stdin)}
print(*(of.get(name, 0) for name in sys.argv[1:]))' "$@"
}
is_there() { "$sublet" ps -q 2> /dev/null | grep -qx "$1"; }
works() { [ "$(used "$1")" -gt 200 ]; }
wants() { [[ $parts == *" $1 "* ]]; }
is_empty() { [ -z "$("$sublet" ps -q)" ]; }

# ---- quota -------------------------------------------------------------------------------------
if wants quota; then
bundle q '{"sublet.dev/mem": "8G"}' "${quota_program[@]}"
runs run -b "$work/q" q > "$out/q.txt" 2>&1 < /dev/null
sed 's/^/# /' "$out/q.txt" | head -30 | tee -a "$log"
check "a container sees its quota as the device ($(value "$out/q.txt" total_mib) MiB)" "$(is "$(value "$out/q.txt" total_mib)" == 8192)"
check "it is out of memory there, as on a smaller device" \
        "$(grep -q 'oom=OutOfMemoryError\|last=CUDA_ERROR_OUT_OF_MEMORY' "$out/q.txt" && echo y)"
check "and computes afterwards" "$(grep -q '^result=ok\|^after=ok' "$out/q.txt" && echo y)"
check "its end empties the ledger" "$(for_seconds 20 is_empty && echo y)"
fi

# ---- without a gate ------------------------------------------------------------------------------
if wants gate; then
bundle u '{"sublet.dev/mem": "8G", "gate": "none"}' /bin/echo it ran
runs run -b "$work/u" u > "$out/u.txt" 2>&1 < /dev/null
sed 's/^/# /' "$out/u.txt" | tee -a "$log"
check "a container with the nodes and without the profile is not started" \
        "$(grep -q 'without a gate' "$out/u.txt" && ! grep -qx 'it ran' "$out/u.txt" && echo y)"
fi

# ---- shares --------------------------------------------------------------------------------------
if wants shares; then
for i in 0 1; do
        bundle "t$i" "{\"sublet.dev/mem\": \"8G\", \"sublet.dev/share\": \"${shares[$i]}\"}" "${time_program[@]}"
        runs run -b "$work/t$i" "t$i" > "$out/t$i.txt" 2>&1 < /dev/null &
done
for_seconds 60 works t0 && for_seconds 60 works t1
check "two containers compute" "$(works t0 && works t1 && echo y)"
measure() { # WHEN
        local a0 a1 b0 b1 got
        sleep 2
        read -r a0 a1 < <(used t0 t1)
        sleep "$seconds"
        read -r b0 b1 < <(used t0 t1)
        got=$(awk "BEGIN { a = $b0 - $a0; b = $b1 - $a1; printf \"%.2f\", (a + b) ? 100 * a / (a + b) : 0 }")
        say "# $1: t0 $((b0 - a0)) ms, t1 $((b1 - a1)) ms of about $((seconds * 1000)); t0 has $got %"
        check "$1: within $bound points of ${shares[0]} : ${shares[1]} over $seconds s ($got)" \
                "$(is "$got" '>=' $((shares[0] - bound)) && is "$got" '<=' $((shares[0] + bound)))"
}
measure "two containers"
"$sublet" ps | sed 's/^/# /' | tee -a "$log"
kill -9 "$daemon" && wait "$daemon" 2> /dev/null
sleep 1
daemon_start
check "both are there for a daemon that comes after a kill -9" "$(for_seconds 20 is_there t0 && for_seconds 20 is_there t1 && echo y)"
measure "after the daemon was killed"
for i in 0 1; do runs kill "t$i" KILL 2>> "$log"; done
check "their end empties the ledger" "$(for_seconds 30 is_empty && echo y)"
fi

# ---- groups --------------------------------------------------------------------------------------
# Two containers of a group with a quarter each, beside one with half: clients of one MPS server, that have half of the
# device together.
clients() { # of the group's server, by its control daemon
        local server
        export CUDA_MPS_PIPE_DIRECTORY=$SUBLET_DIR/mps/0-1/pipe
        server=$(echo get_server_list | nvidia-cuda-mps-control | head -1)
        echo "get_client_list $server" | nvidia-cuda-mps-control | grep -c '^[0-9]'
        unset CUDA_MPS_PIPE_DIRECTORY
}
if wants groups; then
for i in 0 1; do
        bundle "g$i" '{"sublet.dev/mem": "8G", "sublet.dev/share": "25", "sublet.dev/group": "chat"}' "${time_program[@]}"
done
bundle s '{"sublet.dev/mem": "8G", "sublet.dev/share": "50"}' "${time_program[@]}"
for id in g0 g1 s; do
        runs run -b "$work/$id" "$id" > "$out/$id.txt" 2>&1 < /dev/null &
done
for_seconds 60 works g0 && for_seconds 60 works g1 && for_seconds 60 works s
check "two containers of a group and one beside them compute" "$(works g0 && works g1 && works s && echo y)"
tail -n 3 "$out"/g[01].txt | sed 's/^/# /' | tee -a "$log"
[ -n "${SUBLET_SIM:-}" ] || check "both are clients of the group's MPS server" "$(is "$(clients)" == 2)"
runs exec g0 sh -c 'ls -l /tmp/nvidia-mps /dev/shm; : > /dev/shm/ours; : > /tmp/nvidia-mps/mine' > "$out/within.txt" 2>&1
sed 's/^/# /' "$out/within.txt" | tee -a "$log"
check "the pipe is not writable, and files of the group are the group's" \
        "$(grep -qi 'read-only' "$out/within.txt" && runs exec g1 ls /dev/shm/ours > /dev/null 2>&1 && ! runs exec s ls /dev/shm/ours > /dev/null 2>&1 && echo y)"
sleep 2
read -r a0 a1 a2 < <(used g0 g1 s)
sleep "$seconds"
read -r b0 b1 b2 < <(used g0 g1 s)
got=$(awk "BEGIN { g = $b0 - $a0 + $b1 - $a1; s = $b2 - $a2; printf \"%.2f\", (g + s) ? 100 * g / (g + s) : 0 }")
say "# g0 $((b0 - a0)) ms, g1 $((b1 - a1)) ms, s $((b2 - a2)) ms: the group has $got %"
check "the group has half, within $bound points ($got)" "$(is "$got" '>=' $((50 - bound)) && is "$got" '<=' $((50 + bound)))"
"$sublet" ps | sed 's/^/# /' | tee -a "$log"
if [ -z "${SUBLET_SIM:-}" ]; then # there nobody has connected, and no server begun
        pkill -9 -P "$(cut -d' ' -f1 "$SUBLET_DIR/mps/0-1/control")"
        has_fault() { "$sublet" events "$1" | grep -q MPS_FAULT; }
        check "with its server killed both are told, and the one beside them is not" \
                "$(for_seconds 5 has_fault g0 && for_seconds 5 has_fault g1 && ! has_fault s && echo y)"
fi
for id in g0 g1 s; do runs kill "$id" KILL 2>> "$log"; done
check "their end empties the ledger" "$(for_seconds 30 is_empty && echo y)"
fi
"$sublet" usage | sed 's/^/# /' | tee -a "$log"
"$sublet" events 2> /dev/null | tail -20 | sed 's/^/# /' >> "$log"

echo "1..$n"
say "# $((SECONDS - started)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
