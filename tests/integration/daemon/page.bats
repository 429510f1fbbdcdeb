#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The page, in a real browser: it shows what the daemon says, live, and nothing of it comes from elsewhere. The browser
# fails on every error that the page logs, on what its policy forbids, and on every request to another origin.
# later: because a browser is a large package, and slow
# variants: plain, because what is slow here is the browser; daemon.bats has the same answers in every build
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        command -v chromium > /dev/null && command -v node > /dev/null || skip "no chromium or no node ('tools/deps page')"
        machine_start --memory 64G
        for _ in 1 2 3 4 5; do
                port=$((20000 + RANDOM % 12000)) # somebody may have it
                daemon_start --listen "127.0.0.1:$port" && break
        done
        lodger one --mem 8G --share 60 -- "$load_program" -t 300 deep
        lodger two --mem 4G --share 40 --cap 50 -- "$load_program" -t 300 deep
}

teardown() {
        node_end
        machine_end
}

# browse [OPTION...] EXPRESSION...: what they are on the page, once it has heard of turns and shows both tenants
live='timeline.spans.length > 20 && document.querySelectorAll("#tenants tbody th").length == 2 && document.getElementById("state").textContent == "live"'
browse() {
        timeout 100 "$(command -v /usr/bin/node || command -v node)" tests/fakes/browser.js "http://127.0.0.1:$port/" --wait "$live" "$@"
}

@test "it shows devices, turns, tenants, usage and events" {
        run -0 browse 'document.querySelector("#tenants tbody").innerText' 'document.querySelector("#devices").innerText' \
                'document.querySelector("#events").innerText' \
                'new Promise((done) => { const t = setInterval(() => { const u = document.querySelector("#usage tbody").innerText; if (/one/.test(u)) { clearInterval(t); done(u); } }, 100); })'
        [[ $output == *one*60.0%*"/ 8 GiB"* ]]
        [[ $output == *two*40.0%*50.0%*"/ 4 GiB"* ]]
        [[ $output == *"12 GiB leased of 64 GiB"* ]]
        [[ $output == *TENANT_STARTED* ]]
        [[ $output == *" of 700 W, "*" MHz"* ]]
        # Each process below its tenant's command.
        browse 'new Promise((done) => { const t = setInterval(() => { const d = [...document.querySelectorAll("#tenants .details")].map((e) => e.textContent); if (d.length == 2 && d.every((x) => /^[0-9]+ gpu-load [0-9.]+ MiB$/.test(x))) { clearInterval(t); done("processes"); } }, 100); })' |
                grep -qx processes
}

@test "the timeline's shares are those that the tenants were promised" {
        run -0 browse 'new Promise((done) => setTimeout(() => { timeline.draw(); done(timeline.parts.join(" ")); }, 3000))'
        echo "$output"
        one=$(sed -n 's/.*one \([0-9]*\)\..*/\1/p' <<< "$output")
        two=$(sed -n 's/.*two \([0-9]*\)\..*/\1/p' <<< "$output")
        [ "$one" -ge 50 ] && [ "$one" -le 65 ]
        [ "$two" -ge 33 ] && [ "$two" -le 45 ]
}

@test "light and dark, wide and narrow: it is drawn, and does not scroll sideways" {
        local pictures=${SUBLET_PICTURES:-$BATS_TEST_TMPDIR} # tools/pictures keeps them
        local widths='document.documentElement.scrollWidth <= innerWidth'
        local drawn='(() => { const c = timeline.canvas, d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; const s = new Set(); for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i+1] << 8 | d[i+2]); return s.size > 8; })()'
        run -0 browse --shot "$pictures/page-light.png" "$widths" "$drawn" 'getComputedStyle(document.body).backgroundColor'
        [ "${lines[0]} ${lines[1]}" = "true true" ]
        light=${lines[2]}
        run -0 browse --dark --width 390 --shot "$pictures/page-dark.png" "$widths" "$drawn" 'getComputedStyle(document.body).backgroundColor'
        [ "${lines[0]} ${lines[1]}" = "true true" ]
        [ "${lines[2]}" != "$light" ]
        [ "$(stat -c %s "$pictures/page-light.png")" -gt 20000 ]
}

@test "keys pause it, go from turn to turn and zoom, and the pointer shows the span" {
        local key='((k) => timeline.canvas.dispatchEvent(new KeyboardEvent("keydown", { key: k, cancelable: true })))'
        run -0 browse "$key(' ')" 'timeline.paused' "$key('ArrowLeft')" 'timeline.said.textContent' "$key('+')" 'timeline.width' \
                'document.getElementById("pause").getAttribute("aria-pressed")' "$key(' ')" 'timeline.paused'
        [ "${lines[1]}" = true ]
        [[ ${lines[3]} =~ ^(one|two):\ [0-9.]+\ (ms|µs|s)\ on\ the\ device$ ]]
        [ "${lines[5]}" = 1000 ]
        [ "${lines[6]}" = true ]
        [ "${lines[8]}" = false ]
}

@test "of several devices the timeline shows the one that is chosen" {
        node_end
        machine_end
        machine_start --memory 64G --gpus 2
        daemon_start --listen "127.0.0.1:$port"
        lodger one --mem 8G --gpu 0 -- "$load_program" -t 300 deep
        lodger two --mem 8G --gpu 1 -- "$load_program" -t 300 deep
        live=${live/> 20/> 0}
        run -0 browse '(() => { const s = document.getElementById("device"); s.value = "1"; s.dispatchEvent(new Event("change")); return `${s.options.length} ${s.checkVisibility()}`; })()' \
                'new Promise((done) => setTimeout(() => { timeline.draw(); done(timeline.parts.join(" ")); }, 3000))'
        [ "${lines[0]}" = "2 true" ]
        [[ ${lines[1]} =~ two\ (9[0-9]|100)\. ]]
        [[ ! ${lines[1]} =~ one\ [1-9] ]]
}

