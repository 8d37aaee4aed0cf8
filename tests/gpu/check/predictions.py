# SPDX-License-Identifier: Apache-2.0
"""Predictions of the kernels on a GPU beside what a run measured: the table of gpu-choices.md.

  python3 tests/gpu/check/predictions.py docs/internals/gpu-choices.md    compares the page's table

kernels/cuda/shapes.h has the constants and how the first predictions follow from them. The end of
roof.txt is the table with the measured column filled, to be put into the page.
"""

import pathlib
import sys
from typing import NamedTuple

A_CTA, WHOLE, TIME = "GB/s a CTA", "GB/s", "us"  # columns of roof.txt


class Row(NamedTuple):
    what: str
    predicted: str  # as written on the page
    stage: str = ""  # the stage of set B that measures it
    value: float | None = None  # what that stage would show
    of: str = A_CTA
    before: str = ""  # on an H200 in November 2026: bench/results/h200, before the job ring
    bytes: int = 0  # of a TIME

    def measured(self, rows: list[dict]) -> str:
        """rows: of roof.rows_of(). The best size of a stage counts, as predictions do."""
        values = [one[self.of] for one in rows
                  if self.stage and one["stage"] == self.stage
                  and self.bytes in (0, one.get("bytes"))
                  and isinstance(one.get(self.of), int | float)]  # fmt: skip
        best = min if self.of == TIME else max
        return f"{best(values):.3g} {self.of}" if values else ""


ROWS = (
    Row("Simple, copy, a CTA: a slot of 256 KiB read and written at 94 GB/s", "5.6 us, 47 GB/s"),
    Row("Simple, sum of float32, a CTA: two read, one written", "8.4 us, 31 GB/s"),
    Row("all-gather by a ring of 4, a CTA: 11 bytes through memory for 3 sent", "26 GB/s",
        "copies.Simple-1", 26, before="11.3"),
    Row("the same with slots of 1 MiB", "26 GB/s", "copies.Simple-1-4M", 26),
    Row("all-reduce of float32 by a ring of 4: 20 bytes through memory for 6 sent", "28 GB/s",
        "ring.Simple-1", 28, before="15.9"),
    Row("the same with slots of 1 MiB", "28 GB/s", "ring.Simple-1-4M", 28),
    Row("LL, a CTA: a job of 16 KiB of data; the cost model has 7.4 GB/s", "0.9 us, 18 GB/s",
        "ring.LL-1", 9, before="2.9"),
    Row("LL128, a CTA: copies, a job of 30 KiB in 1.4 us", "16 GB/s", "copies.LL128-1", 16,
        before="6.2"),
    Row("LL128, a CTA: sums of float32, in 1.9 us", "14 GB/s", "ring.LL128-1", 14, before="6.1"),
    Row("NVLS, a CTA: a round of 256 KiB, its works one after the other", "11 us, 23 GB/s",
        "gpus.nvls-Simple-1", 23),
    Row("NVLS all-reduce of 8 GPUs, 16 CTAs; the links' bound", "370; 400 GB/s",
        "gpus.nvls-Simple", 370, WHOLE),
    Row("8 GPUs in processes, 4 MiB, staged: 86 us by a ring", "42 us", "gpus.processes-any",
        of=TIME, bytes=4 << 20),
    Row("resolving a call of processes that share a GPU", "2 rounds over PCIe, 2 us"),
    Row("2 processes on a GPU, 4 bytes, staged", "aim: 50 us", "processes.2", of=TIME,
        before="312 us", bytes=4),
    Row("8 processes on a GPU, 4 bytes, staged", "aim: 180 us", "processes.8", of=TIME,
        before="1,259 us", bytes=4),
    Row("scatter of 64 KiB by 4 threads on a GPU", "aim: 20 us", "others.scatter", of=TIME,
        before="86 us", bytes=64 << 10),
    Row("one rank, captured, 8 bytes, the fastest of three collectives; NCCL 0.97 us",
        "aim: 1.02 us", "beside.1", of=TIME, before="1.72 us", bytes=8),
    Row("sums of float8e4m3, 1 rank and 2: share of the memory's rate", "aim: 90 %",
        before="45 %; 73 %"),
    Row("sums of bfloat16, 1 rank: the same", "aim: 90 %", before="81 %"),
    Row("messages, a CTA: a slot of 64 KiB", "1.4 us, 47 GB/s"),
    Row("messages, a pair's 8 channels, one way", "376 GB/s", "gpus.processes-sendrecv", 376,
        WHOLE),
    Row("host memory read by a CTA that waits", "2 words every 1,000 turns"),
)  # fmt: skip
OF_STAGE = {row.stage: row for row in ROWS if row.stage}


def predicted(stage: str) -> float | None:
    return OF_STAGE[stage].value if stage in OF_STAGE else None


def markdown(measured: list[dict]) -> str:
    lines = ["| what | predicted | stage | an H200 before | measured |", "|---|---|---|---|---|"]
    for row in ROWS:
        cells = [row.what, row.predicted, f"`{row.stage}`" if row.stage else "", row.before,
                 row.measured(measured)]  # fmt: skip
        lines.append("".join(f"| {cell} " if cell else "| " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def main() -> int:
    assert OF_STAGE["ring.LL-1"].value == 9 and predicted("micro") is None
    filled = markdown([{"stage": "ring.LL-1", A_CTA: value} for value in (2.0, 8.25, None)])
    assert "| `ring.LL-1` | 2.9 | 8.25 GB/s a CTA |" in filled, filled
    page = pathlib.Path(sys.argv[1])
    lines = page.read_text().splitlines()
    # The page's last column is what a device measured.
    lacking = [row for row in markdown([]).splitlines()[2:]
               if not any(line.startswith(row.removesuffix("|")) for line in lines)]  # fmt: skip
    if not lacking:
        return 0
    print(f"{page} lacks rows of the table of {__file__}:", *lacking, sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
