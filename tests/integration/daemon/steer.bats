#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The operator's verbs: what they show is so, what they change is changed, and what is wrong is said in one line.
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 64G
}

teardown() {
        node_end
        machine_end
}

# lines_have PATTERN: one line of the last output matches all of it
lines_have() {
        printf '%s\n' "${lines[@]}" | grep -qE -e "$1" || { echo "no line has '$1': $output"; return 1; }
}

# refused_1 PATTERN: the last `run` ended with 1 and one line
refused_1() {
        [ "$status" -eq 1 ] || { echo "status $status: $output"; return 1; }
        [ "${#lines[@]}" -eq 1 ] || { echo "not one line: $output"; return 1; }
        [[ $output =~ ^sublet:\ .*$1 ]] || { echo "does not say $1: $output"; return 1; }
}

# ---- without a daemon -----------------------------------------------------------------------------

@test "without a daemon every verb names the next step, and exits with 1" {
        local verb
        export SUBLET_DIR=$BATS_TEST_TMPDIR
        for verb in ps "set a share=3" "end a" usage events "events -f" "trace --for 1s" "top -b -n 1" "top --once"; do
                # shellcheck disable=SC2086
                run "$sublet" $verb
                refused_1 "no daemon answers at $BATS_TEST_TMPDIR/sublet.sock: start it with 'sublet daemon'"
        done
        [ ! -e sublet-trace.json ]
        run "$sublet" ps --dir /nonexistent
        refused_1 "no daemon answers at /nonexistent/sublet.sock: start it with 'sublet daemon --dir /nonexistent'"
}

@test "bad use is one line, and exits with 2" {
        local order
        export SUBLET_DIR=$BATS_TEST_TMPDIR
        for order in "ps x" "ps --nonsense" "set" "set a" "set a b" "set a share" "set a share=" "set a share=101" \
                "set a share=0" "set a share=12.55" "set a cap=-3" "set a mem=0" "set a mem=8X" "set a mem=1=" "set a mem=x=8G" \
                "set a class=fast" "set a latency=0" "set a latency=1us" "set a latency=11s" "set a latency=soon" "set a colour=red" "set a share=30 mem=x" "end" "usage --since never" "usage --by colour" "usage a b" \
                "usage --since 2026-02-31" "events --since 1.2.3" "events a b" "trace --for 61s" "trace --for 10ms" \
                "trace --for long" "trace x" "burn nope" "top -d 0" "top -d 1ms" "top -n 0" "top x" "oci profile --driver 1.2.3"; do
                # shellcheck disable=SC2086
                run "$sublet" $order
                echo "$order"
                one_line_and_2 ''
        done
}

@test "every verb has a help that names its options" {
        local verb
        for verb in ps set end usage events trace top; do
                run -0 "$sublet" "$verb" --help
                [[ ${lines[0]} == "usage: sublet $verb"* ]]
                lines_have '--dir DIR'
        done
}

# ---- with one -------------------------------------------------------------------------------------

@test "ps shows each tenant with its lease; -q its name, -a also those that have ended" {
        daemon_start
        lodger one --mem 8G --share 30 -- sleep 60
        lodger two --mem 4G --share 20 --cap 50 --class latency -- sleep 60
        wait_for eval '[ "$(of two state)" = running ]' # listed it is before its shim serves
        run -0 "$sublet" ps
        lines_have '^TENANT +USER +DEVICE +MEMORY +GPU +SHARE +CAP +CLASS +PLANE +STATE'
        lines_have '^one +[^ ]+ +0 +.* / 8 GiB +[0-9.]+%\*? +30% +- +normal +gate +running .* sleep'
        lines_have '^two +[^ ]+ +0 +.* / 4 GiB +[0-9.]+%\*? +20% +50% +latency +gate +running .* sleep'
        run -0 "$sublet" ps -q
        [ "$(sort <<< "$output")" = $'one\ntwo' ]
        "$sublet" end one
        wait_for eval '! "$sublet" ps -q | grep -qx one'
        run -0 "$sublet" ps -a
        lines_have '^one .* ended'
        lines_have '^two .* running'
        "$sublet" ps --json | jq -e 'length == 1 and .[0].tenant == "two"'
}

