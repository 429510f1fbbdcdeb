# SPDX-License-Identifier: Apache-2.0
"""What the tools know of the tree: files, rooms, C without comments, functions, objects.

A room is a directory below src/ with a row in src/meson.build's `sees`, or with a meson.build of its
own. A file belongs to the nearest room above it.
"""
import bisect
import json
import os
import re
import subprocess
import sys
from collections import namedtuple

sys.dont_write_bytecode = True
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))

Function = namedtuple('Function', 'path name line length static')
Object = namedtuple('Object', 'path source symbols needs')  # symbols: (name, section, is function, is external)

# What a driver, a fuzzer or a benchmark wrote.
RECORDED = r'^(bench/(results|traces)|tests/fuzz/corpus|tests/trace/[^/]+)/'
_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)


def run(*command, data=None):
    """What a program prints; an error of it is ours."""
    return subprocess.run(command, input=data, check=True, stdout=subprocess.PIPE, text=True, errors='replace').stdout


def files(pattern='.'):
    """Paths that are tracked, or new and not ignored, and match."""
    listed = run('git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard').split('\0')
    return sorted(f for f in set(listed) if f and re.search(pattern, f) and os.path.isfile(f))


def read(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read()


def without_comments(text, strings=True):
    """C with its comments (and its strings) blanked out: lines and columns stay."""
    def blank(match):
        token = match.group()
        if token[0] == '/' or strings:
            return re.sub(r'[^\n]', ' ', token)
        return token
    return _TOKEN.sub(blank, text)


def comments(text):
    """(line, column after it, text) of each line of each C comment."""
    ends = [m.start() for m in re.finditer('\n', text)]
    for match in _TOKEN.finditer(text):
        if match.group()[0] != '/':
            continue
        at = match.start()
        for part in match.group().split('\n'):
            line = bisect.bisect_left(ends, at)
            begin = ends[line - 1] + 1 if line else 0
            yield line + 1, at - begin + len(part), part
            at += len(part) + 1


def rooms():
    """Directories below src/, by their rows and their meson.build."""
    rows = re.findall(r"^\s*'([\w/-]+)':\s*\[", read('src/meson.build'), re.M)
    own = [os.path.dirname(f)[4:] for f in files(r'^src/.+/meson\.build$')]
    return {r for r in rows + own if os.path.isdir('src/' + r)}


def room_of(path, known):
    """The room of a path below src/; '' for src/ itself."""
    room = os.path.dirname(path[4:])
    while room and room not in known:
        room = os.path.dirname(room)
    return room


def functions(paths):
    """Every function that is defined in C, by universal-ctags."""
    tags = run('ctags', '-f', '-', '-u', '--languages=C', '--langmap=C:.c.h', '--kinds-C=f', '--fields=+ne', '-L', '-',
               data='\n'.join(paths))
    for tag in tags.splitlines():
        name, path, rest = tag.split('\t', 2)
        line, end = re.search(r'\tline:(\d+)', rest), re.search(r'\tend:(\d+)', rest)
        if line and end:
            first = int(line.group(1))
            yield Function(path, name, first, int(end.group(1)) - first + 1, '\tfile:' in rest)


def objects(build):
    """The objects of a build that are there, with their symbols and whose they need."""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
        commands = json.load(file)
    root = os.path.realpath(os.path.join(build, '..'))
    found = {}
    for command in commands:
        path = os.path.join(build, command['output'])
        if os.path.isfile(path):
            source = os.path.realpath(os.path.join(command['directory'], command['file']))
            if not os.path.isfile(source):
                sys.exit(f'{build} is older than the tree, which has no {os.path.relpath(source, root)}: build it first')
            found[path] = Object(path, os.path.relpath(source, root), [], set())
    here = None
    for line in run('objdump', '-t', '-r', *found).splitlines():
        if ':     file format' in line:
            here = found[line.split(':     file format')[0]]
        elif match := re.match(r'[0-9a-f]{16} R_\S+\s+([A-Za-z_]\w*)', line):
            here.needs.add(match.group(1))
        elif match := re.match(r'[0-9a-f]{16} (.{7}) (\S+)\t[0-9a-f]+ (?:\.hidden )?(\S+)$', line):
            flags, section, name = match.groups()
            if section == '*UND*':
                here.needs.add(name)
            elif flags[6] in 'FO':
                here.symbols.append((name.split('@')[0], section, flags[6] == 'F', flags[0] in 'gu' or flags[1] == 'w'))
    return list(found.values())


def exports(build):
    """What shared libraries of the build show to the outside."""
    found = set()
    for folder, _, names in os.walk(build):
        for name in names:
            if '.so' in name and not os.path.islink(path := os.path.join(folder, name)) and '.p/' not in path:
                for line in run('nm', '-D', '--defined-only', path).splitlines():
                    found.add(line.split()[-1].split('@')[0])
    return found
