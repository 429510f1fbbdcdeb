#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The attacks (tests/hostile) on how a request is spelt and where it lies: each first without a gate, where it comes
# past the quota, and then as a tenant. What counts is the device's own figure, read from outside.
# variants: plain, because the programs are not built with a sanitizer and the claim is about the device
bats_require_minimum_version 1.5.0
load ../machine
load ../attacks

@test "requests of every type byte, direction and upper half take the quota and no more" {
        stops spelling-type
}

@test "requests inside requests take the quota and no more" {
        stops spelling-xfer
}

@test "requests inside requests inside requests carry nothing; one level takes the quota and no more" {
        stops spelling-nested
        [[ $said == *'nested mib=0'* ]]
}

@test "requests on a number that moves between the driver and other files take the quota and no more" {
        keeps spelling-swapped
        [ "$(field NOT_THE_DRIVER)" -gt 0 ]
}

@test "requests of an io_uring carry nothing" {
        stops spelling-uring
        [[ $said == *'by io_uring mib=0'* ]]
}

@test "every request without a rule is seen by the gate, whatever its number, size and type, and refused" {
        stops spelling-unknown
        [[ $said == *' succeeded=0'* ]]
        [ "$(field UNKNOWN_REQUEST)" -eq "$(value sent "$said")" ]
        [ "$(value sent "$said")" -gt 4000 ]
}

@test "what is larger than the gate takes is refused, and said" {
        stops bounds
        [[ $said == *' succeeded=0'* ]]
        [ "$(field DENIED)" -eq "$(value sent "$said")" ]
}

@test "parameters that change while a call is decided take the quota and no more" {
        stops block-changed
}

@test "blocks whose second page is taken away take the quota and no more" {
        stops block-unmapped
}

# What would hang does so for 40 s: then the program lets go.
@test "parameters in memory that never comes delay no other call, and the quota holds" {
        stops block-silent
        [ "$(value waiting "$said")" -gt 100 ]
        [ "$(value slowest_ms "$said")" -lt 30000 ]
}

# hold_back: somebody who takes a descriptor at the socket $HOLDER and keeps it
hold_back() {
        export HOLDER=$machine/holder
        /usr/bin/python3 - "$HOLDER" << 'END' 3>&- &
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(1)
kept = socket.recv_fds(listener.accept()[0], 1, 1)
time.sleep(120)
END
        holder=$!
        wait_for test -S "$HOLDER"
}

# Positive control: with END_MAX in gate/supervisor.c without effect the tenant does not end.
@test "a tenant that has ended is over, although its gate waits for memory that somebody else keeps back" {
        local holder
        hold_back
        run timeout --kill-after=5 60 \
                env SUBLET_SIM="$machine_dir" LD_PRELOAD="$machine_preload" LD_LIBRARY_PATH="$machine_libraries" \
                "$sublet" run --mem "${QUOTA}M" -- "$plain/tests/hostile/attack-block-kept"
        kill "$holder"
        [[ $output != *cannot=* ]] || skip "${output#*cannot=}"
        [[ $output == *waiting=1* ]]
        [ "$status" -eq 0 ]
        wait_for all_back
}

# Whoever keeps the file is no tenant; the first is the positive control.
@test "nothing of a tenant's is left in the driver's list of events, whoever keeps the file that it was made on" {
        local attack=$plain/tests/hostile/attack-listens-kept
        run -0 on "$attack" env
        [[ $output == *'took=2000 left=2000'* ]]
        run -0 on "$attack" "$sublet" run -q --no-daemon --mem 256M --
        [[ $output == *'took=2000 left=0'* ]] || { echo "$output"; false; }
        export SUBLET_ATTACK_CLIENT=there
        run -0 on "$attack" env
        [[ $output == *'took=2000 left=2000'* ]]
        run -0 on "$attack" "$sublet" run -q --no-daemon --mem 256M --
        [[ $output == *'took=2000 left=0'* ]] || { echo "$output"; false; }
}

