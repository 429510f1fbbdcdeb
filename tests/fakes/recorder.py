#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers each request with 200 (or the status in the file STATUS) and writes it to LOG, a line of JSON each.

usage: recorder.py LOG STATUS: prints its port, on 127.0.0.1
"""
import http.server
import json
import sys
import threading

log, status = sys.argv[1:]
lock = threading.Lock()


class Recorder(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        with lock, open(log, "a", encoding="utf-8") as to:
            to.write(json.dumps({"path": self.path, "headers": headers, "body": body}) + "\n")
        try:
            with open(status, encoding="utf-8") as text:
                code = int(text.read())
        except FileNotFoundError:
            code = 200
        answer = b'{"choices":[{"message":{"content":"x"}}]}'
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
print(server.server_address[1], flush=True)
server.serve_forever()
