#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# tools/site, on a tree of its own: documents as HTML, and links that lead nowhere.
# variants: plain, because none of our code runs but a script
bats_require_minimum_version 1.5.0

setup() {
        tree=$BATS_TEST_TMPDIR/tree
        mkdir -p "$tree"/{tools,docs}
        cp "$BATS_TEST_DIRNAME"/../../../tools/{site,tree.py} "$tree/tools/"
        cd "$tree" || return
        git init -q .
        cat > docs/one.md << 'END'
# One & all
A `word <b>` and **strong
words**, [two](two.md#a-second-place) and [itself](#one--all).

- an item
  that goes on
  - below it
- [the tree](../tools)

| a | b |
|---|---|
| 1 | `x` |

```
<pre> **as it is**
```
<!-- not shown -->
END
        printf '# Two\n## A `second` place\nBack to [one](one.md).\n' > docs/two.md
        printf '# Top\n[one](docs/one.md)\n' > README.md
}

@test "documents become HTML that says the same, with links between the pages" {
        run tools/site out
        [ "$status" -eq 0 ]
        [ "$output" = "3 pages: $tree/out/README.html" ]
        cat out/docs/one.html
        for part in '<title>One &amp; all</title>' '<h1 id="one--all">' '<code>word &lt;b&gt;</code>' '<a href="two.html#a-second-place">two</a>' \
                '<a href="#one--all">' '&lt;pre&gt; **as it is**' '<li>an item' '<td>1</td>' '<a href="../README.html">Sublet</a>'; do
                grep -qF -- "$part" out/docs/one.html
        done
        tr '\n' ' ' < out/docs/one.html | grep -qF '<strong>strong words</strong>'
        tr '\n' ' ' < out/docs/one.html | grep -q '<li>an item that goes on <ul> <li>below it</li> </ul></li>'
        run ! grep -q "not shown" out/docs/one.html
        grep -qF '<h2 id="a-second-place">' out/docs/two.html
}

@test "a link to no file, and one to no heading, are named with their line" {
        run -0 tools/site --check
        [ -z "$output" ]
        printf '\n[a](none.md) [b](two.md#nothing)\n' >> docs/one.md
        run -1 tools/site --check
        [ "${lines[0]}" = 'docs/one.md:19: none.md: there is no docs/none.md' ]
        [ "${lines[1]}" = 'docs/one.md:19: two.md#nothing: docs/two.md has no heading of that name' ]
        run -2 tools/site
        [ "${#lines[@]}" -eq 1 ]
}

# compared PAGE: its tables' figures that are not in the raw output that their row names, and cells that say nothing
compared() {
        /usr/bin/python3 - "$1" "$BATS_TEST_DIRNAME/../../../bench/results" << 'END'
import os, re, sys
page, results = sys.argv[1:]
rows = [[c.strip() for c in line.strip('|\n').split('|')] for line in open(page) if line.startswith('|')]
rows = [r for r in rows if r[-1] not in ('raw', '---')]
files, n = [], 0
for row in rows:
    if row[-1] != 'the same':
        files = [os.path.join(results, folder, name) for folder, names in
                 (part.strip().split(': ') for part in row[-1].split(';')) for name in names.split(', ')]
    raw = [set(re.findall(r'[0-9]+(?:\.[0-9]+)*', open(f).read())) for f in files]
    for cell in row[1:-1]:
        figures = re.findall(r'[0-9.]*[0-9]', cell)
        if not figures and cell not in ('not measured', 'none'):
            print(f'{row[0]}: "{cell}" is no figure')
        for figure in figures:
            n += 1
            if not any(figure in words for words in raw):
                print(f'{row[0]}: {figure} is in none of {files}')
print(n, 'figures')
END
}

@test "each figure of the comparison is in the raw output that its row names; what has none is not measured" {
        page=$BATS_TEST_DIRNAME/../../../docs/comparison.md
        run -0 compared "$page"
        [[ $output =~ ^[4-9][0-9]" figures"$ ]]
        for way in "the driver's default" MPS MIG "a preload limiter"; do grep -q "^| what .*| $way |" "$page"; done
        sed 's/ 4281.1 / 4281.2 /; s/ 14.21 / /' "$page" > altered.md
        run -0 compared altered.md
        [ "${#lines[@]}" -eq 3 ]
        [[ $output == *'4281.2 is in none of'* && $output == *'"" is no figure'* ]]
}

@test "pictures are what top and plan print on a simulated machine" {
        build=${SUBLET_BUILD:-$BATS_TEST_DIRNAME/../../../build}
        "$BATS_TEST_DIRNAME/../../../tools/pictures" --no-page "$build" "$BATS_TEST_TMPDIR/pictures" 3>&-
        cd "$BATS_TEST_TMPDIR/pictures"
        cat top.svg plan.svg
        for picture in top plan; do
                /usr/bin/python3 -c 'import sys, xml.etree.ElementTree as x; x.parse(sys.argv[1])' "$picture.svg"
        done
        for name in chat embed train; do grep -q ">$name  *0 .*%" top.svg; done
        grep -q 'GPU 0  H200' plan.svg
}
