# SPDX-License-Identifier: Apache-2.0
# Completion for fish. As in sublet.bash, the program is asked: verbs, options and words come from its help, tenants from
# its daemon, events from `explain`.
function __sublet_verbs
    sublet help 2>/dev/null | string replace -rf '^  ([a-z][a-z-]*)  *(.*)$' '$1\t$2'
    printf 'help\tsay what a verb does\n'
end

function __sublet_verb
    set -l words (commandline -opc)
    test (count $words) -gt 1; and echo $words[2]
end

function __sublet_options
    sublet (__sublet_verb) --help 2>/dev/null | string match -rag -- '--[a-z][a-z-]*' | sort -u
end

function __sublet_words
    set -l verb (__sublet_verb)
    set -l words (commandline -opc)
    switch $verb
        case explain
            sublet explain 2>/dev/null | string replace -rf '^  ([A-Z_]+) .*$' '$1'
        case set end suspend resume usage events inspect
            if test $verb = set -a (count $words) -gt 2
                sublet set --help 2>/dev/null | string match -ra '\b[a-z]+=' | sort -u
            else
                sublet ps -q 2>/dev/null
            end
        case '*'
            sublet $verb --help 2>/dev/null | string replace -rf "^.*sublet $verb ([a-z]+)( .*)?\$" '$1'
    end
end

function __sublet_has_command
    contains -- -- (commandline -opc)
end

complete -c sublet -n 'test (count (commandline -opc)) -eq 1' -f -a '(__sublet_verbs)'
complete -c sublet -n 'test (count (commandline -opc)) -gt 1; and not __sublet_has_command; and string match -q -- "-*" (commandline -ct)' -f -a '(__sublet_options)'
complete -c sublet -n 'test (count (commandline -opc)) -gt 1; and not __sublet_has_command' -a '(__sublet_words)'
complete -c sublet -n '__sublet_has_command' -f -a '(__fish_complete_subcommand --fcs-skip=(contains -i -- -- (commandline -opc)))'
