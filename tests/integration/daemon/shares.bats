#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What tests/gpu/time.sh counts shares with: an error that is there is seen, and none that is not.
# variants: plain, because it is about a script
bats_require_minimum_version 1.5.0

setup() {
        cd "$BATS_TEST_DIRNAME/../../.." || return 1
        work=$BATS_TEST_TMPDIR
}

# pieces FILE FIRST-MS LENGTH-MS PERIOD-MS: pieces of 100 us for 4 s, in windows of that length
pieces() {
        /usr/bin/python3 - "$@" << 'END'
import array, sys
path, first, length, period = sys.argv[1], *map(int, sys.argv[2:])
times = array.array("Q", (10**12 + (at * 10 + piece) * 100_000
        for start in range(first, 4000, period) for at in range(start, start + length) for piece in range(10)))
with open(path, "wb") as file:
        times.tofile(file)
END
}

@test "windows of 35 and 15 ms are a share of 70 and 30, over 1 s and over 100 ms" {
        pieces "$work/a" 0 35 50
        pieces "$work/b" 35 15 50
        run -0 /usr/bin/python3 tests/gpu/shares.py row 0.5 9 "$work/a,100,1,70" "$work/b,100,1,30"
        [[ $output == "shares=70."*",30."*" err1s=0.0"*" err100ms=0."*" worst="*" sum=1.0"* ]] || [[ $output == "shares=69.9"*",30.0"*" err1s=0.0"* ]]
}

@test "a share one point off is detected, with the tenant that has it" {
        pieces "$work/a" 0 71 100
        pieces "$work/b" 71 29 100
        run -0 /usr/bin/python3 tests/gpu/shares.py row 0.5 9 "$work/a,100,1,70" "$work/b,100,1,30"
        [[ $output == *" err1s=1."* || $output == *" err1s=0.9"* ]]
}

@test "turns of 1 s are fair in the long run only" {
        pieces "$work/a" 0 1000 2000
        pieces "$work/b" 1000 1000 2000
        run -0 /usr/bin/python3 tests/gpu/shares.py row 0 9 "$work/a,100,1,50" "$work/b,100,1,50"
        [[ $output == *" err1s=50.00 err100ms=50.00 "* ]]
}

@test "a tenant that did nothing at all fails the row" {
        pieces "$work/a" 0 50 50
        : > "$work/b"
        run -0 /usr/bin/python3 tests/gpu/shares.py row 0 9 "$work/a,100,1,50" "$work/b,100,1,50"
        [[ $output == *"err1s=100 err100ms=100"* ]]
}

@test "what a tenant computed leaves out the time in which it was off" {
        pieces "$work/a" 0 35 50
        run -0 /usr/bin/python3 tests/gpu/shares.py busy "$work/a" 100
        [[ $output == 2.8* ]]
        run -0 /usr/bin/python3 tests/gpu/shares.py rate "$work/a" 100
        [[ $output == 0.70* ]]
        run -0 /usr/bin/python3 tests/gpu/shares.py cap "$work/a" 100 1 0.7
        [[ $output == "err1s=0.0"* ]]
}
