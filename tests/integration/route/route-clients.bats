#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The official clients of OpenAI (Python) and Anthropic (Python, Node), of pinned versions from the registries, through
# `sublet route` to two engines that have all of both APIs. route-openai.bats has OpenAI's for Node.
# shellcheck disable=SC2030,SC2031,SC2154  # each test is a subshell; what route.bash sets
# waits: for a registry
# variants: plain, because nothing here is built with a sanitizer: nginx is the distribution's
bats_require_minimum_version 1.5.0
load ../route

sublet=${SUBLET_BUILD:-$build}/src/sublet
python=(openai==3.54.0 anthropic==2.12.0 websockets==15.0.1)
node=@anthropic-ai/sdk@1.12.0

setup_file() {
        [ -n "$(command -v nginx)" ] || skip 'no nginx'
        export packages
        packages=$(mktemp -d /tmp/sublet-clients-XXXXXX)
        { python3 -m pip --version && timeout 240 python3 -m pip install --quiet --disable-pip-version-check \
                --target "$packages/python" --only-binary :all: "${python[@]}"; } > "$packages/said" 2>&1 3>&- ||
                touch "$packages/no-python"
        { npm --version && timeout 120 npm install --prefix "$packages" --no-audit --no-fund --ignore-scripts \
                --loglevel=error "$node"; } > "$packages/said" 2>&1 3>&- || touch "$packages/no-node"
}

teardown_file() {
        rm -rf "$packages"
}

setup() {
        dir=$(mktemp -d /tmp/sublet-clients-XXXXXX)
        pids=()
        agent=''
        port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        printf '%s\n' "listen: 127.0.0.1:$port" 'metrics: off' 'workers: 2' "user: $(id -un)" 'zone: 16M' 'policy: round-robin' \
                'keys:' '- {name: team, key: sk-team-12345678}' '- {name: slow, key: sk-slow-12345678, rate: 1/m, burst: 0}' \
                'replicas:' > "$dir/config.yaml"
        for name in a b; do
                /usr/bin/python3 "$BATS_TEST_DIRNAME/../../fakes/api.py" "$dir/$name" "$name" 3>&- &
                pids+=($!)
                until_ ask "$name" /health
                echo "- {name: $name, address: 'unix:$dir/$name'}" >> "$dir/config.yaml"
        done
        "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$dir/config.yaml" \
                > "$dir/said" 2>&1 3>&- &
        agent=$!
        for name in a b; do
                until_ eval '[ "$(curl -sS --unix-socket "$dir/run/api/api.sock" "http://x/v1/replicas/$name" | jq -r .state)" = up ]'
        done
}

teardown() {
        [ -z "$agent" ] || { kill "$agent" && sleep 0.1 && kill "$agent"; } 2> /dev/null || true
        for pid in "${pids[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
        wait 2> /dev/null || true
        rm -rf "$dir"
}

client() { # PART
        [ ! -e "$packages/no-python" ] || skip "the registry does not give ${python[*]}"
        PYTHONPATH=$packages/python PYTHONDONTWRITEBYTECODE=1 run timeout 60 python3 \
                "$BATS_TEST_DIRNAME/../../fakes/clients.py" "http://127.0.0.1:$port" "$1"
        echo "$output"
        tail -20 "$dir/run/requests.log"
        [ "${lines[-1]}" = "$1: ok" ]
}

@test "chats, completions and models" {
        client chat
}

@test "responses go on with an earlier one, and with a conversation, wherever it is stored" {
        client responses
}

@test "files, and batches of them, are found where they were put" {
        client files
}

@test "sound, pictures, embeddings and moderations" {
        client media
}

@test "a realtime session is a websocket to the end" {
        client realtime
}

@test "Anthropic's messages, in one piece and as a stream, their tokens and their batches" {
        client messages
}

@test "errors are those of each API: who is unknown, who is too fast, which model is not there" {
        client errors
}

@test "Anthropic's client for Node" {
        [ ! -e "$packages/no-node" ] || skip "the registry does not give $node"
        cat > "$packages/client.mjs" << 'END'
import Anthropic from "@anthropic-ai/sdk"
const claude = new Anthropic({ baseURL: process.argv[2], apiKey: "sk-team-12345678", maxRetries: 0, timeout: 20000 })
const about = { model: "m", max_tokens: 5, messages: [{ role: "user", content: "hello" }] }
const whole = await claude.messages.create(about)
const streamed = await claude.messages.stream(about).finalMessage()
const counted = await claude.messages.countTokens({ model: "m", messages: about.messages })
console.log(whole.content[0].text === streamed.content[0].text, counted.input_tokens > 5)
try { await claude.messages.create({ ...about, model: "none" }) }
catch (e) { console.log(e instanceof Anthropic.NotFoundError, e.status) }
END
        run timeout 60 node "$packages/client.mjs" "http://127.0.0.1:$port"
        echo "$output"
        [ "${lines[0]}" = 'true true' ]
        [ "${lines[1]}" = 'true 404' ]
}
