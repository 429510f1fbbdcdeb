# SPDX-License-Identifier: Apache-2.0
"""Rows of the matrix that share one process: importing a library costs more than what a row does.

A module of rows defines functions with @row and ends with serve(). The driver (matrix.py) writes a line
"NAME SECONDS" and gets a line of JSON. What libraries print, and what the gate says of the tenant, goes to stderr,
after a line "== NAME", so that each refusal is found with the row that was the first to meet it.

A row returns its result, which must be the same natively and as a tenant, or (result, rate), where rate is work a
second. It raises Absent if something that it needs is not on this machine.
"""
import json
import os
import sys
import time

table = {}


class Absent(Exception):
    """The row's library, device part or tool is not at hand."""


def row(function):
    table[function.__name__.replace("_", "-")] = function
    return function


def rate_of(work, seconds, units=1, done=lambda: None):
    """Calls of work() a second, times units. done() waits until what was begun has ended."""
    work()
    work()
    done()
    n, begin = 0, time.perf_counter()
    while True:
        for _ in range(4):
            work()
        done()
        n += 4
        spent = time.perf_counter() - begin
        if spent >= seconds:
            return units * n / spent


def answer(name, seconds):
    try:
        got = table[name](seconds)
    except Absent as e:
        return {"absent": str(e)}
    except ImportError as e:
        return {"absent": str(e).splitlines()[0]}
    except AttributeError as e:
        # An older library lacks the call.
        return {"absent" if "undefined symbol" in str(e) else "error": str(e).split(": ", 1)[-1][:160]}
    except Exception as e:  # noqa: BLE001  a row may fail in any way; the others go on
        text = str(e).strip().splitlines() or [""]
        return {"error": f"{type(e).__name__}: {text[0][:160]}"}
    result, rate = got if isinstance(got, tuple) else (got, None)
    return {"result": str(result), "rate": rate}


def serve():
    """Rows of a module by name, until stdin ends; or, with a name in argv, that one row, as a program prints it."""
    if len(sys.argv) > 1:
        got = answer(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.3)
        for word, value in got.items():
            if value is not None:
                print(f"{word}={value}")
        # A child or a thread of a library may still hold the device: nothing is waited for at exit.
        sys.stdout.flush()
        os._exit(3 if "error" in got else 0)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps({"rows": list(table)}), file=out, flush=True)
    for line in sys.stdin:
        name, seconds = line.split()
        print(f"== {name}", file=sys.stderr, flush=True)
        print(json.dumps(answer(name, float(seconds))), file=out, flush=True)
    out.flush()
    os._exit(0)
