"""How many times faster each operation is, drawn."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from kvproof.conformance.bench.goals import TIMES, ratio
from kvproof.conformance.bench.results import Report
from kvproof.conformance.bench.speed import OPERATIONS

WIDTH = 0.8
"""Of the bars of one operation together, of the distance between two operations."""

COLOURS = ("#9ecae1", "#4292c6", "#084594")


def plot(report: Report, file: Path) -> bool:
    """Draw the ratios of a report, events off, into an SVG file. False if vLLM was not measured."""
    cells = {(c.operation, c.num_blocks, c.k): times for c in report.cells if not c.events and (times := ratio(c))}
    if not cells:
        return False
    pools, sizes = sorted({blocks for _, blocks, _ in cells}), sorted({k for _, _, k in cells})
    with mpl.rc_context({"svg.hashsalt": "kvproof", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(11, 4), layout="constrained")
        panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
        for panel, k in zip(panels, sizes, strict=True):
            for number, blocks in enumerate(pools):
                left = (number + 0.5) * WIDTH / len(pools) - WIDTH / 2
                places = [place + left for place in range(len(OPERATIONS))]
                heights = [cells.get((name, blocks, k), 0.0) for name in OPERATIONS]
                panel.bar(places, heights, WIDTH / len(pools), label=f"{blocks:,} blocks", color=COLOURS[number % 3])
            panel.axhline(1, color="black", linewidth=0.8)
            if k in TIMES:
                label = f"goal for the mean: {TIMES[k]:.0f}"
                panel.axhline(TIMES[k], color="#d94801", linestyle="--", linewidth=1, label=label)
            panel.set_title(f"{k} {'block' if k == 1 else 'blocks'} in a call")
            panel.set_xticks(range(len(OPERATIONS)), OPERATIONS, rotation=40, ha="right")
            panel.legend(fontsize=7)
        panels[0].set_ylabel("times faster than vLLM")
        figure.savefig(file, format="svg", metadata={"Date": None})
    return True
