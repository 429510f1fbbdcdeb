#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A replica whose answer takes its time.

    slow.py FILE head|body|hints|crlf
                                listens on the Unix socket FILE. head: a head that goes on and on, a byte at a time.
                                body: the head of a stream at once, then comments, a byte at a time, for ever. hints: a
                                head of 103, and 3 s later an answer. crlf: a stream of 3000 events, whose lines end
                                with \\r\\n, in pieces
"""
import os
import socketserver
import sys
import time

path, part = sys.argv[1:3]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CRLF = HEAD + b"Connection: close\r\n\r\n" + b'data: {"i": 1}\r\n\r\n' * 3000 + b"data: [DONE]\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            length = 0
            while (field := self.rfile.readline()) not in (b"\r\n", b""):
                if field.lower().startswith(b"content-length:"):
                    length = int(field.split(b":")[1])
            self.rfile.read(length)
            if not line.startswith(b"POST"):
                self.request.sendall(WHOLE)
                continue
            if part == "crlf":
                for at in range(0, len(CRLF), 1001):
                    self.request.sendall(CRLF[at : at + 1001])
                return
            if part == "hints":
                self.request.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
                time.sleep(3)
                self.request.sendall(WHOLE)
                continue
            self.request.sendall(HEAD if part == "head" else HEAD + b"\r\n")
            while True:
                for byte in b"X-More: 1\r\n" if part == "head" else b": ping\n\n":
                    self.request.sendall(bytes([byte]))
                    time.sleep(0.1)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request, address):
        pass


if os.path.exists(path):
    os.unlink(path)
Server(path, Handler).serve_forever()
