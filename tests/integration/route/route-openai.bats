#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The official Node client of OpenAI, of a pinned version from the registry, through the router to test replicas.
# waits: for a registry
# variants: plain, because nothing here is built with a sanitizer: nginx is the distribution's
bats_require_minimum_version 1.5.0
load ../route

client=openai@7.55.0

setup_file() {
        export node_dir missing=''
        [ -n "$(command -v nginx)" ] || { missing='no nginx' && return 0; }
        [ -n "$(command -v npm)" ] || { missing='no npm' && return 0; }
        node_dir=$(mktemp -d /tmp/sublet-openai-XXXXXX)
        timeout 120 npm install --prefix "$node_dir" --no-audit --no-fund --ignore-scripts --loglevel=error "$client" \
                > "$node_dir/said" 2>&1 3>&- || missing="the registry does not give $client"
}

teardown_file() {
        rm -rf "${node_dir:-}"
}

# A skip in setup_file is a failure of bats 1.8.
setup() {
        [ -z "$missing" ] || skip "$missing"
        router_start
        replica a --scale 20
        replica b --scale 20
        put a
        put b
        relay
}

teardown() {
        router_stop
}

# The client speaks TCP only: a door of it to the router's socket, at a port that the system picks.
relay() {
        node -e '
                const net = require("net")
                const server = net.createServer(a => {
                        const b = net.connect(process.argv[1])
                        a.pipe(b).pipe(a)
                        a.on("error", () => b.destroy()).on("close", () => b.destroy())
                        b.on("error", () => a.destroy())
                })
                server.listen(0, "127.0.0.1", () => require("fs").writeFileSync(process.argv[2], String(server.address().port)))
        ' "$dir/http" "$dir/port" 3>&- &
        pids+=($!)
        until_ test -s "$dir/port"
}

# client SCRIPT: a module's text with `openai` (the client) and `OpenAI` (its class) at hand
client() {
        {
                printf 'import OpenAI from "openai"\n'
                printf 'const openai = new OpenAI({ baseURL: "http://127.0.0.1:%s/v1", apiKey: "none", maxRetries: 0, timeout: 20000 })\n' "$(cat "$dir/port")"
                printf 'const weather = { type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } }\n'
                printf 'const chat = (more) => ({ model: "m", max_tokens: 5, messages: [{ role: "user", content: "hello" }], ...more })\n'
                printf 'const say = (...words) => console.log(...words)\n'
                cat
        } > "$node_dir/client.mjs"
        run timeout 60 node "$node_dir/client.mjs"
        [ "$status" -eq 0 ] || echo "$output"
        [ "$status" -eq 0 ]
}

@test "a chat in one piece" {
        client << 'END'
const answer = await openai.chat.completions.create(chat())
say(answer.object, answer.choices[0].message.role, answer.choices[0].finish_reason, answer.usage.completion_tokens)
say(answer.choices[0].message.content.trim().split(" ").length)
END
        [ "${lines[0]}" = 'chat.completion assistant stop 5' ]
        [ "${lines[1]}" = 5 ]
}

@test "a chat as a stream, with its usage at the end" {
        client << 'END'
let pieces = 0, finish, usage
for await (const piece of await openai.chat.completions.create(chat({ stream: true, stream_options: { include_usage: true } }))) {
        if (piece.choices[0]?.delta?.content) pieces++
        finish = piece.choices[0]?.finish_reason ?? finish
        usage = piece.usage ?? usage
}
say(pieces, finish, usage.completion_tokens)
END
        [ "${lines[0]}" = '5 stop 5' ]
}

@test "a stream that the client puts together gives what one piece gives" {
        client << 'END'
const whole = await openai.chat.completions.stream(chat({ max_tokens: 9 })).finalChatCompletion()
say(whole.choices[0].message.content.trim().split(" ").length, whole.choices[0].finish_reason)
END
        [ "${lines[0]}" = '9 stop' ]
}