@test "each field of the API's answers is in its manual" {
        daemon_start
        lodger one --mem 8G --share 30 -- sleep 60
        for what in version devices tenants events usage timeline; do
                for field in $(curl -sf --unix-socket "$SUBLET_DIR/sublet.sock" "http://sublet/v1/$what" | jq -r '.. | objects | keys[]' | sort -u); do
                        grep -qE "[\"\`]${field}[\"\`]" "$BATS_TEST_DIRNAME/../../../docs/api.md" || { echo "$what: $field"; false; }
                done
        done
}

@test "set changes a lease while it runs, and says what has changed" {
        daemon_start
        lodger one --mem 8G --share 30 -- sleep 60
        run -0 "$sublet" set one mem=4G share=45.5 cap=60 class=latency
        [ "$output" = "one: memory 8 GiB -> 4 GiB, share 30% -> 45.5%, cap none -> 60%, class normal -> latency" ]
        [ "$(of one quota_bytes)" -eq $((4 << 30)) ]
        [ "$(of one share_permille)" -eq 455 ]
        [ "$(of one cap_permille)" -eq 600 ]
        [ "$(of one class)" = latency ]
        run -0 "$sublet" set one cap=none
        [ "$output" = "one: cap 60% -> none" ]
        run -0 "$sublet" set one class=latency
        [ "$output" = "one: as it was" ]
        "$sublet" set --json one mem=25% | jq -e '.devices[0].quota_bytes == 16 * 1024 * 1024 * 1024'
}

@test "a goal is promised if it can be kept beside the others, and refused with what could be" {
        daemon_start
        run -2 on "$sublet" run -q --mem 8G --latency 10ms -- true
        [[ $output == *"add --share"* ]]
        lodger one --mem 8G --share 50 --latency 10ms -- sleep 60
        [ "$(of one latency_us)" = 10000 ]
        "$sublet" inspect one | grep -q "^latency .*p99 of a step 10 ms"
        run on "$sublet" run -q --mem 8G --share 50 --latency 5ms -- true
        [ "$status" -eq 125 ]
        [[ $output == *"5000 us cannot be kept on device 0"*"6 ms at least"* ]]
        lodger two --mem 8G --share 30 -- sleep 60
        run -0 "$sublet" set one latency=8ms
        [ "$output" = "one: latency 10 ms -> 8 ms" ]
        run on "$sublet" run -q --mem 8G -- true # with three one could be kept
        [ "$status" -eq 0 ]
        lodger three --mem 8G -- sleep 60
        run on "$sublet" run -q --mem 8G -- true
        [ "$status" -eq 125 ]
        [[ $output == *"goal of 8000 us that tenant one was promised"* ]]
        run -0 "$sublet" set one latency=none
        [ "$(of one latency_us)" = null ]
        run -0 on "$sublet" run -q --mem 8G -- true
}

@test "how a goal is kept is in ps, inspect, the metrics and the API, and a daemon that gives no turns says so" {
        daemon_start
        lodger one --mem 8G --share 50 --latency 10ms -- sleep 60
        of one steps | jq -e '.late == 0 and .p99_us == null' # nothing was launched
        "$sublet" ps | grep -q "P99"
        "$sublet" ps | grep -q "of 10 ms"
        "$sublet" inspect one | grep -q "steps  *none known yet"
        curl -sS --unix-socket "$SUBLET_DIR/sublet.sock" http://x/metrics |
                grep -q '^sublet_tenant_latency_goal_seconds{tenant="one".* 0[.]010*$'
        daemon_end KILL
        daemon_start --policy slices
        wait_for eval '"$sublet" events | grep -q "GOAL_NOT_KEPT.*10000 us.*--policy turns"'
        run -0 "$sublet" set one latency=none
}

