#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""p99 against throughput, of the rows of latency.sh: a panel for each mix that was measured in more than one way, a
point a way. To the right is more work (the sum of what each service did, of one alone), down is a shorter wait (the
longest p99 of its services, in ms, on a logarithmic scale).

    latency_plot.py ROWS.tsv OUT.svg
"""
import collections
import html
import math
import sys

COLOURS = {"native": "#888", "default": "#c44", "mps": "#d90", "ours": "#27b", "spatial": "#293", "group": "#728"}
COLUMNS, WIDTH, HEIGHT, LEFT, TOP = 3, 300, 220, 44, 30


def points(rows):
    """{what: {way: (sum of parts of one alone, longest p99)}}, of mixes that more than one way has."""
    mixes = collections.defaultdict(lambda: collections.defaultdict(lambda: [0.0, 0.0]))
    for way, what, _, _, _, p99, _, part in rows:
        point = mixes[what][way]
        point[0] += float(part)
        point[1] = max(point[1], float(p99))
    return {what: ways for what, ways in mixes.items() if len(ways) > 1 and all(p99 > 0 for _, p99 in ways.values())}


def span(values, least):
    low, high = min(values), max(values)
    room = max((high - low) * 0.15, least)
    return low - room, high + room


def ticks(low, high):
    return [t * 10 ** e for e in range(-2, 5) for t in (1, 2, 5) if low <= math.log10(t * 10 ** e) <= high]


def panel(what, ways, x0, y0):
    w, h = WIDTH - LEFT - 12, HEIGHT - TOP - 34
    left, right = span([x for x, _ in ways.values()], 0.05)
    low, high = span([math.log10(y) for _, y in ways.values()], 0.15)
    at = lambda x, y: (x0 + LEFT + (x - left) / (right - left) * w, y0 + TOP + (high - math.log10(y)) / (high - low) * h)
    out = [f'<text x="{x0 + LEFT}" y="{y0 + 18}" class="what">{html.escape(what)}</text>',
           f'<rect x="{x0 + LEFT}" y="{y0 + TOP}" width="{w}" height="{h}" fill="none" stroke="#bbb"/>']
    for tick in ticks(low, high):
        y = at(left, tick)[1]
        out.append(f'<path d="M{x0 + LEFT} {y:.1f}h{w}" stroke="#eee"/>'
                   f'<text x="{x0 + LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{tick:g}</text>')
    for x in (left + (right - left) * k / 4 for k in range(5)):
        out.append(f'<text x="{at(x, 10 ** low)[0]:.1f}" y="{y0 + TOP + h + 13}" text-anchor="middle">{x:.2f}</text>')
    for way, (x, y) in ways.items():
        px, py = at(x, y)
        colour = COLOURS.get(way, "#000")
        out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}"/>'
                   f'<text x="{px + 6:.1f}" y="{py - 5:.1f}" fill="{colour}">{html.escape(way)}</text>')
    return out


def main(source, target):
    with open(source, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    mixes = points([row for row in rows if len(row) == 8])
    lines = (len(mixes) + COLUMNS - 1) // COLUMNS
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * WIDTH}" height="{lines * HEIGHT + 24}" '
           'font-family="sans-serif" font-size="9"><style>.what{font-size:11px;font-weight:bold}</style>'
           '<rect width="100%" height="100%" fill="#fff"/>']
    for i, (what, ways) in enumerate(mixes.items()):
        out += panel(what, ways, i % COLUMNS * WIDTH, i // COLUMNS * HEIGHT)
    out.append(f'<text x="{LEFT}" y="{lines * HEIGHT + 14}">across: work, of one alone; up: the longest p99, ms</text></svg>')
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
