#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# docs/tour.md is followed word by word, by a user who is not root where the build can be read by one.
# variants: plain, because the page's figures of time are those of a machine that is not slowed down
bats_require_minimum_version 1.5.0
load ../machine

setup() {
        place=$(mktemp -d /tmp/sublet-tour-XXXXXX)
        ln -s "$build" "$place/build"
        cp "$BATS_TEST_DIRNAME/../../tour" "$place/follow"
        chmod -R a+rX "$place"
        cd "$place" || return
        as=()
        if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups "$sublet" --version > /dev/null 2>&1; then
                as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
        fi
}

teardown() {
        rm -rf "$place"
}

# follow PAGE: its output is that of tests/tour
follow() {
        "${as[@]}" env -i PATH="$PATH" HOME=/ SUBLET_TEST="${SUBLET_TEST:-}" ./follow "$1" 3>&-
}

@test "each command of the tour prints what the page shows, on 60 columns, without root and without a GPU" {
        cp "$BATS_TEST_DIRNAME/../../../docs/tour.md" tour.md
        run follow tour.md
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(grep -c '^ok ' <<< "$output")" -ge 25 ]
        [[ $output != *'not ok'* ]]
}

@test "a page that shows something else, or is too wide, is found out" {
        cat > page.md << 'END'
<!-- volatile: 12.5 -->
```
$ echo 99 of 7
12.5 of 7
$ echo a \
> b; false
a b
$ echo $?
1
```
<!-- volatile: 12.5 -->
```
$ echo 99 of 8
12.5 of 7
```
This line has more than sixty columns, which is too much for it.
```
$ echo one two three
one ... three
$ echo one
```
END
        run follow page.md
        echo "$output"
        [ "$status" -eq 1 ]
        [ "$(sed -n 's/^\(not \)*ok.*/\1-/p' <<< "$output" | tr -d '\n ')" = not----not--not- ]
}

@test "a tenant of a plain user's daemon ends with empty books, though the shims of that user hide their descriptors" {
        cat > "$place/script" << 'END'
export SUBLET_DIR=$(mktemp -d)
cd "$SUBLET_DIR"
sublet daemon > log 2>&1 &
until sublet ps > list 2>&1; do sleep 0.1; done
sublet run -q --name beside --mem 8G -- sleep 300 > log2 2>&1 &
until sublet ps -q | grep -qx beside; do sleep 0.1; done
sublet run -q --name short --mem 2G -- sublet sim load grab
until sublet events --json short | grep -q TENANT_ENDED; do sleep 0.1; done
sublet events short
sublet end beside
kill %1
wait
rm -rf "$SUBLET_DIR"
END
        run "${as[@]}" env -i PATH="$place/build/src:$PATH" HOME=/ SUBLET_TEST="${SUBLET_TEST:-}" \
                timeout 100 "$sublet" sim -- bash "$place/script" 3>&-
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *TENANT_ENDED* && $output != *BOOKS_NOT_EMPTY* ]]
}