@test "on several devices a size is for all of them but those that are named" {
        machine_end
        machine_start --memory 64G --gpus 3
        daemon_start
        lodger one --mem 8G,1=4G --gpu 0,1 -- sleep 60
        run -0 "$sublet" set one mem=16G,1=2G cap=40
        [ "$output" = "one: device 0 memory 8 GiB -> 16 GiB, device 0 cap none -> 40%, device 1 memory 4 GiB -> 2 GiB, device 1 cap none -> 40%" ]
        run -0 "$sublet" set one mem=1=3G
        [ "$output" = "one: device 1 memory 2 GiB -> 3 GiB" ]
        run -0 "$sublet" set one mem=8G,00000000:02:00.0=4G
        [ "$output" = "one: device 0 memory 16 GiB -> 8 GiB, device 1 memory 3 GiB -> 4 GiB" ]
        uuid=$(curl -sS --unix-socket "$SUBLET_DIR/sublet.sock" http://x/v1/devices | jq -r '.[1].uuid')
        run -0 "$sublet" set one "mem=$uuid=3G"
        [ "$output" = "one: device 1 memory 4 GiB -> 3 GiB" ]
        run "$sublet" set one mem=GPU-=1G
        refused_1 "'GPU-' is no device here"
        run "$sublet" set one mem=GPU-7375=1G
        refused_1 "beginning of 3 devices"
        run -0 "$sublet" set one mem=0=16G
        run "$sublet" set one mem=2=1G
        refused_1 "device '?2"
        run -0 "$sublet" ps
        [ "$(grep -c '^one ' <<< "$output")" -eq 2 ]
        lines_have '^one +[^ ]+ +1 .* / 3 GiB '
}

@test "a quota below what is held refuses new memory, and says so; nothing is taken away" {
        daemon_start
        lodger one --mem 8G -- "$raw" --steps 512 --max 4096 --hold 60
        wait_for eval '[ "$(of one held_bytes)" -ge $((4 << 30)) ]'
        run -0 "$sublet" set one mem=2G
        lines_have '^one: memory 8 GiB -> 2 GiB'
        lines_have '^one: note: .*'
        [ "$(of one held_bytes)" -ge $((4 << 30)) ]
        [ "$(of one quota_bytes)" -eq $((2 << 30)) ]
}

@test "what does not fit is refused, and nothing has changed" {
        daemon_start
        lodger one --mem 8G --share 60 -- sleep 60
        lodger two --mem 8G --share 30 -- sleep 60
        run "$sublet" set two share=50
        refused_1 '[0-9]'
        run "$sublet" set two share=35 mem=60G
        refused_1 '[0-9]'
        [ "$(of two share_permille)" -eq 300 ]
        [ "$(of two quota_bytes)" -eq $((8 << 30)) ]
        run "$sublet" set nobody share=5
        refused_1 nobody
        run "$sublet" set two mem=1=1G
        refused_1 '1'
}

@test "end ends a tenant's command, and names a tenant that is not there" {
        local code=0
        daemon_start
        lodger one --mem 8G -- sleep 60
        run -0 "$sublet" end one
        [ "$output" = one ]
        wait "$supervisor" || code=$?
        [ "$code" -ne 0 ]
        wait_for eval '[ -z "$("$sublet" ps -q)" ]' # the command returns first
        run "$sublet" end one
        refused_1 one
}

@test "usage is what was metered and held, also of those that have ended" {
        daemon_start
        lodger one --mem 8G -- "$load_program" -t 2 deep
        wait "$supervisor" || { cat "$machine/one"; false; }
        wait_for eval '"$sublet" usage --json one | jq -e ".[0].gpu_seconds > 1.5 and .[0].gpu_seconds < 4"'
        "$sublet" usage --json one | jq -e '.[0].gib_hours > 0 and .[0].peak_bytes > 0 and .[0].peak_bytes <= 8 * 1073741824'
        run -0 "$sublet" usage --since 1h
        lines_have '^TENANT +DEVICE +GPU-SECONDS +GIB-HOURS +PEAK +REFUSED( +ENGINE-SECONDS)? +FROM +TO( +ENGINE-SECONDS)?$'
        lines_have '^one +0 +[0-9]+\.[0-9]{3} '
        "$sublet" usage --since 2020-01-01 --json | jq -e 'any(.tenant == "one")'
        "$sublet" usage --json nobody | jq -e 'length == 0'
}

@test "usage is summed by what a tenant was labelled with, by user, and up to a time" {
        daemon_start
        lodger one --mem 8G --label team=video --label stage=test -- "$load_program" -t 1 deep
        "$sublet" inspect one | grep -q '^labels  *team=video, stage=test$'
        "$sublet" ps --json | jq -e '.[0].labels == {"team": "video", "stage": "test"}'
        curl -sS --unix-socket "$SUBLET_DIR/sublet.sock" http://sublet/metrics |
                grep -q '^sublet_tenant_label_info{tenant="one",label="team",value="video"} 1$'
        lodger two --mem 8G --label team=search -- "$load_program" -t 1 deep
        daemon_end KILL # labels and usage are the next daemon's, too
        daemon_start
        wait_for eval '"$sublet" usage --by label:team --json | jq -e "all(.gpu_seconds > 0.1) and length == 2"'
        run -0 "$sublet" usage --by label:team
        lines_have '^TEAM +TENANTS +DEVICE +GPU-SECONDS '
        lines_have '^search +1 +0 '
        lines_have '^video +1 +0 '
        run -0 "$sublet" usage --by user
        lines_have "^$(id -un) +2 +0 "
        run -0 "$sublet" usage --by label:stage --csv --price 2.50
        lines_have '^label:stage,tenants,device,uuid,.*,price,copy_seconds,.*'
        lines_have '^"test",1,0,GPU-'
        "$sublet" usage --until 1h --json | jq -e 'length == 0'
        run on "$sublet" run --mem 1G --label team=a --label team=b -- true
        one_line_and_2 'has a value already'
        run "$sublet" usage --since 1h --until 2h
        one_line_and_2 'until is not after'
}

@test "events are listed, and followed as they happen" {
        local follower
        daemon_start
        lodger one --mem 8G -- sleep 60
        wait_for eval '"$sublet" events | grep -q TENANT_STARTED' # its shim comes a moment after its lease
        run -0 "$sublet" events
        lines_have '^[0-9-]{10} [0-9:]{8}  INFO +one: TENANT_STARTED: '
        "$sublet" events --json | jq -e 'select(.name == "TENANT_STARTED") | .tenant == "one"'
        "$sublet" events -f --since 1h --json > "$machine/followed" 3>&- &
        follower=$!
        wait_for grep -q '"one"' "$machine/followed" # what was comes first, so from here on it follows
        run ! grep -q '"two"' "$machine/followed"
        lodger two --mem 8G -- sleep 60
        wait_for grep -q '"two"' "$machine/followed"
        "$sublet" end one
        wait_for grep -q 'TENANT_ENDED' "$machine/followed"
        kill "$follower"
        wait "$follower" || true
        jq -e . "$machine/followed" > /dev/null
        run -0 "$sublet" events two
        [[ $output != *one:* ]]
}

@test "a trace shows which tenant was on the device when, and can be opened" {
        daemon_start
        lodger one --mem 8G --share 60 -- "$load_program" -t 30 deep
        lodger two --mem 8G --share 40 -- "$load_program" -t 30 deep
        run -0 "$sublet" trace --for 1s -o "$machine/trace.json"
        [[ $output == "$machine/trace.json: 1 s of it, "*"open it at ui.perfetto.dev" ]]
        for _ in 1 2 3 4; do # in a second of a busy machine there may be few turns
                ! jq -e '.traceEvents | length > 20' "$machine/trace.json" || break
                "$sublet" trace --for 1s -o "$machine/trace.json"
        done
        jq -e '.traceEvents | length > 20' "$machine/trace.json"
        jq -r '.. | strings' "$machine/trace.json" | grep -qx 'one'
        jq -r '.. | strings' "$machine/trace.json" | grep -qx 'two'
        "$sublet" trace --for 1s -o - | jq -e '.traceEvents'
        run "$sublet" trace --for 1s -o /nonexistent/trace.json
        refused_1 'No such file'
}

# ---- top ------------------------------------------------------------------------------------------

@test "a name that no tenant has or had is an error in every verb" {
        local order
        daemon_start
        lodger one --mem 1G -- sleep 60
        for order in "usage ghost" "events ghost" "events -f ghost" "end ghost" "set ghost share=30" "usage --since 1h ghost"; do
                # shellcheck disable=SC2086
                run "$sublet" $order
                refused_1 "no tenant '?ghost"
        done
        run -0 "$sublet" usage one
        run -0 "$sublet" events --since 1h one
        run on "$sublet" lease --end "$machine/none"
        refused_1 'there is no lease at'
}

@test "share=none gives the share back; a size without its unit changes nothing" {
        daemon_start
        lodger one --mem 1G --share 30 -- sleep 60
        run -0 "$sublet" set one share=none
        [ "$output" = "one: share 30% -> 100%" ]
        run "$sublet" set one mem=8
        one_line_and_2 'did you mean 8G'
        run curl -sS --unix-socket "$SUBLET_DIR/sublet.sock" -X PATCH -d '{"mem":"8"}' http://localhost/v1/tenants/one
        [[ $output == *'did you mean 8G?'* ]]
        [ "$(of one quota_bytes)" -eq $((1024 * MIB)) ]
}

@test "what a tenant holds is told by kind: allocated, managed, and what the driver took for its context" {
        daemon_start
        lodger one --mem 2G -- /usr/bin/python3 -c '
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
for r in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
          cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(256 << 20)),
          cuda.cuMemAllocManaged(ctypes.byref(at), ctypes.c_size_t(128 << 20), 1)):
    assert r == 0, r
