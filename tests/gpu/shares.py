# SPDX-License-Identifier: Apache-2.0
"""Shares of GPU time, from what tenants logged.

    shares.py rate LOG PIECE_US [FROM TO]        progress per second of time (1: a piece_us per us)
    shares.py busy LOG PIECE_US                  seconds that the tenant computed, gaps left out
    shares.py cap LOG PIECE_US RATE CAP          worst deviation over any second, in points
    shares.py row SKIP SECONDS LOG,PIECE_US,RATE,WEIGHT...

A log is u64 ns, one per piece done (load.c). RATE is the tenant's progress when alone: what counts is
progress in units of that, so a synchronous tenant that leaves gaps even when alone is not blamed for
them. A share is a tenant's part of the progress of all in a window. `row` prints

    shares=70.1,29.9 err1s=0.35 err100ms=1.20 worst=2@3.14 sum=0.991 seconds=4.0

with errors in points, the worst tenant's in the worst window of that length (moved by 10 ms), over the
time in which all tenants ran, without its first SKIP seconds and not beyond SECONDS, when queues drain;
worst: which tenant (1 is the first) and when the worst 100 ms began; sum: the progress of all per second.
"""
import array
import bisect
import sys


def log(path):
    with open(path, "rb") as file:
        data = file.read()
    times = array.array("Q")
    times.frombytes(data[: len(data) // 8 * 8])
    return times


def between(times, begin, end):
    return bisect.bisect_left(times, end) - bisect.bisect_left(times, begin)


def rate(times, piece_us, begin=0.0, end=None):
    if len(times) < 2:
        return 0.0
    first = times[0] + begin * 1e9
    last = times[-1] if end is None else min(times[-1], times[0] + end * 1e9)
    if last <= first:
        return 0.0
    # From the completion nearest to the begin to the one nearest to the end: whole pieces.
    i, j = bisect.bisect_left(times, first), bisect.bisect_right(times, last) - 1
    return (j - i) * piece_us * 1e-6 / ((times[j] - times[i]) * 1e-9) if j > i else 0.0


def busy(times, piece_us):
    steps = sorted(b - a for a, b in zip(times, times[1:]))
    if not steps:
        return 0.0
    usual = steps[len(steps) // 2]
    return (sum(s if s < 2 * usual else usual for s in steps) + usual) * 1e-9


def windows(begin, end, length):
    at = begin
    while at + length <= end:
        yield at, at + length
        at += 10_000_000


def worst(tenants, begin, end, length):
    error, which, when = 0.0, 0, begin
    for a, b in windows(begin, end, length):
        done = [between(times, a, b) * piece / alone for times, piece, alone, _ in tenants]
        total = sum(done)
        for i, (part, (_, _, _, weight)) in enumerate(zip(done, tenants)):
            off = abs((part / total if total else 0.0) - weight)
            if off > error:
                error, which, when = off, i + 1, a
    return 100 * error, which, when


def row(skip, seconds, specs):
    tenants = []
    for spec in specs:
        path, piece, alone, weight = spec.split(",")
        tenants.append((log(path), float(piece), float(alone), float(weight)))
    weights = sum(weight for *_, weight in tenants)
    tenants = [(times, piece, alone, weight / weights) for times, piece, alone, weight in tenants]
    if any(len(times) < 2 or not alone for times, _, alone, _ in tenants):
        print("shares=none err1s=100 err100ms=100 sum=0 seconds=0")
        return
    start = max(times[0] for times, *_ in tenants)
    begin = start + int(skip * 1e9)
    end = min(start + int(seconds * 1e9), *(times[-1] for times, *_ in tenants))
    if end <= begin:
        print("shares=none err1s=100 err100ms=100 sum=0 seconds=0")
        return
    done = [between(times, begin, end) * piece * 1e-6 / alone for times, piece, alone, _ in tenants]
    total, length = sum(done), (end - begin) * 1e-9
    error, which, when = worst(tenants, begin, end, 100_000_000)
    print(
        "shares=%s err1s=%.2f err100ms=%.2f worst=%d@%.2f sum=%.4f seconds=%.1f"
        % (
            ",".join("%.2f" % (100 * part / total if total else 0) for part in done),
            worst(tenants, begin, end, 1_000_000_000)[0],
            error,
            which,
            (when - start) * 1e-9,
            total / length,
            length,
        )
    )


def cap(times, piece_us, alone, bound):
    error = 0.0
    begin = times[0] + 1_000_000_000 if len(times) else 0
    for a, b in windows(begin, times[-1] if len(times) else 0, 1_000_000_000):
        error = max(error, abs(between(times, a, b) * piece_us * 1e-6 / alone - bound))
    print("err1s=%.2f mean=%.2f" % (100 * error, 100 * rate(times, piece_us, 1.0) / alone))


def main(arguments):
    verb = arguments[0]
    if verb == "row":
        row(float(arguments[1]), float(arguments[2]), arguments[3:])
    elif verb == "cap":
        cap(log(arguments[1]), *map(float, arguments[2:]))
    elif verb == "busy":
        print("%.6f" % busy(log(arguments[1]), float(arguments[2])))
    else:
        print("%.6f" % rate(log(arguments[1]), *map(float, arguments[2:])))


if __name__ == "__main__":
    main(sys.argv[1:])
