#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A client of /v1/realtime that sends each NUMBER as a message, one after the other's answer, and prints what came back
and how long that took, in seconds. Where the session is refused, it prints the status.

    session.py SOCKET KEY NUMBER...
"""
import socket
import sys
import time

path, key, *numbers = sys.argv[1:]
s = socket.socket(socket.AF_UNIX)
s.settimeout(30)
s.connect(path)
s.sendall(b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
          b"Authorization: Bearer %s\r\n\r\n" % key.encode())
file = s.makefile("rb")
status = file.readline()
if not status.startswith(b"HTTP/1.1 101"):
    print(status[:12].decode())
    sys.exit()
while file.readline() != b"\r\n":
    pass
for number in numbers:
    began = time.monotonic()
    s.sendall(bytes([0x81, 0x80 | len(number)]) + b"\0\0\0\0" + number.encode())
    head = file.read(2)
    print(file.read(head[1]).decode(), f"{time.monotonic() - began:.2f}")
