#!/usr/bin/env python3
"""Draws test accuracy over epochs from a cells.json of run_cells.py: the mean of a cell's seeds, and lowest to highest as a band.

usage: bench/experiments/draw_curves.py CELLS.json OUT.svg "TITLE" "LABEL=CELL"...
"""

import json
import pathlib
import statistics
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 36, 44
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # as in curves.svg


def points(results, cell):
    """[(epoch, lowest, mean, highest)] in percent, at the epochs that all seeds have."""
    curves = [{round(epoch, 3): 100 * accuracy for epoch, accuracy, _ in result["curve"]} for result in results if result["cell"] == cell]
    if not curves:
        raise SystemExit(f"draw_curves: there is no cell {cell}")
    epochs = sorted(set.intersection(*(set(curve) for curve in curves)))
    columns = [(epoch, [curve[epoch] for curve in curves]) for epoch in epochs]
    return [(epoch, min(values), statistics.mean(values), max(values)) for epoch, values in columns]


def draw(title, lines):
    last = max(line[-1][0] for _, line in lines)
    floor = 10 * int(min(low for _, line in lines for _, low, _, _ in line) // 10)

    def x(epoch):
        return LEFT + (WIDTH - LEFT - RIGHT) * epoch / last

    def y(percent):
        return TOP + (HEIGHT - TOP - BOTTOM) * (100 - percent) / (100 - floor)

    def path(pairs):
        return " ".join(f"{x(epoch):.1f},{y(percent):.1f}" for epoch, percent in pairs)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="12" fill="#24292f">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>']
    for percent in range(floor, 101, 10):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(percent):.1f}" y2="{y(percent):.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 8}" y="{y(percent) + 4:.1f}" text-anchor="end">{percent} %</text>')
    for tenth in range(0, 11, 2):
        epoch = last * tenth / 10
        out.append(f'<text x="{x(epoch):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{epoch:g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">epoch</text>')
    for number, (label, line) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        band = [(epoch, high) for epoch, _, _, high in line] + [(epoch, low) for epoch, low, _, _ in reversed(line)]
        out.append(f'<polygon points="{path(band)}" fill="{colour}" opacity="0.15"/>'
                   f'<polyline points="{path([(epoch, mean) for epoch, _, mean, _ in line])}" fill="none" stroke="{colour}" stroke-width="2"/>')
        row = HEIGHT - BOTTOM - 14 - 18 * (len(lines) - 1 - number)
        out.append(f'<line x1="{WIDTH - 250}" x2="{WIDTH - 226}" y1="{row - 4}" y2="{row - 4}" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{WIDTH - 220}" y="{row}">{escape(label)}: {line[-1][2]:.1f} %</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    if len(sys.argv) < 5:
        raise SystemExit(__doc__.strip())
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())
    lines = []
    for argument in sys.argv[4:]:
        label, _, cell = argument.rpartition("=")
        lines.append((label, points(results, cell)))
    pathlib.Path(sys.argv[2]).write_text(draw(sys.argv[3], lines))


if __name__ == "__main__":
    main()
