#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for an engine with every endpoint that the APIs have: it answers each request with what it received
(of a JSON body: model, priority and user).

    endpoints.py SOCKET NAME [CERTIFICATE KEY [AUTHORITY]]

SOCKET is a path, or a port of 127.0.0.1. With a certificate it speaks TLS; with an authority it wants a client's
certificate that this one has signed.

What is named in a path (".../NAME-1") is only there if it begins with this replica's own name; else 404. A request to
upgrade is answered 101, and each byte after it comes back in upper case.
"""
import http.server
import json
import os
import re
import socket
import socketserver
import ssl
import sys

path, name = sys.argv[1:3]
files = sys.argv[3:]
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


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    address_family = socket.AF_INET if path.isdigit() else socket.AF_UNIX

    def server_bind(self):
        if not path.isdigit() and os.path.exists(path):
            os.unlink(path)
        super().server_bind()

    def get_request(self):
        connection, address = super().get_request()
        return connection, address or ("unix", 0)

    def finish_request(self, request, address):
        if files:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files[0], files[1])
            if files[2:]:
                context.load_verify_locations(files[2])
                context.verify_mode = ssl.CERT_REQUIRED
            request = context.wrap_socket(request, server_side=True)
        super().finish_request(request, address)

    def handle_error(self, request, address):
        pass  # a handshake that failed is the other side's to report


with Server(("127.0.0.1", int(path)) if path.isdigit() else path, Handler) as server:
    server.serve_forever()
