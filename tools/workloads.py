"""Convert published request traces into the workloads that kvproof ships.

    python tools/workloads.py DIRECTORY

DIRECTORY holds mooncake_conversation.jsonl.gz, mooncake_synthetic.jsonl.gz, lmcache_miniswe.jsonl.gz and
lmcache_taubench.jsonl.gz; conformance/kvproof/conformance/workloads/data/README.md says where they come from, and what
the format is. The same input gives the same files, byte by byte, with the same zlib.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "conformance/kvproof/conformance/workloads/data"

VERSION = 1
MOONCAKE_BLOCK = 512

Row = list[object]
"""Milliseconds, input tokens, output tokens, runs of block ids."""


def runs_of(ids: Iterable[int]) -> list[list[int]]:
    """Block ids as runs of ascending ones: first id and how many."""
    runs: list[list[int]] = []
    for block in ids:
        if runs and block == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([block, 1])
    return runs


def of_mooncake(lines: Iterator[str]) -> tuple[int, list[Row]]:
    """Block size and rows of a Mooncake trace: one object a line."""
    found = map(json.loads, lines)
    rows: list[Row] = [
        [row["timestamp"], row["input_length"], row["output_length"], runs_of(row["hash_ids"])] for row in found
    ]
    return MOONCAKE_BLOCK, rows


def of_lmcache(lines: Iterator[str]) -> tuple[int, list[Row]]:
    """Block size and rows of an LMCache trace: a header, then one list a line; sessions are left out."""
    block: int = json.loads(next(lines))["block"]
    rows: list[Row] = []
    for line in lines:
        seconds, _, input_tokens, output_tokens, runs = json.loads(line)
        rows.append([round(seconds * 1000), input_tokens, output_tokens, runs])
    return block, rows


def write(target: Path, name: str, block: int, rows: list[Row]) -> None:
    """Write one workload."""
    lines = [{"kvproof_workload": VERSION, "name": name, "block": block}, *rows, {"end": len(rows)}]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    target.write_bytes(gzip.compress(text.encode(), mtime=0))


def main(source: Path) -> None:
    """Convert every known file of a directory."""
    for file in sorted(source.glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            convert = of_mooncake if file.name.startswith("mooncake") else of_lmcache
            block, rows = convert(iter(lines))
        write(DATA / file.name, file.name.removesuffix(".jsonl.gz"), block, rows)
        print(f"{file.name}: {len(rows):,} requests")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python tools/workloads.py DIRECTORY")
    main(Path(sys.argv[1]))
