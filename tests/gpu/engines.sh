#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants on one fixed-function engine, 80 : 20: copies (H2D), the decoders (H.264), JPEG; alone and by the driver's
# default in the same run. On a machine with a device; video and its stream t.h264 lie beside SUBLET
# (tests/gpu/everything.sh kit). On the simulator only copies. About 100 s. A table at the end.
#
#       tests/gpu/engines.sh [BUILD]    SUBLET=path of sublet, WINDOW=5: seconds of each measurement
#                                       PARTS="copy decoder jpeg"
#
# A rate is of the time in which both ran, less its ends; "worst 2 s" is the greatest distance of the first one's part
# from its mean, over any 2 s.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
sublet=$(realpath "${SUBLET:-$build/src/sublet}") || exit 1
if [ ! -e /sys/module/nvidia/version ] && [ -z "${SUBLET_SIM:-}" ]; then
        export SUBLET_SIM_COPY_NS=2000000
        # shellcheck disable=SC2086  # options
        exec "$sublet" sim ${SIM_OPTIONS:---realistic-time} -- "$0" "$@"
fi
out=${OUT:-/tmp/sublet-engines} window=${WINDOW:-5} work=$(mktemp -d)
log=$out/engines.log daemon=
mkdir -p "$out" "$work/node"
: > "$log"
say() { echo "$@" | tee -a "$log"; }
finish() {
        jobs -p | xargs -r kill -9 2> /dev/null
        wait 2> /dev/null
        rm -rf "$work"
}
trap finish EXIT

cat > "$work/jpeg.py" << 'END'
import sys, time, torch, torchvision
y, x = torch.meshgrid(torch.arange(1080), torch.arange(1920), indexing="ij")
picture = torch.stack([(x + y) % 256, (x * 2) % 256, (y * 3) % 256]).to(torch.uint8)
data = [torchvision.io.encode_jpeg(picture, quality=80) for _ in range(32)]
torchvision.io.decode_jpeg(data, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.readline()
begin = said = time.monotonic_ns()
n = 0
while time.monotonic_ns() - begin < float(sys.argv[1]) * 1e9:
    torchvision.io.decode_jpeg(data, device="cuda")
    torch.cuda.synchronize()
    n += 32
    if time.monotonic_ns() - said > 1e8:
        said = time.monotonic_ns()
        print(f"at={said} done={n}", flush=True)
END
cat > "$work/judge.py" << 'END'
import sys
def read(name):
    rows = [line.split() for line in open(name) if line.startswith("at=")]
    return [(int(a[3:]) / 1e9, int(b[5:])) for a, b in rows]
def at(rows, t):
    for (t0, n0), (t1, n1) in zip(rows, rows[1:]):
        if t0 <= t <= t1:
            return n0 + (n1 - n0) * (t - t0) / (t1 - t0)
    return rows[-1][1]
logs = [read(name) for name in sys.argv[1:]]
if any(len(rows) < 5 for rows in logs):
    print("nothing nothing nothing")
    sys.exit()
begin = max(rows[0][0] for rows in logs) + 0.5
end = min(rows[-1][0] for rows in logs) - 0.1
rates = [(at(rows, end) - at(rows, begin)) / (end - begin) for rows in logs]
part = 100 * rates[0] / max(sum(rates), 1e-9)
worst, t = 0, begin
while len(logs) == 2 and t + 2 <= end:
    some = [at(rows, t + 2) - at(rows, t) for rows in logs]
    worst = max(worst, abs(100 * some[0] / max(sum(some), 1e-9) - part))
    t += 0.1
print(" ".join(f"{rate:.1f}" for rate in rates), f"{part:.1f} {worst:.1f}")
END

if [ -n "${SUBLET_SIM:-}" ]; then
        say "# machine: simulated (the figures are the simulator's, not a GPU's)"
        copies=("$build/tests/gpu/gpu-copies" "$window" 1 8)
else
        say "# machine: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
        cuda=${CUDA_HOME:-/usr/local/cuda}
        gcc -O2 -I"$cuda/include" tests/gpu/copies.c -o "$work/copies" -L"$cuda/lib64/stubs" \
                -L"$cuda/targets/x86_64-linux/lib/stubs" -lcuda || exit 1
        copies=("$work/copies" "$window")
fi
kit=$(dirname "$sublet")
program() { # ENGINE
        case $1 in
        copy) command=("${copies[@]}") ;;
        decoder) command=(env VIDEO_TIMES=1 "$kit/video" decode "$kit/t.h264" "$window") ;;
        jpeg) command=(python3 "$work/jpeg.py" "$window") ;;
        esac
}
# start NAME COMMAND...: waits at its input until go
start() {
        local name=$1
        shift
        mkfifo "$work/$name.in"
        timeout -k 2 $((window + 60)) "$@" < "$work/$name.in" > "$work/$name" 2>> "$log" &
        pids+=($!)
        exec {to}> "$work/$name.in"
        inputs+=("$to")
}
go() { # NAME...: all are ready, or need no word
        local name to
        for name; do for _ in $(seq 300); do ! grep -q ready "$work/$name" && [ "$engine" != decoder ] || break; sleep 0.1; done; done
        for to in "${inputs[@]}"; do echo >&"$to"; eval "exec $to>&-"; done
}
# pair WAY COMMAND-FOR-a... -- COMMAND-FOR-b...: a line of the table
measure() { # WAY NAMES
        local names files=() name
        read -ra names <<< "$2"
        go "${names[@]}"
        [ "$1" != tenants ] || { sleep $((window * 2 / 3)) && "$sublet" ps --json >> "$out/engines-ps.json" 2>&1; }
        for pid in "${pids[@]}"; do wait "$pid" 2> /dev/null; done
        for name in "${names[@]}"; do files+=("$work/$name"); done
        cat "${files[@]}" >> "$log"
        line=$(printf '%-9s %-9s %s' "$engine" "$1" "$(python3 "$work/judge.py" "${files[@]}")")
        table+=("$line")
        say "$line"
        rm -f "${files[@]/%/.in}"
        pids=() inputs=()
}
pids=() inputs=() table=()
export SUBLET_DIR=$work/node
timeout -k 2 280 "$sublet" daemon --dir "$SUBLET_DIR" > "$out/engines-daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 200); do [ ! -S "$SUBLET_DIR/tenant.sock" ] || break; sleep 0.05; done

parts=${PARTS:-copy decoder jpeg}
[ -z "${SUBLET_SIM:-}" ] || parts=copy
for engine in $parts; do
        program "$engine"
        start x "${command[@]}"
        measure alone x
        start x "${command[@]}"
        start y "${command[@]}"
        measure default 'x y'
        tenant=("$sublet" run -q --mem 12G --capabilities "compute,utility,video")
        start a "${tenant[@]}" --name a --share 80 -- "${command[@]}"
        measure tenant a
        start a "${tenant[@]}" --name a --share 80 -- "${command[@]}"
        start b "${tenant[@]}" --name b --share 20 -- "${command[@]}"
        measure tenants 'a b'
done
say "# $SECONDS s; a second of a, of b; a's part in percent; its worst 2 s"
say "engine    way       rates, part, worst"
for row in "${table[@]}"; do say "$row"; done
kill $daemon
wait $daemon 2> /dev/null