time.sleep(60)'
        kinds() { "$sublet" inspect --json one | jq -c ".devices[0] | .kinds.$1"; }
        wait_for eval '[ "$(kinds managed_bytes)" = $((128 << 20)) ]'
        "$sublet" inspect --json one | jq .
        [ "$(kinds allocated_bytes)" -ge $((256 << 20)) ] && [ "$(kinds allocated_bytes)" -lt $((1024 << 20)) ] # libcuda allocates for its context, too
        [ "$(kinds driver_bytes)" -gt 0 ]
        [ "$("$sublet" inspect --json one | jq '.devices[0] | .held_bytes == ([.kinds[]] | add)')" = true ]
        run -0 "$sublet" inspect one
        lines_have '^  of it +[0-9.]+ MiB allocated, 128 MiB managed, [0-9.]+ [KM]iB taken by the driver$'
}

@test "inspect says everything about one tenant, and refuses a name that is nobody's" {
        daemon_start
        lodger web-1 --mem 2G --share 30 -- sleep 60
        run -0 "$sublet" inspect web-1
        lines_have '^tenant +web-1$'
        lines_have "^user +$(id -u) \($(id -un)\)\$"
        lines_have '^processes +[0-9]+, under the shim [0-9]+$'
        lines_have 'memory .* of 2 GiB, '
        lines_have 'share +30%, cap none'
        lines_have "^granted +at the request of user $(id -u)\$"
        run ! grep -q '^changed' <<< "$output"
        "$sublet" set web-1 share=20
        run -0 "$sublet" inspect web-1
        lines_have "^changed +20[0-9: -]+: share 20%, .*by user $(id -u)\$"
        [ "$("$sublet" inspect --json web-1 | jq -r .tenant)" = web-1 ]
        run "$sublet" inspect ghost
        refused_1 "there is no tenant 'ghost'"
        run -2 "$sublet" inspect
        [[ $output == "sublet: which tenant? "* ]]
        run -1 "$sublet" logs web-1
        [[ $output == *"journalctl"* && ${#lines[@]} -eq 1 ]]
        run -1 "$sublet" logs ghost
        refused_1 "there is and was no tenant 'ghost'"
        run -1 "$sublet" logs --dir /nonexistent web-1 # where its output is does not depend on a daemon
        [[ $output == *"journalctl"* && ${#lines[@]} -eq 1 ]]
}

@test "usage has a price, and a form for spreadsheets" {
        daemon_start
        lodger web-1 --mem 2G -- "$plain/src/sublet" sim load --for 1m sync
        wait_for eval '"$sublet" usage --json | jq -e ".[0].gib_hours > 0"'
        run -0 "$sublet" usage --price 2.50
        lines_have ' PRICE '
        run -0 "$sublet" usage --csv --price 2.50
        [ "${lines[0]}" = tenant,uid,device,uuid,gpu_seconds,gib_hours,peak_bytes,refused,from,to,price,copy_seconds,decoder_seconds,encoder_seconds,jpeg_seconds,optical_flow_seconds,host_gib_hours ]
        lines_have "^\"web-1\",$(id -u),0,GPU-[^,]*,[0-9.]+,[0-9.]+,[0-9]+,0,[0-9]+,[0-9]+,[0-9.]+(,[0-9.]+){6}\$"
        run -2 "$sublet" usage --price cheap
        [[ $output == *"--price cheap: a price of a GPU-hour"* ]]
}

@test "with --group only its members may lease and ask, and others are told which group" {
        [ "$(id -u)" = 0 ] || skip 'a user of another group is made by root'
        chmod 755 "$machine"
        daemon_start --group daemon
        [ "$(stat -c '%a %G' "$SUBLET_DIR/tenant.sock")" = '660 daemon' ]
        [ "$(stat -c '%a %G' "$SUBLET_DIR/sublet.sock")" = '660 daemon' ]
        cp "$sublet" "$machine/sublet" # where anybody may read it
        run setpriv --reuid 65534 --regid 65534 --clear-groups "$machine/sublet" ps
        refused_1 "for root and members of group 'daemon' only"
        run -0 setpriv --reuid 65534 --regid 65534 --groups "$(getent group daemon | cut -d: -f3)" "$machine/sublet" ps -q
        run -2 "$sublet" daemon --group no-such-group
        [[ $output == *"there is no such group"* ]]
}

@test "events of a level and those that are graver" {
        daemon_start
        lodger one --mem 8G -- "$raw" --steps 512 --max 4096 --hold 60
        wait_for eval '[ "$(of one held_bytes)" -ge $((4 << 30)) ]'
        "$sublet" set one mem=2G
        run -0 "$sublet" events --level warn --since yesterday
        lines_have QUOTA_SHRANK
        run ! grep -q TENANT_CHANGED <<< "$output"
        run -0 "$sublet" events --level info
        lines_have TENANT_CHANGED
        run "$sublet" events --level loud
        one_line_and_2 'info, warn or alert'
}

@test "a recording that cannot be written is refused before it begins, with the file's name" {
        daemon_start
        run "$sublet" trace --for 60s -o /nonexistent/trace
        refused_1 '/nonexistent/trace: No such file'
        run "$sublet" trace --for 60s -o /dev/full
        refused_1 '/dev/full: No space left'
        echo mine > "$machine/mine"
        run "$sublet" trace --dir /nonexistent -o "$machine/mine"
        refused_1 'no daemon answers'
        [ "$(cat "$machine/mine")" = mine ]
}

@test "run --detach comes back when the tenant has started; what would go to the terminal goes to a file" {
        daemon_start
        cd "$BATS_TEST_TMPDIR"
        on script -qefc "$sublet run --detach --name back --mem 1G -- sh -c 'echo it runs; sleep 60'" /dev/null < /dev/null > said 3>&-
        [ "$(tr -d '\r' < said)" = $'sublet: back: its output goes to back.log\nback' ]
        [ "$("$sublet" ps -q)" = back ]
        wait_for grep -q '^it runs$' back.log
        "$sublet" end back
        wait_for grep -q '^sublet: back: device 0: quota 1 GiB' back.log

        on "$sublet" run -d --name other --mem 1G -- sh -c 'echo said' > out 2> err 3>&-
        wait_for grep -q '^said$' out
        grep -q '^other$' out
        [ ! -e other.log ]

        # Who reads the name from a pipe does not wait for the command, which would hold it open.
        name=$(on timeout 20 "$sublet" run -d --name piped --mem 1G -- sh -c 'echo from a pipe; sleep 60' 3>&-)
        [ "$name" = piped ]
        wait_for grep -q '^from a pipe$' piped.log
        "$sublet" end piped

        run -2 on "$sublet" run -d --mem 999G -- true # as without: what is refused is said here, and nothing is left
        [[ $output == "sublet: "*"is more than device 0 has"* && ${#lines[@]} -eq 1 ]]
        run -127 on "$sublet" run -d --mem 1G -- /nonexistent/program
        [ "$output" = "sublet: program: it has not started: see program.log" ]
        grep -q '^sublet: .*/nonexistent/program' program.log
        [ -z "$("$sublet" ps -q)" ]
}

@test "run --gpu takes a device's UUID, the beginning of one, and its PCI address; others are bad use" {
        daemon_start
        for name in GPU-7375626c-6574-4073-806d-000000000000 GPU-7375626c 0000:01:00.0 01:00.0 0; do
                run -0 on "$sublet" run --gpu "$name" --mem 1G -- true
                [ "$output" = "sublet: true: device 0: quota 1 GiB, peak 0 B" ]
        done
        for name in GPU-nobody 00:99.0 7; do
                run -2 on "$sublet" run --gpu "$name" --mem 1G -- true
                [[ $output == "sublet: --gpu $name: "*"device"* && ${#lines[@]} -eq 1 ]]
        done
}

@test "run --wait does not wait for more than the device has: that is bad use, with a daemon and without" {
        daemon_start
        for how in --wait --no-daemon; do
                run -2 on timeout 20 "$sublet" run "$how" --mem 999G -- touch "$machine/started"
                [[ ${#lines[@]} -eq 1 && $output == "sublet: "*"999G is more than device 0 has ("* ]]
                [ ! -e "$machine/started" ]
        done
}

@test "run --wait waits for room, says for what, and gives up when its time is over" {
        daemon_start
        lodger one --mem 60G -- sleep 60
        run on "$sublet" run --wait=1s --mem 8G -- true
        [ "$status" -eq 125 ] && [[ ${lines[0]} == "sublet: waiting for room: "* ]]
        SUBLET_SIM=$machine_dir LD_PRELOAD=$machine_preload LD_LIBRARY_PATH=$machine_libraries \
                "$sublet" run --wait --name two --mem 8G -- true 3>&- > "$machine/two" 2>&1 &
        supervisor=$!
        wait_for grep -q 'waiting for room' "$machine/two"
        "$sublet" end one
        wait "$supervisor"
        [ "$(grep -c 'waiting for room' "$machine/two")" -eq 1 ]
}

@test "top as text shows time, memory, share, and the device" {
        daemon_start
        lodger one --mem 8G --share 30 -- "$load_program" -t 30 deep
        wait_for eval '[ "$(of one granted_permille)" -gt 500 ]'
        run -0 env LC_ALL=C.UTF-8 COLUMNS=80 "$sublet" top -b -n 2 -d 1100ms
        lines_have '^sublet top .* 1 tenant'
        lines_have '^0  .* turns|slices|strict|auto|none'
        lines_have '^one +0 █+.* [0-9.]+% +30\.0% +[0-9.]+[KMG]/8G +0 .*[▁▂▃▄▅▆▇█]$'
        [ "$(grep -c '^TENANT' <<< "$output")" -eq 2 ]
        [ "$(awk '{ print length }' <<< "$output" | sort -n | tail -1)" -le 240 ]
        run -0 env LC_ALL=C COLUMNS=80 "$sublet" top --once
        [ -z "$(LC_ALL=C grep '[^ -~]' <<< "$output")" ]
        [ "$(awk '{ print length }' <<< "$output" | sort -n | tail -1)" -le 80 ]
        lines_have '^   [0-9]+ C   [0-9]+ of 700 W   [0-9]+ MHz$'
        wait_for eval '[ "$(of one pid)" -gt 0 ]'
        run -0 env LC_ALL=C COLUMNS=60 "$sublet" top --once -p
        lines_have "^  $(of one pid) gpu-load +[0-9.]+[KMG]\$"
        [ "$(awk '{ print length }' <<< "$output" | sort -n | tail -1)" -le 60 ]
        run -0 "$sublet" ps
        lines_have "^one +$(id -un) +$(of one pid) +0 "
        # The daemon remembers the minute before top began.
        wait_for eval '[ "$("$sublet" top --json -n 1 | jq ".tenants[0].devices[0].minute_permille | length")" -gt 2 ]'
}

@test "ps and usage leave out whole columns in a narrow terminal, and none in a pipe" {
        daemon_start
        lodger one --mem 8G -- "$load_program" -t 30 deep
        for verb in ps usage; do
                wait_for eval '"$sublet" $verb | grep -q "^one "'
                for columns in 60 80; do
                        run -0 env -u COLUMNS script -qefc "stty cols $columns; exec $sublet $verb" /dev/null
                        lines_have '^TENANT '
                        lines_have '^one '
                        [ "$(tr -d '\r' <<< "$output" | awk '{ print length }' | sort -n | tail -1)" -le $columns ]
                done
        done
        run -0 env COLUMNS=60 "$sublet" ps
        lines_have '^TENANT .* PROCESSES  COMMAND$'
        run -0 env COLUMNS=300 script -qefc "stty cols 60; exec $sublet ps" /dev/null
        [[ $output == *" PROCESSES  COMMAND"* ]]
        run -0 env COLUMNS=60 "$sublet" usage
        lines_have '^TENANT .*  FROM  *TO'
}

# at_terminal ROWS COLUMNS TERM KEYS: top with these keys half a second apart; what it drew is in $output
at_terminal() {
        local i keys=$4
        run bash -c "(sleep 1; $(for ((i = 0; i < ${#keys}; i++)); do printf 'printf %%s %q; sleep 0.4; ' "${keys:i:1}"; done)) |
                LC_ALL=C.UTF-8 TERM=$3 timeout 20 script -qefc 'stty rows $1 cols $2; exec $sublet top -d 200ms' /dev/null"
}

@test "top on a terminal draws, sorts, and ends with q, leaving it as it was" {
        daemon_start
        lodger one --mem 8G -- sleep 60
        lodger two --mem 4G -- sleep 60
        at_terminal 24 80 xterm-256color 'srjq'
        [ "$status" -eq 0 ]
        [[ $output == *TENANT*"LAST MINUTE"* ]]
        [[ $output == *one*two* ]]
        [[ $output == *"q quit"* ]]
        [[ $output == *$'\e[?1049h'*$'\e[?1049l'* ]]
        at_terminal 10 40 vt100 'q'
        [ "$status" -eq 0 ]
        [[ $output != *$'\e[3'[0-9]m* ]]
        at_terminal 24 80 no-such-terminal 'q'
        [ "$status" -eq 1 ]
        [[ $output == *"TERM=no-such-terminal"*"top -b"* ]]
}

@test "in top, ? says the keys, / hides the others, and e ends the chosen one after a question" {
        daemon_start
        lodger one --mem 8G -- sleep 60
        lodger two --mem 4G -- sleep 60
        at_terminal 24 80 xterm-256color '?q'
        [[ $output == *"only tenants with this word"* ]]
        at_terminal 24 80 xterm-256color $'/TWO\renq'
        [[ $output == *"end two, and kill its processes? y: yes"* ]]
        [ "$("$sublet" ps -q | sort | xargs)" = "one two" ] # not y
        at_terminal 24 80 xterm-256color $'/TWO\reyq'
        wait_for eval '[ "$("$sublet" ps -q)" = one ]'
}

@test "top waits for a daemon that is replaced, and says so meanwhile" {
        local top
        daemon_start
        lodger one --mem 8G -- sleep 60
        (sleep 8; printf q) | LC_ALL=C.UTF-8 TERM=xterm timeout 30 script -qefc "stty rows 24 cols 100; exec $sublet top -d 200ms" \
                /dev/null > "$machine/drawn" 3>&- &
        top=$!
        wait_for grep -q TENANT "$machine/drawn"
        daemon_end KILL
        wait_for grep -q 'no daemon answers' "$machine/drawn"
        daemon_start
        wait "$top"
        [ "$(of one state)" = running ]
}

# ---- hostile --------------------------------------------------------------------------------------

@test "a command's name cannot steer the operator's terminal" {
        daemon_start
        printf '#!/bin/sh\nexec sleep 60\n' > "$machine/"$'\e[2J\e]0;x\a'
        chmod +x "$machine/"$'\e[2J\e]0;x\a'
        lodger one --mem 8G -- "$machine/"$'\e[2J\e]0;x\a'
        for verb in ps "ps -a" usage events "top --once"; do
                # shellcheck disable=SC2086
                run -0 "$sublet" $verb
                [[ $output != *$'\e'* ]]
        done
}
