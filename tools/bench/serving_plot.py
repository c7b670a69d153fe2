#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Draws the first table of docs/serving.md, which tools/bench/serving.py has written: answers a second by the number of
# clients, a panel for each model and machine, as docs/images/serving.svg.
#
#   python3 tools/bench/serving_plot.py

import math
import os
import re
from xml.sax.saxutils import escape

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 300, 200, 46, 34, 26, 12
SERIES = (("cleave serve", 3, "#1b6ca8"), ("ONNX Runtime behind Node", 6, "#d1495b"))


def rows_of(page):
    """Rows of the table under "clients": lists of cells, of which those of SERIES are answers a second."""
    table = re.search(r"\| model \| machine \| clients \|.*\n\|[- |]*\n((?:\|.*\n)+)", page)[1]
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]


def panel(title, rows, left, top):
    """One chart; the vertical axis begins at 0, the horizontal one is logarithmic."""
    counts = [int(row[2]) for row in rows]
    most = max(float(row[column]) for row in rows for _, column, _ in SERIES)
    step = 10 ** math.floor(math.log10(most))
    step = next(step * factor for factor in (0.2, 0.5, 1, 2) if most / (step * factor) <= 5)
    inner, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    x = lambda count: left + LEFT + inner * math.log(count / counts[0]) / math.log(counts[-1] / counts[0])
    y = lambda rate: top + TOP + high * (1 - rate / (most * 1.05))
    lines = [f'<text x="{left + LEFT}" y="{top + 16}" font-weight="bold">{escape(title)}</text>']
    for tick in range(int(most / step) + 1):
        at = y(tick * step)
        lines.append(f'<line x1="{left + LEFT}" x2="{left + WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
                     f'<text x="{left + LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick * step:g}</text>')
    for count in counts:
        lines.append(f'<text x="{x(count):.1f}" y="{top + HEIGHT - 16}" text-anchor="middle">{count}</text>')
    for _, column, color in SERIES:
        points = [(x(int(row[2])), y(float(row[column]))) for row in rows]
        path = " ".join(f"{across:.1f},{up:.1f}" for across, up in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        lines += [f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3" fill="{color}"/>' for across, up in points]
    return lines


def plot(rows):
    """The whole picture as SVG: models from top to bottom, machines from left to right."""
    models, machines = list(dict.fromkeys(row[0] for row in rows)), list(dict.fromkeys(row[1] for row in rows))
    width, height = WIDTH * len(machines), HEIGHT * len(models) + 30
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    for down, model in enumerate(models):
        for across, machine in enumerate(machines):
            own = [row for row in rows if row[:2] == [model, machine]]
            if own:
                lines += panel(f"{model}, {machine}", own, WIDTH * across, HEIGHT * down)
    at = LEFT
    for name, _, color in SERIES:
        lines.append(f'<text x="{at}" y="{height - 10}" fill="{color}">{escape(name)}</text>')
        at += 9 * len(name)
    lines.append(f'<text x="{width - RIGHT}" y="{height - 10}" text-anchor="end">answers a second by clients</text>')
    return "\n".join(lines + ["</svg>", ""])


def main():
    with open(os.path.join(REPOSITORY, "docs", "serving.md"), encoding="utf-8") as page:
        rows = rows_of(page.read())
    with open(os.path.join(REPOSITORY, "docs", "images", "serving.svg"), "w", encoding="utf-8") as picture:
        picture.write(plot(rows))


if __name__ == "__main__":
    main()
