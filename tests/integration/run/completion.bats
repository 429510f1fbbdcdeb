#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bash offers after `sublet` and the Tab key: the words that the program itself has.
# variants: plain, because it is a script
bats_require_minimum_version 1.5.0
load ../machine
load ../daemon

setup() {
        machine_start --memory 16G
        source "$BATS_TEST_DIRNAME/../../../completions/sublet.bash"
}

teardown() {
        node_end
        machine_end
}

# offered WORD...: what Tab offers for the last of them, on one line
offered() {
        COMP_WORDS=("$sublet" "$@") COMP_CWORD=$#
        _sublet
        echo "${COMPREPLY[*]}"
}

# has WORD WORD...: the first is among what is offered for the rest
has() { [[ " $(offered "${@:2}") " == *" $1 "* ]]; }

@test "verbs are those of the help, and what is not shown is not offered" {
        [ "$(offered ev)" = events ]
        has device-plugin ''
        has run ''
        run ! has keeper ''
        [ "$(offered '' | wc -w)" -eq $(($("$sublet" help | grep -c '^  [a-z]') + 3)) ] # and help, --help, --version
}

@test "options are those of the verb's help" {
        [ "$(offered run --ma)" = --managed ]
        [ "$(offered run --mem 8G --sh)" = --share ]
        has --json ps --
        [ -z "$(offered nosuchverb --)" ]
}

@test "each verb that is shown says its options, Tab has them, and the manual has the verb" {
        for verb in $("$sublet" help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'); do
                "$sublet" "$verb" --help > "$BATS_TEST_TMPDIR/help"
                grep -q "^\.It Cm $verb\$" "$BATS_TEST_DIRNAME/../../../docs/sublet.1" || { echo "$verb is not in the manual"; false; }
                [ "$verb" = explain ] || [ -n "$(offered "$verb" --)" ] || { echo "$verb: nothing"; false; }
        done
}

@test "docs/run.md has run's options, and no others" {
        said() { grep -oE -- '--[a-z][a-z-]*' | sort -u; }
        # shellcheck disable=SC2016  # a backquote
        diff <("$sublet" run --help | grep -E '^ +-' | said | grep -vxE -- '--(help|quiet|verbose)') \
                <(sed -n '/^## Options of/,/^## [^O]/p' "$BATS_TEST_DIRNAME/../../../docs/run.md" | grep '^| `-' | cut -d'`' -f2- | said)
}

@test "after -- comes a command; what a verb is told comes first" {
        has true run --mem 8G -- tru
        [ -z "$(offered run -- true --js)" ]
        [ "$(offered oci pro)" = profile ]
        [ "$(offered cdi gen)" = generate ]
        has QUOTA_REFUSED explain QUOTA
}

@test "tenants are those of the daemon, and what can be set of them follows" {
        daemon_start
        lodger web-1 --mem 1G -- sleep 60
        [ "$(offered set we)" = web-1 ]
        [ "$(offered end web)" = web-1 ]
        [ "$(offered suspend web)" = web-1 ]
        [ "$(offered set web-1 sh)" = share= ]
        has mem= set web-1 ''
        has class= set web-1 mem=1G ''
}

@test "bash itself completes with it" {
        run -0 bash --norc -c "source '$BATS_TEST_DIRNAME/../../../completions/sublet.bash'; complete -p sublet"
        [ "$output" = 'complete -o default -F _sublet sublet' ]
}
