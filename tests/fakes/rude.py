#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A replica with bad manners, at the level of bytes: each POST is answered in the way that the file FILE.mode names;
all else (/health, /v1/models) well. FILE.count has a byte for each POST.

    rude.py FILE PORT
    rude.py modes ""          lists the ways
"""
import os
import socket
import socketserver
import struct
import sys
import time
from email.utils import formatdate

path, name = sys.argv[1:3]
BODY = b'{"object":"chat.completion","replica":"%s"}' % name.encode()
EVENTS = b'data: {"id":1,"replica":"%s"}\n\ndata: [DONE]\n\n' % name.encode()


def head(status, *lines):
    return b"HTTP/1.1 " + status + b"\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def whole(body, *lines):
    return head(b"200 OK", b"Content-Type: application/json", b"Content-Length: %d" % len(body), *lines) + body


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM = head(b"200 OK", b"Content-Type: text/event-stream", b"Transfer-Encoding: chunked")
PINGS = chunk(b": ping\n\n") * 3
# What is sent in pieces, and how the connection ends: "keep", "close", or "reset".
MODES = {
    "good": ([whole(BODY)], "keep"),
    "one-byte-at-a-time": ([bytes([b]) for b in whole(BODY)], "keep"),
    "http-1.0": ([b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + BODY], "close"),
    "trailers": ([STREAM + chunk(EVENTS) + b"0\r\nX-Took: 1\r\n\r\n"], "keep"),
    "continue": ([b"HTTP/1.1 100 Continue\r\n\r\n", whole(BODY)], "keep"),
    "hints": ([head(b"103 Early Hints", b"Link: </x>"), head(b"102 Processing") + whole(BODY)], "keep"),
    "hints-in-pieces": ([b"HTTP/1.1 10", b"3 Early\r\nA: b\r\n\r", b"\nHTTP/1.1 200 OK\r\nContent-Length: ",
                         b"%d\r\n\r\n" % len(BODY), BODY], "keep"),
    "says-close": ([whole(BODY, b"Connection: close")], "close"),
    "closes-afterwards": ([whole(BODY)], "close"),
    "orders-to-nginx": ([whole(BODY, b"X-Accel-Redirect: /v1/none", b"X-Accel-Limit-Rate: 1", b"X-Accel-Buffering: yes")],
                        "keep"),
    "more-than-said": ([whole(BODY) + b"and more"], "keep"),
    "two-answers": ([whole(BODY) + whole(b'{"other": 1}')], "keep"),
    "more-after-chunks": ([STREAM + chunk(EVENTS) + b"0\r\n\r\nand more"], "keep"),
    "more-later": ([whole(BODY), b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"], "close"),
    "no-reason": ([b"HTTP/1.1 200\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)], "keep"),
    "lines-of-unix": ([whole(BODY).replace(b"\r\n", b"\n")], "keep"),
    "no-type": ([b"HTTP/1.1 200 OK\r\ncontent-length:%d\r\n\r\n%s" % (len(BODY), BODY)], "keep"),
    "length-twice": ([whole(BODY, b"Content-Length: %d" % len(BODY))], "keep"),
    "length-and-chunks": ([head(b"200 OK", b"Content-Length: 3", b"Transfer-Encoding: chunked") + chunk(BODY) + b"0\r\n\r\n"], "keep"),
    "chunks-with-words": ([STREAM + b"%x;a=b\r\n%s\r\n0;c\r\n\r\n" % (len(EVENTS), EVENTS)], "keep"),
    "resets-afterwards": ([whole(BODY)], "reset"),
    # failures from here on
    "nothing": ([], "close"),
    "nothing-reset": ([], "reset"),
    "half-a-head": ([b"HTTP/1.1 200 OK\r\nContent-Ty"], "close"),
    "half-a-head-reset": ([b"HTTP/1.1 200 OK\r\nContent-Ty"], "reset"),
    "head-only": ([head(b"200 OK", b"Content-Length: 100")], "close"),
    "head-only-reset": ([head(b"200 OK", b"Content-Length: 100")], "reset"),
    "stream-head-only": ([STREAM], "reset"),
    "pings-then-death": ([STREAM, PINGS, PINGS], "reset"),
    "pings-then-end": ([STREAM, PINGS, b"0\r\n\r\n"], "keep"),
    "role-then-death": ([STREAM, chunk(b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},'
                                       b'"finish_reason":null}]}\n\n')], "reset"),
    "announced-then-death": ([STREAM, chunk(b'event: response.created\ndata: {"type":"response.created"}\n\n')], "close"),
    "half-an-event": ([STREAM, chunk(b'data: {"choices":[{"index":0,"delta":{"con')], "reset"),
    "204": ([head(b"204 No Content")], "keep"),
    "408": ([head(b"408 Request Timeout", b"Content-Length: 0", b"Connection: close")], "close"),
    "other-upgrade": ([head(b"101 Switching Protocols", b"Upgrade: foo", b"Connection: Upgrade")], "close"),
    "half-a-chunk": ([STREAM, b"4"], "close"),
    "empty": ([whole(b"")], "keep"),
    "empty-chunked": ([STREAM + b"0\r\n\r\n"], "keep"),
    "empty-http-1.0": ([b"HTTP/1.0 200 OK\r\n\r\n"], "close"),
    "hints-then-death": ([head(b"103 Early Hints", b"Link: </x>")], "close"),
    "garbage": ([os.urandom(300).replace(b"\n", b"x") + b"\n\n"], "close"),
    "other-protocol": ([b"SSH-2.0-OpenSSH_9\r\n"], "close"),
    "http-0.9": ([b"<html>hello</html>"], "close"),
    "huge-head": ([head(b"200 OK", b"X-A: " + b"a" * 200000, b"Content-Length: 2") + b"{}"], "close"),
    "503": ([head(b"503 Service Unavailable", b"Content-Length: 4") + b"busy"], "keep"),
    "502-http-1.0": ([b"HTTP/1.0 502 Bad Gateway\r\n\r\n<html>"], "close"),
    "429-date": ([head(b"429 Too Many Requests", b"Retry-After: " + formatdate(time.time() + 3600, usegmt=True).encode(),
                       b"Content-Length: 2") + b"{}"], "keep"),
    "503-date": ([head(b"503 Busy", b"Retry-After: " + formatdate(0, usegmt=True).encode(), b"Content-Length: 0")], "keep"),
    "error-event": ([STREAM + chunk(b'data: {"error": {"message": "died", "code": 500}}\n\n') + b"0\r\n\r\n"], "keep"),
}


class Handler(socketserver.StreamRequestHandler):
    def request_head(self):
        line, length = self.rfile.readline(), 0
        while (field := self.rfile.readline()) not in (b"\r\n", b""):
            if field.lower().startswith(b"content-length:"):
                length = int(field.split(b":")[1])
        self.rfile.read(length)
        return line

    def handle(self):
        while line := self.request_head():
            if not line.startswith(b"POST"):
                self.request.sendall(whole(b'{"object":"list","data":[{"id":"m","object":"model"}]}'))
                continue
            with open(path + ".count", "ab") as count:
                count.write(b"x")
            with open(path + ".mode") as mode:
                pieces, end = MODES[mode.read().strip()]
            for piece in pieces:
                self.request.sendall(piece)
                time.sleep(0.002 if len(pieces) > 1 else 0)
            if end == "reset":
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if end != "keep":
                self.request.close()
                return


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def handle_error(self, request, address):
        pass


if path == "modes":
    print(*MODES, sep="\n")
else:
    with Server(("127.0.0.1", int(name)), Handler) as server:
        server.serve_forever()
