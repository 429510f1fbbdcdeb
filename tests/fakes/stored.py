#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A replica that answers in the background: POST /v1/responses has an id and no usage; GET /v1/responses/ID has the
usage from the file FILE.usage, or none while that is empty; so has a batch, whose ID begins with batch_. The results of
a batch of messages are two lines with that usage. A session of /v1/realtime answers each message, a number, with so many
tokens. Every other POST says no usage, and a byte for each is in FILE.count.

    stored.py FILE      listens on the Unix socket FILE
"""
import json
import os
import socketserver
import sys
from http.server import BaseHTTPRequestHandler

path = sys.argv[1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    n = 0

    def address_string(self):
        return "-"

    def log_message(self, *_):
        pass

    def reply(self, what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with open(path + ".count", "ab") as count:
            count.write(b".")
        kind = {"/v1/responses": "resp", "/v1/batches": "batch", "/v1/messages/batches": "msgbatch"}.get(self.path)
        if not kind:
            self.reply({"object": "chat.completion", "choices": []})
            return
        Handler.n += 1
        self.reply({"id": f"{kind}_{Handler.n}", "object": "response", "status": "queued", "usage": None})

    def session(self):
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(6):
            n = bytes(b ^ head[2 + i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
            done = b'{"type":"response.done","response":{"usage":{"total_tokens":%s}}}' % n
            try:
                self.wfile.write(bytes([0x81, len(done)]) + done)
            except OSError:
                return

    def do_GET(self):
        with open(path + ".usage", encoding="ascii") as said:
            usage = said.read().strip()
        if self.path.startswith("/v1/realtime"):
            self.session()
            return
        if self.path.endswith("/results"):
            line = {"result": {"type": "succeeded", "message": {"id": "msg_1", "usage": json.loads(usage or "null")}}}
            body = 2 * (json.dumps(line) + "\n").encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.reply({"id": self.path.rsplit("/", 1)[-1], "object": "response", "usage": json.loads(usage or "null")})


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


for name in (".count", ".usage"):
    with open(path + name, "w", encoding="ascii"):
        pass
if os.path.exists(path):
    os.unlink(path)
Server(path, Handler).serve_forever()
