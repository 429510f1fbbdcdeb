#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a program says to the driver, as tests/gpu/calls.c writes it, out of a recording of tools/record.c.

    tests/gpu/calls.py RECORDING > tests/gpu/calls/NAME.txt
"""
import re
import sys

UVM_WITH_LENGTH = (33, 34, 45, 65, 66, 68, 72, 73)


def unhex(text):
    return b"".join(bytes(int(m[1])) if m[1] else bytes.fromhex(m[2])
                    for m in re.finditer(r"z(\d+)\.|([0-9a-f]+)", text))


def number(data, at, size=4):
    return int.from_bytes(data[at:at + size], "little")


def handle(value):
    return "C" if value >> 20 == 0xc1d else f"{value:x}"


def line_of(node, request, size, data):
    block, params = data.get("in", b""), data.get("pin", b"")
    if "uvm" in node:
        return f"UVM {request} " + (f"{number(block, 8, 8):x}" if request in UVM_WITH_LENGTH else "")
    nr = request & 0xff
    if nr == 0x2b:
        kind = number(block, 12)
        text = f"ALLOC {kind:x} parent={handle(number(block, 4))} obj={handle(number(block, 8))}"
        if kind in (0x40, 0x3e):
            text += f" size={number(params, 64, 8):x} attr={number(params, 24):x}"
        return text
    if nr == 0x2a:
        return f"CTL {number(block, 8):x} obj={handle(number(block, 4))} psz={number(block, 24)}"
    if nr == 0x29:
        return f"FREE parent={handle(number(block, 4))} obj={handle(number(block, 8))}"
    return f"nr={nr:x} size={size}"


nodes = {}
for words in (line.rstrip("\n").split(" ") for line in open(sys.argv[1], errors="replace")):
    if words[0] in ("open", "have"):
        nodes[words[1]] = words[2]
        if words[0] == "open":
            print("open", words[2])
    elif words[0] == "mark":
        print(*words)
    elif words[0] == "mmap":
        print(f"mmap {words[2]} prot={words[3]} fl={words[4]}")
    elif words[0] == "ioctl":
        data = {k: unhex(v) for k, v in (w.split("=", 1) for w in words[7:])}
        print(line_of(nodes.get(words[1], ""), int(words[2], 16), int(words[3]), data))
