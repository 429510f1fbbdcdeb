#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A replica whose model counts: a text completion goes on with the numbers after the last one of its prompt, one a
token. It stands for an engine that dies in the middle of a stream.

    counting.py FILE WHEN [N [SECONDS]]
                                listens on the Unix socket FILE. WHEN it ends a stream: never; close, reset: after N
                                tokens, in the middle of an event; unended: after all of them, before [DONE]; error: an
                                error event instead of the next; compressed: never, and says so of its answers.
                                SECONDS between two tokens. FILE.asked has the body of each POST
"""
import json
import os
import re
import socket
import socketserver
import struct
import sys
import time

path, when = sys.argv[1:3]
after = int(sys.argv[3]) if len(sys.argv) > 3 else 0
pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"


def event(data):
    return b"data: " + json.dumps(data).encode() + b"\n\n"


class Handler(socketserver.StreamRequestHandler):
    def chunk(self, data):
        self.request.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def token(self, text, finish=None):
        return event({"id": "cmpl-" + path[-1], "object": "text_completion",
                      "choices": [{"index": 0, "text": text, "finish_reason": finish}]})

    def end(self):
        if when == "reset":
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sys.stdout.flush()

    def stream(self, body):
        last = int(re.findall(r"\d+", body["prompt"])[-1])
        most = body.get("max_tokens", 16)
        self.request.sendall(STREAM + (b"Content-Encoding: gzip\r\n" if when == "compressed" else b"") + b"\r\n")
        for n in range(most):
            data = self.token(' \N{SNOWMAN}"%d' % (last + n + 1))
            if when in ("close", "reset") and n == after:
                self.chunk(data[: len(data) // 2])
                self.end()
                return False
            if when == "error" and n == after:
                self.chunk(event({"error": {"message": "died"}}) + b"data: [DONE]\n\n")
                self.request.sendall(b"0\r\n\r\n")
                return True
            cut = len(data) // 3  # an event comes in two pieces
            self.chunk(data[:cut])
            self.chunk(data[cut:])
            time.sleep(pause)
        self.chunk(self.token("", "length"))
        if when == "unended":
            return False
        self.chunk(b"data: [DONE]\n\n")
        self.request.sendall(b"0\r\n\r\n")
        return True

    def handle(self):
        while line := self.rfile.readline():
            length = 0
            while (field := self.rfile.readline()) not in (b"\r\n", b""):
                if field.lower().startswith(b"content-length:"):
                    length = int(field.split(b":")[1])
            body = self.rfile.read(length)
            if not line.startswith(b"POST"):
                self.request.sendall(WHOLE)
                continue
            with open(path + ".asked", "ab") as asked:
                asked.write(body.replace(b"\n", b" ") + b"\n")
            if not self.stream(json.loads(body)):
                return


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request, address):
        pass


if os.path.exists(path):
    os.unlink(path)
Server(path, Handler).serve_forever()
