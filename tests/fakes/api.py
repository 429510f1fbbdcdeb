#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for an engine, or a gateway to one, that has all of OpenAI's and Anthropic's API, with answers of the right
shape. What it stores (responses, conversations, files, batches) only this one has; all else there is 404, as of others.

    api.py SOCKET NAME
"""
import base64
import email
import email.policy
import hashlib
import http.server
import itertools
import json
import os
import re
import socketserver
import struct
import sys
import time

path, name = sys.argv[1:3]
stored = {}
numbers = itertools.count(1)
ROUTES = []


def route(method, pattern):
    def add(function):
        ROUTES.append((method, re.compile(pattern + "$"), function))
        return function
    return add


class Refused(Exception):
    pass


def new(kind, **fields):
    value = {"id": f"{kind}_{name}{next(numbers)}", "created_at": int(time.time()), **fields}
    stored[value["id"]] = value
    return value


def find(key):
    if key not in stored:
        raise Refused(f"nothing is called {key}")
    return stored[key]


def words(n):
    return [f"word{i} " for i in range(n)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass

    def send(self, status, body, kind="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Replica", name)
        self.end_headers()
        self.wfile.write(body)

    def events(self, events, end=None):
        """Each event: its name or None, and its data. In chunks that do not end where events do."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        text = "".join((f"event: {kind}\n" if kind else "") + f"data: {json.dumps(data)}\n\n" for kind, data in events)
        text = (text + (end or "")).encode()
        for at in range(0, len(text), 97):
            piece = text[at:at + 97]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def read(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.headers.get("Content-Type", "")
        self.form = self.json = {}
        if kind.startswith("multipart/"):
            message = email.message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + self.body,
                                               policy=email.policy.HTTP)
            for part in message.iter_parts():
                self.form[part.get_param("name", header="content-disposition")] = part.get_payload(decode=True)
        elif self.body:
            self.json = json.loads(self.body)

    def answer(self):
        self.read()
        bare = self.path.split("?")[0]
        for method, pattern, function in ROUTES:
            match = pattern.match(bare)
            if method == self.command and match:
                try:
                    value = function(self, *match.groups())
                except Refused as why:
                    error = {"message": str(why), "type": "not_found_error", "code": "not_found", "param": None}
                    return self.send(404, {"type": "error", "error": error})
                if value is not None:
                    self.send(200, value, "application/octet-stream" if isinstance(value, bytes) else "application/json")
                return None
        return self.send(404, {"error": {"message": f"no {self.command} {bare} here", "type": "invalid", "code": None}})

    do_GET = do_POST = do_DELETE = answer


def listed(kind):
    data = [value for key, value in stored.items() if key.startswith(kind + "_")]
    return {"object": "list", "data": data, "has_more": False, "first_id": None, "last_id": None}


@route("GET", "/health")
def health(_):
    return {}


@route("GET", "/v1/models")
def models(_):
    return {"object": "list", "data": [{"id": "m", "object": "model", "created": 0, "owned_by": "us"}]}


# ---- OpenAI


