#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Takes as much of an HTTPS server as one address gets: connections that say nothing, and bodies that do not end.

    crowd.py PORT CERTIFICATE [trickle]

trickle: 120 connections of one address with bodies that come a byte at a time after their first 2 MiB, and one of
another address, which asks for a review; prints other=STATUS, and stays=N, how many of the 120 still have a connection.
Else prints kept=N (connections that were let stand), other=yes|no (another address is answered meanwhile), and for bodies of
60 MiB each, all under way at once, the statuses that came: statuses=400,400,503,... A refusal closes the connection under
a body that is still on its way, and then the kernel may throw the answer away: closed.
"""
import select
import socket
import ssl
import sys

SIZE = 60 << 20
port, tls = int(sys.argv[1]), ssl.create_default_context(cafile=sys.argv[2])


def connect(source):
    plain = socket.create_connection(("127.0.0.1", port), 20, (source, 0))
    return tls.wrap_socket(plain, server_hostname="webhook")


def status(connection):
    return connection.recv(4096).split(b" ", 2)[1].decode()


def is_kept(connection):
    readable, _, _ = select.select([connection], [], [], 0)
    return not readable


def trickle():
    slow = []
    for _ in range(120):
        slow.append(connect("127.0.0.4"))
        try:
            slow[-1].sendall(f"POST /mutate HTTP/1.1\r\nHost: webhook\r\nContent-Length: {SIZE}\r\n\r\n".encode())
            slow[-1].sendall(b" " * (2 << 20))
        except OSError:
            pass
    for connection in slow:
        try:
            connection.sendall(b" ")
        except OSError:
            pass
    other = connect("127.0.0.5")
    body = b'{"request":{"uid":"u","object":{"metadata":{"name":"b"},"spec":{"containers":[]}}}}' + b" " * (1 << 20)
    other.sendall(f"POST /validate HTTP/1.1\r\nHost: webhook\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    print(f"other={status(other)} stays={sum(map(is_kept, slow))}")


if sys.argv[3:] == ["trickle"]:
    trickle()
    sys.exit()
silent = []
for _ in range(200):
    silent.append(socket.create_connection(("127.0.0.1", port), 20, ("127.0.0.1", 0)))
other = connect("127.0.0.2")
other.sendall(b"GET /healthz HTTP/1.1\r\nHost: webhook\r\n\r\n")
answered = status(other)
print(f"kept={sum(map(is_kept, silent))} other={'yes' if answered == '200' else 'no'}")
for connection in silent:
    connection.close()


def put(connection, data):
    try:
        connection.sendall(data)
    except OSError:
        pass


def answer(connection):
    try:
        return status(connection)
    except (OSError, IndexError):
        return "closed"


large = [connect("127.0.0.3") for _ in range(5)]
for connection in large:
    put(connection, f"POST /mutate HTTP/1.1\r\nHost: webhook\r\nContent-Length: {SIZE}\r\n\r\n".encode())
    put(connection, b" " * (SIZE - 1))
statuses = []
for connection in large:  # one after the other: what is read takes room, too
    put(connection, b" ")
    statuses.append(answer(connection))
print("statuses=" + ",".join(statuses))
