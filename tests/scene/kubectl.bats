#!/usr/bin/env bats
# kubectl sublet, with a kubectl that says what it is told to.
bats_require_minimum_version 1.5.0

build=${SUBLET_PLAIN:-${SUBLET_BUILD:-$(cd "$BATS_TEST_DIRNAME/../../build" && pwd)}}

setup() {
        cd "$BATS_TEST_TMPDIR" || return 1
        ln -s "${SUBLET_BUILD:-$build}/src/sublet" kubectl-sublet
        cat > kubectl << 'END'
#!/bin/sh
echo "$@" >> asked
cat "$2.json"
END
        chmod +x kubectl
        export PATH=$PWD:$PATH
        echo '{"items":[{"metadata":{"name":"n1"},"status":{"allocatable":{"sublet.dev/gpu-mem":"160","sublet.dev/gpu-count":"2"}}},{"metadata":{"name":"cpu"}}]}' > nodes.json
        echo '{"items":[{"metadata":{"name":"chat","namespace":"a","uid":"1","annotations":{"sublet.dev/allocation":"{\"containers\":{\"main\":{\"device\":1}}}"}},"spec":{"nodeName":"n1","containers":[{"name":"main","resources":{"limits":{"sublet.dev/gpu-mem":"48","sublet.dev/gpu-share":"60"}}}]}}]}' > pods.json
}

@test "each device of the cluster with what is rented of it, and to whom" {
        run kubectl-sublet --context=other
        [ "$status" -eq 0 ]
        [[ ${lines[1]} =~ ^n1\ +0\ +0\ B\ /\ 80\ GiB\ +0% ]]
        [[ ${lines[2]} =~ ^n1\ +1\ +48\ GiB\ /\ 80\ GiB\ +60%\ +healthy\ a/chat:main\ 48\ GiB\ 60% ]]
        [ "${#lines[@]}" -eq 3 ]
        [ "$(grep -c -- --context=other asked)" -eq 2 ]
}

@test "a kubectl that fails is said" {
        printf '#!/bin/sh\nexit 1\n' > kubectl
        run kubectl-sublet
        [ "$status" -eq 1 ]
        [[ $output == "sublet: kubectl get nodes failed" ]]
}