@route("POST", "/v1/chat/completions")
def chat(h):
    head = {"id": f"chatcmpl-{name}{next(numbers)}", "created": 1, "model": "m"}
    text = words(h.json.get("max_tokens", 3))
    usage = {"prompt_tokens": 1, "completion_tokens": len(text), "total_tokens": 1 + len(text)}
    if not h.json.get("stream"):
        message = {"role": "assistant", "content": "".join(text)}
        return {**head, "object": "chat.completion", "usage": usage,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    chunk = {**head, "object": "chat.completion.chunk"}
    deltas = [{"role": "assistant", "content": ""}] + [{"content": word} for word in text]
    events = [(None, {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    events.append((None, {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    events.append((None, {**chunk, "choices": [], "usage": usage}))
    return h.events(events, "data: [DONE]\n\n")


@route("POST", "/v1/completions")
def completions(h):
    choice = {"index": 0, "text": "".join(words(h.json.get("max_tokens", 3))), "finish_reason": "length", "logprobs": None}
    return {"id": f"cmpl-{next(numbers)}", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}


def response_of(h):
    link, conversation = h.json.get("previous_response_id"), h.json.get("conversation")
    before = find(link)["turns"] if link else 0
    if conversation:
        kept = find(conversation if isinstance(conversation, str) else conversation["id"])
        before = kept["turns"] = kept["turns"] + 1
    part = {"type": "output_text", "text": f"turn {before + 1} at {name}", "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    return new("resp", object="response", status="completed", model="m", turns=before + 1, output=[item],
               parallel_tool_calls=True, tool_choice="auto", tools=[], previous_response_id=link)


@route("POST", "/v1/responses")
def responses(h):
    response = response_of(h)
    if not h.json.get("stream"):
        return response
    text = response["output"][0]["content"][0]["text"]
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    item = response["output"][0]
    events = [{"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
              {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
              {"type": "response.content_part.added", "part": {**item["content"][0], "text": ""}, **where}]
    events += [{"type": "response.output_text.delta", "delta": letter, **where} for letter in text]
    events.append({"type": "response.output_text.done", "text": text, **where})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": response})
    return h.events([(event["type"], {**event, "sequence_number": i}) for i, event in enumerate(events)])


@route("GET", "/v1/responses/([^/]+)")
@route("GET", "/v1/conversations/([^/]+)")
@route("GET", "/v1/files/([^/]+)")
@route("GET", "/v1/batches/([^/]+)")
@route("GET", "/v1/messages/batches/([^/]+)")
def one(_, key):
    return find(key)


@route("DELETE", "/v1/(?:responses|conversations|files)/([^/]+)")
def remove(_, key):
    del stored[find(key)["id"]]
    return {"id": key, "object": "deleted", "deleted": True}


@route("GET", "/v1/responses/([^/]+)/input_items")
def input_items(_, key):
    find(key)
    item = {"id": "in_1", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    return {"object": "list", "data": [item], "has_more": False, "first_id": "in_1", "last_id": "in_1"}


@route("POST", "/v1/conversations")
def conversations(h):
    return new("conv", object="conversation", metadata=h.json.get("metadata"), turns=0)


@route("POST", "/v1/embeddings")
def embeddings(h):
    texts = h.json["input"] if isinstance(h.json["input"], list) else [h.json["input"]]
    numbers_of = [[float(b) for b in hashlib.sha256(str(text).encode()).digest()[:8]] for text in texts]
    if h.json.get("encoding_format") == "base64":
        numbers_of = [base64.b64encode(struct.pack("<8f", *vector)).decode() for vector in numbers_of]
    data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(numbers_of)]
    return {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


@route("POST", "/v1/moderations")
def moderations(_):
    return {"id": "modr-1", "model": "m", "results": [{"flagged": False, "categories": {}, "category_scores": {}}]}


@route("POST", "/v1/audio/(?:transcriptions|translations)")
def transcriptions(h):
    return {"text": f"{len(h.form['file'])} bytes for {h.form['model'].decode()}"}


@route("POST", "/v1/audio/speech")
def speech(_):
    return bytes(range(256)) * 400


@route("POST", "/v1/images/(?:generations|edits|variations)")
def images(h):
    size = len(h.form.get("image", b""))
    return {"created": 1, "data": [{"b64_json": base64.b64encode(b"x" * size).decode()} for _ in range(int(
        h.json.get("n", 1)))]}


@route("POST", "/v1/files")
def files(h):
    return new("file", object="file", bytes=len(h.form["file"]), filename="f", purpose=h.form["purpose"].decode(),
               status="processed", content=base64.b64encode(h.form["file"]).decode())


@route("GET", "/v1/files/([^/]+)/content")
def file_content(_, key):
    return base64.b64decode(find(key)["content"])


@route("GET", "/v1/files")
def list_files(_):
    return listed("file")


@route("POST", "/v1/batches")
def batches(h):
    find(h.json["input_file_id"])
    return new("batch", object="batch", status="validating", endpoint=h.json["endpoint"], completion_window="24h",
               input_file_id=h.json["input_file_id"])


@route("POST", "/v1/(?:messages/)?batches/([^/]+)/cancel")
def cancel(_, key):
    find(key)["status"] = "cancelling"
    find(key)["processing_status"] = "canceling"
    return find(key)


def frame(text):
    data = text.encode()
    return bytes([0x81, len(data)]) + data if len(data) < 126 else b"\x81\x7e" + struct.pack(">H", len(data)) + data


@route("GET", "/v1/realtime")
def realtime(h):
    key = h.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    h.send_response(101)
    h.send_header("Upgrade", "websocket")
    h.send_header("Connection", "Upgrade")
    h.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
    h.end_headers()
    h.close_connection = True
    session = {"type": "realtime", "model": "m", "id": f"sess_{name}"}
    h.wfile.write(frame(json.dumps({"type": "session.created", "event_id": "e1", "session": session})))
    while (head := h.rfile.read(2)) and head[0] & 15 == 1:
        size = head[1] & 127
        size = struct.unpack(">H", h.rfile.read(2))[0] if size == 126 else size
        mask = h.rfile.read(4)
        event = json.loads(bytes(b ^ mask[i % 4] for i, b in enumerate(h.rfile.read(size))))
        h.wfile.write(frame(json.dumps({"type": "response.output_text.delta", "event_id": "e2", "delta": event["type"],
                                        "response_id": "r", "item_id": "i", "output_index": 0, "content_index": 0})))


# ---- Anthropic


@route("POST", "/v1/messages")
def messages(h):
    text = words(h.json["max_tokens"])
    message = {"id": f"msg_{name}{next(numbers)}", "type": "message", "role": "assistant", "model": "m",
               "content": [{"type": "text", "text": "".join(text)}], "stop_reason": "end_turn", "stop_sequence": None,
               "usage": {"input_tokens": 3, "output_tokens": len(text)}}
    if not h.json.get("stream"):
        return message
    begun = {**message, "content": [], "stop_reason": None}
    events = [{"type": "message_start", "message": begun}, {"type": "ping"},
              {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}]
    events += [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in text]
    events += [{"type": "content_block_stop", "index": 0},
               {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": len(text)}}, {"type": "message_stop"}]
    return h.events([(event["type"], event) for event in events])


@route("POST", "/v1/messages/count_tokens")
def count_tokens(h):
    return {"input_tokens": len(json.dumps(h.json["messages"])) // 4}


@route("POST", "/v1/messages/batches")
def message_batches(h):
    counts = {"processing": len(h.json["requests"]), "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    return new("msgbatch", type="message_batch", processing_status="in_progress", request_counts=counts,
               expires_at="2030-01-01T00:00:00Z", results_url=None)


@route("GET", "/v1/messages/batches")
def list_batches(_):
    return listed("msgbatch")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, address):
        pass


if os.path.exists(path):
    os.unlink(path)
with Server(path, Handler) as server:
    server.serve_forever()
