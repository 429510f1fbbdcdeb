#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for an engine with every endpoint that the APIs have: it answers each request with what it received
(of a JSON body: model, priority and user).

    endpoints.py SOCKET NAME

What is named in a path (".../NAME-1") is only there if it begins with this replica's own name; else 404. A request to
upgrade is answered 101, and each byte after it comes back in upper case.
"""
import http.server
import json
import os
import re
import socketserver
import sys

path, name = sys.argv[1:3]
STORED = re.compile(r"/v1/(responses|files|batches|conversations|vector_stores|fine_tuning/jobs|evals)/([a-z]+-[0-9]+)")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def upgrade(self):
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        while data := self.connection.recv(4096):
            self.connection.sendall(data.upper())
        self.close_connection = True

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/health":
            return self.reply(200, {})
        if self.path == "/v1/models":
            return self.reply(200, {"object": "list", "data": [{"id": "m", "object": "model"}]})
        if self.headers.get("Upgrade") == "websocket":
            return self.upgrade()
        stored = STORED.match(self.path)
        link = b"previous_response_id" in body and json.loads(body)["previous_response_id"]
        asked = stored.group(2) if stored else link or name
        if not asked.startswith(name):
            return self.reply(404, {"error": {"message": "not here", "type": "invalid_request_error"}})
        fields = json.loads(body) if body.startswith(b"{") else {}
        return self.reply(200, {"replica": name, "method": self.command, "path": self.path, "size": len(body),
                                "fields": {k: v for k, v in fields.items() if k in ("model", "priority", "user")},
                                "headers": {k.lower(): v for k, v in self.headers.items()}})

    do_GET = do_POST = do_DELETE = do_PUT = answer


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


if os.path.exists(path):
    os.unlink(path)
with Server(path, Handler) as server:
    server.serve_forever()
