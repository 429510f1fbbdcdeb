#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small DNS server over UDP: names.py ADDRESS PORT FILE.

Each line of FILE is "NAME NUMBER...": the addresses of a name, all of them in each answer, in an order that moves on with
each question. The file is read at each question. A name that is not in it does not exist.
"""
import ipaddress
import socket
import struct
import sys

TTL = 1
TYPES = {4: 1, 6: 28}  # A, AAAA


def read(path):
    with open(path, encoding="ascii") as file:
        return {line.split()[0]: line.split()[1:] for line in file if line.strip()}


def question(packet):
    """The name, the type, and where the question ends."""
    at, labels = 12, []
    while packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode("ascii"))
        at += 1 + packet[at]
    return ".".join(labels).lower(), struct.unpack_from("!H", packet, at + 1)[0], at + 5


def answer(packet, records, turn):
    name, kind, end = question(packet)
    addresses = [ipaddress.ip_address(text) for text in records.get(name, [])]
    found = [address.packed for address in addresses if TYPES[address.version] == kind]
    if found:
        found = found[turn % len(found) :] + found[: turn % len(found)]
    flags = 0x8580 | (0 if name in records else 3)  # an authority's answer; 3: there is no such name
    head = packet[:2] + struct.pack("!HHHHH", flags, 1, len(found), 0, 0) + packet[12:end]
    return head + b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, TTL, len(raw)) + raw for raw in found)


def main():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((sys.argv[1], int(sys.argv[2])))
    turn = 0
    while True:
        packet, client = server.recvfrom(512)
        server.sendto(answer(packet, read(sys.argv[3]), turn), client)
        turn += 1


main()
