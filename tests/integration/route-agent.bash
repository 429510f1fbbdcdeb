# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154  # what route.bash sets
# `sublet route` in a directory of the test's own, with a file that the test writes. Loaded after route.bash.

sublet=${SUBLET_BUILD:-$build}/src/sublet

setup() {
        dir=$(mktemp -d /tmp/sublet-agent-XXXXXX)
        pids=()
        agent=''
        me=$([ "$(id -u)" != 0 ] && id -un || echo root)
        : > "$dir/replicas"
        : > "$dir/more"
}

teardown() {
        [ -z "$agent" ] || agent_end
        [ ! -f "$dir/run/nginx.pid" ] || kill -9 "$(cat "$dir/run/nginx.pid")" 2> /dev/null || true
        for pid in "${pids[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
        wait 2> /dev/null || true
        rm -rf "$dir"
}

api() { # PATH [CURL OPTION...]
        local path=$1
        shift
        curl -sS --max-time 10 --unix-socket "$dir/run/api/api.sock" "http://router$path" "$@"
}

# configure [LINE...]: the file, from $dir/replicas and these lines; in place at once, as editors do it
configure() {
        {
                printf 'listen: unix:%s/http\nmetrics: unix:%s/prometheus\nworkers: 2\nuser: %s\nzone: 16M\n' "$dir" "$dir" "$me"
                [ $# -eq 0 ] || printf '%s\n' "$@"
                [ ! -s "$dir/replicas" ] || { echo 'replicas:' && cat "$dir/replicas"; }
        } > "$dir/config.new"
        mv "$dir/config.new" "$dir/config.yaml"
}

# listed NAME [FIELDS]: one more in the file
listed() {
        printf '%s\n' "- {name: $1, address: 'unix:$dir/$1'${2:+, $2}}" >> "$dir/replicas"
}

agent_start_only() { # [OPTION...]
        "$sublet" route --dir "$dir/run" --module "$build/src/route/nginx/ngx_http_sublet_module.so" "$@" "$dir/config.yaml" \
                >> "$dir/said" 2>&1 3>&- &
        agent=$!
}

agent_start() { # [OPTION...]
        agent_start_only "$@"
        until_ api /v1/state || { cat "$dir/said"; return 1; }
}

agent_end() {
        kill "$agent" 2> /dev/null || true
        sleep 0.1
        kill "$agent" 2> /dev/null || true
        wait "$agent" 2> /dev/null || true
        agent=''
}

state() { # REPLICA: its state, or null
        api "/v1/replicas/$1" | jq -r .state
}

said() {
        grep -qE -- "$1" "$dir/said"
}
