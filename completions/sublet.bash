# SPDX-License-Identifier: Apache-2.0
# Completion for bash. The program is asked for all of it (verbs, options and words from its help, tenants from its
# daemon, events from `explain`), so nothing here has to be kept in step with it.
# shellcheck shell=bash

_sublet() {
        local program=${COMP_WORDS[0]} verb=${COMP_WORDS[1]:-} word=${COMP_WORDS[COMP_CWORD]} help words='' i

        COMPREPLY=()
        for ((i = 2; i < COMP_CWORD; i++)); do
                if [ "${COMP_WORDS[i]}" = -- ]; then # a command of its own, then what it wants
                        [ $((i + 1)) -lt "$COMP_CWORD" ] || mapfile -t COMPREPLY < <(compgen -c -- "$word")
                        return
                fi
        done
        if [ "$COMP_CWORD" -eq 1 ]; then
                words="$("$program" help 2> /dev/null | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p') help --help --version"
        else
                help=$("$program" "$verb" --help 2> /dev/null)
        fi
        if [ "$COMP_CWORD" -gt 1 ] && [[ $word == -* ]]; then
                words=$(grep -oE -- '--[a-z][a-z-]*' <<< "$help")
        elif [ "$COMP_CWORD" -eq 2 ]; then
                words=$(sed -nE "s/^.*sublet $verb ([a-z]+)( .*)?\$/\1/p" <<< "$help")
        fi
        case $verb:$COMP_CWORD:$word in
        *:1:* | *:-*) ;;
        explain:2:*) words=$("$program" explain 2> /dev/null | sed -n 's/^  \([A-Z_]*\) .*/\1/p') ;;
        set:2:* | end:* | suspend:* | resume:* | usage:* | events:*) words+=" $("$program" ps -q 2> /dev/null)" ;;
        set:*) # mem=SIZE and its like: the value follows at once
                words=$(grep -oE '\b[a-z]+=' <<< "$help")
                compopt -o nospace 2> /dev/null
                ;;
        esac
        [ -z "$words" ] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word" | sort -u)
}
complete -o default -F _sublet sublet