# A thread of the gate's waits for memory that somebody else keeps back. The first is the positive control.
@test "nothing of it is left there either if the gate's end has to leave a thread behind" {
        local attack=$plain/tests/hostile/attack-listens-kept stuck=$plain/tests/hostile/attack-block-kept holder
        # shellcheck disable=SC2016 # for the inner shell
        local both='"$0" >&2; exec "$@"'
        hold_back
        run -0 --separate-stderr on "$attack" sh -c "$both" true
        [[ $output == *'took=2000 left=2000'* ]]
        run -0 --separate-stderr on "$attack" "$sublet" run -q --no-daemon --mem 2G -- sh -c "$both" "$stuck"
        kill "$holder"
        # shellcheck disable=SC2154 # bats sets it
        [[ $stderr != *cannot=* ]] || skip "${stderr#*cannot=}"
        [[ $stderr == *waiting=1* ]] || { echo "$stderr"; false; }
        [[ $output == *'took=2000 left=0'* ]] || { echo "$output"; false; }
}

# What the attack counts itself: no figure of the device has it
@test "a tenant has a bounded part of the driver's list of events, which all share" {
        SETTLE_MSEC=100 attack listens-many on
        [ "$(value listening "$said")" -gt 50000 ] || { echo "no attack: $said"; return 1; }
        attack listens-many tenant --mem "${QUOTA}M" --
        [ "$(value listening "$said")" -le 16384 ]
        [ "$(value listening "$said")" -gt 12000 ]
        [ "$(value again "$said")" = 1 ]
        [ "$(field DENIED)" -gt 0 ]
}

# UVM's host memory is no figure of the device either.
@test "semaphore pools of UVM take the quota of host memory and no more" {
        SETTLE_MSEC=100 attack pools-many on
        [[ $said == *'large=1'*'pools mib=4096'* ]] || { echo "no attack: $said"; return 1; }
        attack pools-many tenant --mem "${QUOTA}M" --host-mem 256M --
        [ "$(sed -n 's/^pools mib=//p' <<< "$said")" -le 256 ]
        [ "$(sed -n 's/^pools mib=//p' <<< "$said")" -gt 128 ]
        [ "$(field HOST_REFUSED)" -gt 0 ]
        [ "$(value large "$said")" = 0 ]
        [ "$(field DENIED)" -gt 0 ] # or the one that was too large would be refused without a word
        books_are_empty
}

# Whoever has the space in his socket is no tenant; the first is the positive control.
@test "a VA space that its gate has let go of keeps no range groups, wherever its descriptor is" {
        local attack=$plain/tests/hostile/attack-groups-hidden
        run -0 on "$attack" env
        [[ $output == *'took=3000 left=3000'* ]] || { echo "$output"; false; }
        run -0 on "$attack" "$sublet" run -q --no-daemon --mem 1G --
        [[ $output == *'took=3000 left=0'* ]] || { echo "$output"; false; }
}

# Nor is this.
@test "range groups of UVM are bounded, and those that end make room" {
        SETTLE_MSEC=100 attack groups-of-ranges on
        [[ $said == *'groups=40000 '* ]] || { echo "no attack: $said"; return 1; }
        attack groups-of-ranges tenant --mem "${QUOTA}M" --
        [ "$(value groups "$said")" -le 16384 ]
        [ "$(value groups "$said")" -gt 16000 ] # a stream of libcuda's has one
        [ "$(value again "$said")" = "$(value groups "$said")" ]
        [ "$(field DENIED)" -gt 0 ]
        books_are_empty
}

# Nor this, which a filter once left to the kernel.
@test "ranges of UVM into which nothing is mapped are bounded, and those that end make room" {
        SETTLE_MSEC=100 attack ranges-many on
        [[ $said == *'ranges=90000 '* ]] || { echo "no attack: $said"; return 1; }
        attack ranges-many tenant --mem "${QUOTA}M" --
        [ "$(value ranges "$said")" -le $((65536 + QUOTA)) ]
        [ "$(value ranges "$said")" -gt $((65000 + QUOTA)) ] # a context has some
        [ "$(value again "$said")" = "$(value ranges "$said")" ]
        [ "$(field DENIED)" -gt 0 ]
        books_are_empty
}

# What a mode does is the device's: the simulator takes all of them, and preempts all the same.
@test "no context may keep others waiting until its kernels end: it is preempted as CUDA asks, or between blocks with graphics" {
        SETTLE_MSEC=100 attack preemption-modes on
        [ "$(value taken "$said")" -gt 20 ] || { echo "no attack: $said"; return 1; }
        attack preemption-modes tenant --mem "${QUOTA}M" --
        [ "$(value taken "$said")" = 1 ]
        [ "$(field DENIED)" -gt 0 ]
        attack preemption-modes tenant --mem "${QUOTA}M" --capabilities compute,utility,graphics --
        [ "$(value taken "$said")" = 2 ]
}
