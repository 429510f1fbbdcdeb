#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives the official Python clients of OpenAI and Anthropic through a router. Each part ends with "PART: ok".

    clients.py http://HOST:PORT PART...
"""
import io
import sys

base, parts = sys.argv[1], sys.argv[2:]
if set(parts) - {"messages"}:  # each takes a second or more to load
    import openai
    ai = openai.OpenAI(base_url=base + "/v1", api_key="sk-team-12345678", max_retries=0, timeout=20)
if set(parts) & {"messages", "errors"}:
    import anthropic
    claude = anthropic.Anthropic(base_url=base, api_key="sk-team-12345678", max_retries=0, timeout=20)
HELLO = [{"role": "user", "content": "hello"}]
PARTS = {}


def part(function):
    PARTS[function.__name__] = function


def same(got, wanted):
    if got != wanted:
        raise SystemExit(f"got {got!r}, wanted {wanted!r}")


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise SystemExit(f"no {kind.__name__}")


@part
def chat():
    answer = ai.chat.completions.create(model="m", messages=HELLO, max_tokens=4)
    same(len(answer.choices[0].message.content.split()), 4)
    with ai.chat.completions.stream(model="m", messages=HELLO, max_tokens=7) as stream:
        same(len(stream.get_final_completion().choices[0].message.content.split()), 7)
    raw = ai.chat.completions.with_raw_response.create(model="m", messages=HELLO)
    same(bool(raw.headers.get("x-request-id")), True)
    same(len(ai.completions.create(model="m", prompt="x", max_tokens=2).choices[0].text.split()), 2)
    same([model.id for model in ai.models.list()], ["m"])
    same(ai.models.retrieve("m").id, "m")


@part
def responses():
    for _ in range(6):  # wherever the first one went, the next ones find it
        first = ai.responses.create(model="m", input="hello")
        second = ai.responses.create(model="m", input="more", previous_response_id=first.id)
        same(second.output_text.split(" at ")[1], first.output_text.split(" at ")[1])
        same(second.output_text.split(" at ")[0], "turn 2")
        with ai.responses.stream(model="m", input="more", previous_response_id=second.id) as stream:
            same(stream.get_final_response().output_text.split(" at ")[0], "turn 3")
        same(ai.responses.retrieve(first.id).id, first.id)
        same([item.id for item in ai.responses.input_items.list(first.id)], ["in_1"])
        ai.responses.delete(first.id)
        refused(openai.NotFoundError, lambda: ai.responses.retrieve(first.id))
        talk = ai.conversations.create()
        for turn in (2, 3):
            answer = ai.responses.create(model="m", input="x", conversation=talk.id)
            same(answer.output_text.split(" at ")[0], f"turn {turn}")
        same(ai.conversations.retrieve(talk.id).id, talk.id)
    refused(openai.NotFoundError, lambda: ai.responses.create(model="m", input="x", previous_response_id="resp_none"))


@part
def files():
    for _ in range(4):
        data = b'{"custom_id": "1"}\n' * 20000
        file = ai.files.create(file=("batch.jsonl", io.BytesIO(data)), purpose="batch")
        same(file.bytes, len(data))
        same(ai.files.content(file.id).read(), data)
        same(ai.files.retrieve(file.id).id, file.id)
        batch = ai.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        same(ai.batches.retrieve(batch.id).status, "validating")
        same(ai.batches.cancel(batch.id).status, "cancelling")
        ai.files.delete(file.id)
        refused(openai.NotFoundError, lambda: ai.files.retrieve(file.id))


@part
def media():
    sound = bytes(300000)
    same(ai.audio.transcriptions.create(model="m", file=("a.wav", sound)).text, "300000 bytes for m")
    same(ai.audio.translations.create(model="m", file=("a.wav", sound)).text, "300000 bytes for m")
    same(len(ai.audio.speech.create(model="m", voice="alloy", input="hello").read()), 102400)
    same(len(ai.images.generate(model="m", prompt="x", n=2).data), 2)
    same(len(ai.images.edit(model="m", image=("a.png", sound), prompt="x").data[0].b64_json), 400000)
    same(ai.moderations.create(input="x").results[0].flagged, False)
    same(ai.moderations.create(model="m", input="x").id, "modr-1")
    same(len(ai.embeddings.create(model="m", input=["a", "b"]).data[1].embedding), 8)
    same(len(ai.embeddings.create(model="m", input="a", encoding_format="float").data[0].embedding), 8)


@part
def realtime():
    with ai.realtime.connect(model="m") as connection:
        same(connection.recv().type, "session.created")
        for _ in range(3):
            connection.send({"type": "response.create", "response": {"instructions": "x" * 300}})
            same(connection.recv().delta, "response.create")


@part
def messages():
    answer = claude.messages.create(model="m", max_tokens=4, messages=HELLO)
    same(len(answer.content[0].text.split()), 4)
    with claude.messages.stream(model="m", max_tokens=6, messages=HELLO, system="be brief") as stream:
        same(len("".join(stream.text_stream).split()), 6)
        same(stream.get_final_message().usage.output_tokens, 6)
    same(claude.messages.count_tokens(model="m", messages=HELLO).input_tokens > 5, True)
    for _ in range(4):
        wanted = [{"custom_id": "1", "params": {"model": "m", "max_tokens": 1, "messages": HELLO}}]
        batch = claude.messages.batches.create(requests=wanted)
        same(claude.messages.batches.retrieve(batch.id).id, batch.id)
        same(claude.messages.batches.cancel(batch.id).processing_status, "canceling")


@part
def errors():
    unknown = refused(openai.NotFoundError, lambda: ai.chat.completions.create(model="none", messages=HELLO))
    same(unknown.code, "model_not_found")
    unknown_key = ai.with_options(api_key="sk-nobody-1234567")
    refused(openai.AuthenticationError, lambda: unknown_key.chat.completions.create(model="m", messages=HELLO))
    refused(anthropic.NotFoundError, lambda: claude.messages.create(model="none", max_tokens=1, messages=HELLO))
    nobody = claude.with_options(api_key="sk-nobody-1234567")
    error = refused(anthropic.AuthenticationError,
                    lambda: nobody.messages.create(model="m", max_tokens=1, messages=HELLO))
    same(error.body["error"]["type"], "authentication_error")
    slow = ai.with_options(api_key="sk-slow-12345678")
    slow.chat.completions.create(model="m", messages=HELLO)
    late = refused(openai.RateLimitError, lambda: slow.chat.completions.create(model="m", messages=HELLO))
    same(int(late.response.headers["retry-after"]) > 0, True)


for one in parts:
    PARTS[one]()
    print(f"{one}: ok")
