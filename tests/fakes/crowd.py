#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Takes as much of an HTTPS server as one address gets: connections that say nothing, and bodies that do not end.

    crowd.py PORT CERTIFICATE

Prints kept=N (connections that were let stand), other=yes|no (another address is answered meanwhile), and for bodies of
60 MiB each, all under way at once, the statuses that came: statuses=400,400,503,...
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


silent = []
for _ in range(200):
    silent.append(socket.create_connection(("127.0.0.1", port), 20, ("127.0.0.1", 0)))
other = connect("127.0.0.2")
other.sendall(b"GET /healthz HTTP/1.1\r\nHost: webhook\r\n\r\n")
answered = status(other)
print(f"kept={sum(map(is_kept, silent))} other={'yes' if answered == '200' else 'no'}")
for connection in silent:
    connection.close()

large = [connect("127.0.0.3") for _ in range(5)]
for connection in large:
    connection.sendall(f"POST /mutate HTTP/1.1\r\nHost: webhook\r\nContent-Length: {SIZE}\r\n\r\n".encode())
    connection.sendall(b" " * (SIZE - 1))
for connection in large:
    connection.sendall(b" ")
print("statuses=" + ",".join(status(connection) for connection in large))
