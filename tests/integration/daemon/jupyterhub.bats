#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Users of JupyterHub rent: the hub and its proxy of Debian with deploy/jupyterhub on a simulated machine. The hub is in
# a mount namespace where /etc/passwd has three users more.
# later: because of packages that `make deps` does not install
# variants: plain, because JupyterHub is not ours, and the simulator's library is in all its programs
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

top=$(cd "$BATS_TEST_DIRNAME/../../.." && pwd)

setup() {
        for program in jupyterhub jupyterhub-singleuser configurable-http-proxy; do
                command -v $program > /dev/null || skip "no $program here: tools/deps jupyterhub"
        done
        [ "$(id -u)" = 0 ] || skip 'the hub changes users: it needs root'
        unshare -m true 2> /dev/null || skip 'no mount namespaces here'
        machine_start --memory 24G
        daemon_start
        hub_start
}

teardown() {
        [ -z "${hub:-}" ] || { kill "$hub" 2> /dev/null && wait "$hub" 2> /dev/null; } || true
        node_end
        machine_end
}

free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

hub_start() {
        local n=0 user
        hub_dir=$machine/hub
        mkdir -p "$hub_dir"
        cp /etc/passwd /etc/group "$hub_dir/"
        for user in anna ben carl; do
                n=$((n + 1))
                mkdir -p "$hub_dir/home/$user"
                chown $((4710 + n)):$((4710 + n)) "$hub_dir/home/$user"
                echo "$user:x:$((4710 + n)):$((4710 + n))::$hub_dir/home/$user:/bin/sh" >> "$hub_dir/passwd"
                echo "$user:x:$((4710 + n)):" >> "$hub_dir/group"
        done
        chmod -R a+rwX "$machine"
        setpriv --reuid 4711 --regid 4711 --clear-groups test -x "$sublet" || skip "other users cannot reach $sublet"
        url=http://127.0.0.1:$(free_port)
        # the example, and what a test has besides: rents that fill the device, ports, the simulated machine
        cp "$top/deploy/jupyterhub/jupyterhub_config.py" "$hub_dir/config.py"
        cat >> "$hub_dir/config.py" << END
USERS["anna"] = {"mem": "12G", "share": 50}
USERS["ben"] = {"mem": "10G", "share": 25}
SUBLET = "$sublet"
c.JupyterHub.bind_url = "$url"
c.JupyterHub.hub_port = $(free_port)
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:$(free_port)"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "word"
c.JupyterHub.cleanup_servers = True
c.Spawner.environment = {"SUBLET_SIM": "$machine_dir", "LD_PRELOAD": "$machine_preload", "LD_LIBRARY_PATH": "$machine_libraries",
                         "SUBLET_DIR": "$SUBLET_DIR"}
END
        # shellcheck disable=SC2016  # for the inner shell
        (cd "$hub_dir" && exec unshare -m sh -c 'mount --make-rprivate / && mount --bind passwd /etc/passwd && mount --bind group /etc/group &&
                PATH=/usr/bin:/bin NODE_PATH=/usr/share/nodejs exec jupyterhub -f config.py') > "$hub_dir/log" 2>&1 3>&- &
        hub=$!
        wait_for eval 'curl -sf "$url/hub/login" || ! kill -0 "$hub"'
        curl -sf -o /dev/null "$url/hub/login" || { tail -n 20 "$hub_dir/log"; return 1; }
}

user() { # USER COMMAND
        /usr/bin/python3 "$BATS_TEST_DIRNAME/jupyterhub.py" "$url" "$@" 3>&-
}

@test "each user's server has its quota and share; who does not fit is told so on the page" {
        run user anna "$plain/src/sim/nvml/nvidia-smi"
        echo "$output"
        [[ $status -eq 0 && $output == *' 12288MiB '* ]] || { tail -n 40 "$hub_dir/log"; return 1; }
        run user ben "$plain/src/sim/nvml/nvidia-smi"
        echo "$output"
        [[ $status -eq 0 && $output == *' 10240MiB '* ]]
        [ "$("$sublet" ps --json | jq -c '[.[] | [.tenant, .uid, .devices[0].share_permille]] | sort')" = '[["anna",4711,500],["ben",4712,250]]' ]
        run user carl "$plain/src/sim/nvml/nvidia-smi"
        grep -A 1 '<p>' <<< "$output" || true
        [[ $status -eq 1 && $output == 409*'sublet: 8 GiB of memory on device 0 do not fit: at most 2 GiB are free'* ]]
        [ "$("$sublet" ps -q | wc -l)" -eq 2 ]
}
