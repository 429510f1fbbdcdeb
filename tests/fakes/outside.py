#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the router's agent asks outside of itself, under control of a test: a Kubernetes API server (endpoints of a
service), and a daemon that can suspend tenants.

        outside.py SOCKET DIR

It answers from files that the test writes: DIR/slices.json (EndpointSliceList), DIR/endpoints.json (EndpointsList, if there
are no slices: an old server), DIR/events (a watch event per line; the line's number is its resourceVersion), DIR/tenants.json (as
GET /v1/tenants). A PATCH changes a tenant in that file, DIR/asked has a line per request.
"""
import http.server, json, os, socketserver, sys, time, urllib.parse

where, base = sys.argv[1], sys.argv[2]


def read(name):
    try:
        with open(os.path.join(base, name)) as file:
            return file.read()
    except FileNotFoundError:
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, text):
        body = (text or "{}").encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self, after):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            lines = (read("events") or "").splitlines()
            for line in lines[after:]:
                data = (line + "\n").encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
            after = max(after, len(lines))
            if read("hang_up") is not None:
                os.unlink(os.path.join(base, "hang_up"))
                self.wfile.write(b"0\r\n\r\n")
                return
            time.sleep(0.02)

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        query = urllib.parse.parse_qs(url.query)
        with open(os.path.join(base, "asked"), "a") as file:
            file.write(f"GET {self.path} {self.headers.get('Authorization', '-')}\n")
        if url.path == "/v1/tenants":
            return self.answer(200, read("tenants.json"))
        name = "slices.json" if "/endpointslices" in url.path else "endpoints.json"
        if read(name) is None:
            return self.answer(404, None)
        if query.get("watch"):
            return self.watch(int(query["resourceVersion"][0]))
        return self.answer(200, read(name))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(os.path.join(base, "asked"), "a") as file:
            file.write(f"POST {self.path} {json.dumps(body)}\n")
        self.answer(200, "{}")

    def do_PATCH(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tenants = json.loads(read("tenants.json"))
        with open(os.path.join(base, "asked"), "a") as file:
            file.write(f"PATCH {self.path} {json.dumps(body)}\n")
        time.sleep(0.2)
        for tenant in tenants:
            if self.path == "/v1/tenants/" + tenant["tenant"]:
                tenant.update(body)
        with open(os.path.join(base, "tenants.new"), "w") as file:
            json.dump(tenants, file)
        os.rename(os.path.join(base, "tenants.new"), os.path.join(base, "tenants.json"))
        self.answer(200, "{}")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def get_request(self):
        request, _ = super().get_request()
        return request, ("unix", 0)


Server(where, Handler).serve_forever()
