#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What recorded programs asked of the driver beyond the gate's rules.

    tests/gpu/record_server.py DIRECTORY-OF-TRACES src/gate/policy/rules.def

A line per program, and below it a line per kind: what has no rule, what a rule refuses, all of the fabric
and of UVM, and what the driver itself refused. NUMBER/SIZExCOUNT. The grammar of a trace is in tools/record.c.
"""
import collections
import os
import re
import sys

STATUS_AT = {0x29: 12, 0x2a: 28, 0x34: 24, 0x35: 20, 0x4a: 20, 0x4e: 40, 0x4f: 24, 0x57: 48}
FABRIC = {0xe0, 0xf1, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe}


def unhex(text):
    return b"".join(bytes(int(m[1])) if m[1] else bytes.fromhex(m[2])
                    for m in re.finditer(r"z(\d+)\.|([0-9a-f]+)", text))


def u32(data, at):
    return int.from_bytes(data[at:at + 4], "little") if len(data) >= at + 4 else -1


def rules_of(path):
    rules = {}
    for line in [*open(path), *open(path.replace("rules.def", "engines.def"))]:
        found = re.match(r"RULE(?:_OF\( [A-Z_| ]+,|\() (CLASS|CONTROL), +(0x[0-9a-f]+), +(\w+),", line)
        if found:
            rules[found[1].lower(), int(found[2], 16)] = found[3]
    return rules


def ruled(rules, kind, number):
    if kind == "class" and number > 0xff and number % 0x100 == 0x6f:
        number = 0x6f
    return rules.get((kind, number), "none")


def program_of(path, rules, samples):
    seen = collections.defaultdict(collections.Counter)
    nodes = {}
    for line in open(path, errors="replace"):
        words = line.split()
        if not words:
            continue
        if words[0] in ("open", "have"):
            nodes[words[1]] = words[2]
            seen["nodes"][words[2]] += 1
        elif words[0] == "dup":
            nodes[words[2]] = nodes.get(words[1], "?")
        if words[0] != "ioctl":
            continue
        request, size, rc, error = int(words[2], 16), int(words[3]), int(words[4]), int(words[5])
        data = {k: unhex(v) for k, v in (w.split("=", 1) for w in words[7:])}
        block, after = data.get("in", b""), data.get("out", data.get("in", b""))
        status, number, kind = 0, request & 0xff, "request"
        if "nvidia-uvm" in nodes.get(words[1], ""):
            kind, number = "uvm", request
            text = f"{request:x}/{size}"
            status = u32(after, size - (8 if request in (33, 34, 68) else 4)) if size else 0
        elif number == 0x2b:
            kind, number = "class", u32(block, 12)
            text = f"{number:x}/{len(data.get('pin', b''))}"
            status = u32(after, 40 if size == 48 else 28)
        elif number == 0x2a:
            kind, number = "control", u32(block, 8)
            text = f"{number:x}/{u32(block, 24)}"
            status = u32(after, 28)
        else:
            text = f"{number:x}/{size}"
            status = u32(after, STATUS_AT[number]) if number in STATUS_AT else 0
        if kind in ("class", "control"):
            rule = ruled(rules, kind, number)
            if rule in ("none", "DENY", "QUIET"):
                seen[f"{rule} {kind}"][text] += 1
            if number in FABRIC or number >> 16 in FABRIC and kind == "control":
                seen["fabric"][f"{kind}:{text}"] += 1
            if rule == "none" and len(samples[kind, text]) < 2:
                samples[kind, text].append(line.strip()[:1500])
        elif kind == "uvm":
            seen["uvm"][text] += 1
        else:
            seen["request"][text] += 1
        if rc < 0 or status not in (0, -1):
            seen["refused"][f"{kind}:{text}->{'errno ' + str(error) if rc < 0 else hex(status)}"] += 1
    return seen


def main():
    rules, samples = rules_of(sys.argv[2]), collections.defaultdict(list)
    total = collections.Counter()
    for name in sorted(os.listdir(sys.argv[1])):
        seen = program_of(os.path.join(sys.argv[1], name), rules, samples)
        print(name)
        for kind, items in sorted(seen.items()):
            print(f"    {kind}: " + " ".join(f"{k}x{n}".replace(" ", "_") for k, n in sorted(items.items())))
            if kind.startswith("none"):
                for text, count in items.items():
                    total[kind, text] += count
    print("samples of what has no rule:")
    for (kind, text), lines in sorted(samples.items()):
        for line in lines:
            print(f"    {kind} {text}: {line}")
    print("without a rule, in all programs:")
    for (kind, text), count in sorted(total.items()):
        print(f"    {kind[5:]} {text} x{count}")


main()