@test "who is suspended is shown, with what of it is in host memory, and who waits to come in" {
        node_end
        machine_end
        machine_start --memory 4G
        daemon_start --listen "127.0.0.1:$port" --swap 8G --swap-cost 50%
        local kept=$plain/tests/gpu/gpu-kept name
        for name in one two; do lodger "$name" --mem 2500M --swap -- "$kept" 128; done # of which one fits
        mkfifo "$machine/feed" && exec {feed}<> "$machine/feed" # from which it hears nothing
        # shellcheck disable=SC2016 # for the inner shell
        lodger idle --mem 1G -- sh -c 'exec "$0" 64 FED < "$1"' "$kept" "$machine/feed"
        wait_for grep -q '^ready' "$machine/idle"
        "$sublet" suspend idle
        live='document.querySelectorAll("#tenants tbody th").length == 3 && document.getElementById("state").textContent == "live"'
        # shellcheck disable=SC2016 # for the page
        local until_so='new Promise((done) => { const t = setInterval(() => { const s = `${%s}`; if (%s.test(s)) { clearInterval(t); done(s); } }, 50); })' rows='[...document.querySelectorAll("#tenants tbody tr")].map((r) => r.innerText.replace(/\s+/g, " ")).join(";")'
        # shellcheck disable=SC2059 # a format of ours
        run -0 browse "$(printf "$until_so" "$rows" '/idle .*MiB in host memory .*suspended.*(one|two) .*MiB in host memory .*out/')" \
                "$(printf "$until_so" "$rows" '/out, waits/')" \
                "$(printf "$until_so" 'document.querySelector("#devices").innerText' '/iB of suspended tenants, of 8 GiB/')" \
                "$(printf "$until_so" '[...document.querySelectorAll("#tenants td")].map((e) => e.title).join(";")' '/waits for others, /')"
        echo "$output"
}

@test "a screen reader can read it: every table has headings, every control a name" {
        run -0 browse '[...document.querySelectorAll("button, select, [role=img], [role=region]")].filter((e) => !(e.textContent || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.labels?.length)).length' \
                '[...document.querySelectorAll("table")].every((t) => t.querySelectorAll("thead th[scope=col]").length > 0)' \
                'new Promise((done) => setTimeout(() => done(timeline.canvas.getAttribute("aria-label")), 2500))' 'document.documentElement.lang'
        [ "${lines[0]}" = 0 ]
        [ "${lines[1]}" = true ]
        [[ ${lines[2]} == "Device 0, the last 2 seconds: one "* ]]
        [ "${lines[3]}" = en ]
}

@test "its policy allows files of the daemon and nothing else" {
        run -0 browse 'fetch("/").then((r) => r.headers.get("content-security-policy"))' 'fetch("/page.js").then((r) => r.headers.get("content-type"))'
        [[ ${lines[0]} == "default-src 'none'; script-src 'self'; style-src 'self'; "* ]]
        [[ ${lines[0]} != *unsafe* ]]
        [[ ${lines[1]} == text/javascript* ]]
}

@test "the page's listener takes no changes" {
        run browse 'fetch("/v1/tenants/one", { method: "DELETE" }).then((r) => r.status)' \
                'fetch("/v1/tenants/one", { method: "PATCH", body: "{\"share_permille\":1}" }).then((r) => r.status)'
        [ "${lines[0]}" -ge 400 ]
        [ "${lines[1]}" -ge 400 ]
        [ "$("$sublet" ps -q | sort | xargs)" = "one two" ]
        [ "$(of one share_permille)" -eq 600 ]
}

@test "a command's name is text on the page, whatever it is" {
        local name='<img src=x onerror="document.title=1">'
        printf '#!/bin/sh\nexec sleep 100\n' > "$machine/$name"
        chmod +x "$machine/$name"
        lodger three --mem 8G -- "$machine/$name"
        live=${live/== 2/== 3}
        run -0 browse 'document.querySelectorAll("#tenants img").length' 'document.title' 'document.querySelector("#tenants").innerText'
        [ "${lines[0]}" = 0 ]
        [ "${lines[1]}" = Sublet ]
        [[ $output == *'<img src=x'* ]]
}

@test "a daemon that goes is said to be gone, and one that comes back is live" {
        local browser
        local becomes='new Promise((done) => { const t = setInterval(() => { const s = document.getElementById("state").className; if (s === "%s") { clearInterval(t); done(s); } }, 50); })'
        # each is said when it is so: the browser takes its time to begin
        # shellcheck disable=SC2059 # a format of ours
        browse --until 60 "$(printf "$becomes" live)" "$(printf "$becomes" stale)" "$(printf "$becomes" live)" > "$machine/browsed" 2>&1 3>&- &
        browser=$!
        has_said() { [ "$(head -3 "$machine/browsed" | paste -sd,)" = "$1" ]; } # what it complains of then is that nobody answers
        wait_for has_said live || wait_for has_said live
        daemon_end KILL
        wait_for has_said live,stale
        daemon_start --listen "127.0.0.1:$port"
        wait "$browser" || true
        has_said live,stale,live || { cat "$machine/browsed"; false; }
}
