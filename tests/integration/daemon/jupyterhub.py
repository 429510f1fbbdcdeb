# SPDX-License-Identifier: Apache-2.0
"""A user of JupyterHub: jupyterhub.py URL USER COMMAND. Logs in, starts the user's server and types COMMAND into a
terminal of it; prints what the terminal shows until the word DONE. If no server starts, prints the hub's page."""
import asyncio
import http.cookiejar
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

url, user, command = sys.argv[1:]
cookies = http.cookiejar.CookieJar()
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies), urllib.request.ProxyHandler({}))


def call(path, fields=None, data=None, method=None):
    body = urllib.parse.urlencode(fields).encode() if fields else data
    headers = {"Referer": url + path, "X-XSRFToken": "".join(c.value for c in cookies if c.name == "_xsrf")}
    with opener.open(urllib.request.Request(url + path, body, headers, method=method), timeout=60) as answer:
        return answer.geturl(), answer.read().decode()


def start():
    call("/hub/login", {"username": user, "password": "word"})
    until = time.monotonic() + 90
    at, page = call("/hub/spawn/" + user)
    while "/user/" + user not in at.replace("/hub/user", "") and time.monotonic() < until:
        time.sleep(0.2)
        at, page = call("/hub/spawn-pending/" + user)
    return at, page


async def typed(name):
    jar = "; ".join(c.name + "=" + c.value for c in cookies)
    request = HTTPRequest(url.replace("http", "ws") + "/user/%s/terminals/websocket/%s" % (user, name),
                          headers={"Cookie": jar, "Origin": url})
    socket = await websocket_connect(request)
    await socket.write_message(json.dumps(["stdin", command + "; echo DO''NE\r"]))
    said = ""
    while "DONE" not in said:
        message = await asyncio.wait_for(socket.read_message(), 60)
        if message is None:
            break
        kind, *rest = json.loads(message)
        said += rest[0] if kind == "stdout" else ""
    return said


try:
    start()
    call("/user/" + user + "/tree")  # the cookie of the user's own server
    terminal = json.loads(call("/user/" + user + "/api/terminals", data=b"", method="POST")[1])["name"]
    print(asyncio.run(typed(terminal)))
except urllib.error.HTTPError as error:
    print(error.code, error.geturl(), error.read().decode())
    sys.exit(1)