@test "tools: the call comes in one piece and as a stream, and its result goes back" {
        client << 'END'
const asked = await openai.chat.completions.create(chat({ tools: [weather], tool_choice: "auto" }))
const call = asked.choices[0].message.tool_calls[0]
say(asked.choices[0].finish_reason, call.type, call.function.name, call.function.arguments)
const whole = await openai.chat.completions.stream(chat({ tools: [weather] })).finalChatCompletion()
say(whole.choices[0].finish_reason, whole.choices[0].message.tool_calls[0].function.name)
const messages = [{ role: "user", content: "hello" }, asked.choices[0].message,
        { role: "tool", tool_call_id: call.id, content: "rain" }]
const told = await openai.chat.completions.create(chat({ messages }))
say(told.choices[0].finish_reason, told.usage.completion_tokens)
END
        [ "${lines[0]}" = 'tool_calls function weather {}' ]
        [ "${lines[1]}" = 'tool_calls weather' ]
        [ "${lines[2]}" = 'stop 5' ]
}

@test "images: counted by the replica, and a conversation about the same one stays where it is cached" {
        client << 'END'
const bytes = "data:image/png;base64," + Buffer.alloc(300000, 7).toString("base64")
const about = (text, url) => chat({ messages: [{ role: "user", content: [
        { type: "image_url", image_url: { url } }, { type: "text", text }] }] })
const long = "word ".repeat(2000)
const first = await openai.chat.completions.create(about(long, bytes))
const again = await openai.chat.completions.create(about(long + " more", bytes))
say(first.usage.prompt_tokens > 2500, again.usage.prompt_tokens_details.cached_tokens > 2000)
const other = await openai.chat.completions.create(about(long, "http://example.com/other.png"))
say(other.usage.prompt_tokens_details.cached_tokens)
let pieces = 0
for await (const piece of await openai.chat.completions.create({ ...about("what is it", bytes), stream: true }))
        if (piece.choices[0]?.delta?.content) pieces++
say(pieces)
END
        [ "${lines[0]}" = 'true true' ]
        [ "${lines[1]}" = 0 ]
        [ "${lines[2]}" = 5 ]
}

@test "responses, completions, embeddings and the list of models" {
        client << 'END'
const response = await openai.responses.create({ model: "m", input: "hello", max_output_tokens: 3 })
say(response.status, response.output_text.trim().split(" ").length)
let deltas = 0, last
for await (const event of await openai.responses.create({ model: "m", input: "hello", max_output_tokens: 3, stream: true })) {
        if (event.type === "response.output_text.delta") deltas++
        last = event.type
}
say(deltas, last)
const completion = await openai.completions.create({ model: "m", prompt: "hello", max_tokens: 4 })
say(completion.object, completion.usage.completion_tokens)
const vectors = await openai.embeddings.create({ model: "m", input: ["one", "two"] })
say(vectors.data.length, vectors.data[0].embedding.length)
for await (const model of openai.models.list()) say(model.id, model.object)
END
        [ "${lines[0]}" = 'completed 3' ]
        [ "${lines[1]}" = '3 response.completed' ]
        [ "${lines[2]}" = 'text_completion 4' ]
        [ "${lines[3]}" = '2 8' ]
        [ "${lines[4]}" = 'm model' ]
}

@test "what is refused is the client's own kind of error" {
        put b '"models":["second"],"state":"draining"' # or the only model would be meant
        client << 'END'
const error = async (body) => { try { await openai.chat.completions.create(body); return "none" } catch (e) { return e } }
const unknown = await error(chat({ model: "other" }))
say(unknown instanceof OpenAI.NotFoundError, unknown.status, unknown.code)
const none = await error(chat({ model: undefined }))
say(none instanceof OpenAI.BadRequestError, none.status, none.code)
END
        [ "${lines[0]}" = 'true 404 model_not_found' ]
        [ "${lines[1]}" = 'true 400 model_required' ]
}

@test "a stream that the client leaves ends at the replica too" {
        client << 'END'
const stream = await openai.chat.completions.create(chat({ max_tokens: 5000, stream: true }))
for await (const piece of stream) if (piece.choices[0]?.delta?.content) break
END
        until_ is 0 of a inflight
        until_ is 0 of b inflight
        [ "$( (ask a /replica/stats; ask b /replica/stats) | jq -s 'map(.aborted) | add')" -eq 1 ]
}
