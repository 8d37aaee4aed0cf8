"""Predictions of the kernels on a GPU beside what a run measured: the table of gpu-choices.md.

  python3 tests/gpu/check/predictions.py docs/internals/gpu-choices.md    compares the page's table

kernels/cuda/shapes.h has the constants and how the first predictions follow from them. The end of
roof.txt is the table with the measured column filled, to be put into the page.
"""

import pathlib
import sys
from typing import NamedTuple

A_CTA, WHOLE = "GB/s a CTA", "GB/s"  # columns of roof.txt


class Row(NamedTuple):
    what: str
    predicted: str  # as written on the page
    stage: str = ""  # the stage of set B that measures it
    value: float | None = None  # what that stage would show
    of: str = A_CTA


ROWS = (
    Row("Simple, copy, a CTA: a slot of 64 KiB", "1.4 us, 47 GB/s"),
    Row("Simple, sum of float32, a CTA", "1.7 us, 38 GB/s"),
    Row("a step of a ring, a CTA, with 2 slices a chunk: copies", "39 GB/s", "copies.Simple-1", 39),
    Row("the same with 1 or 4 slices", "19, 47 GB/s"),
    Row("a step of a ring with 2 slices, sums of float32", "35 GB/s", "ring.Simple-1", 35),
    Row("LL, a CTA: a slot of 8 KiB of data", "0.9 us, 9 GB/s", "ring.LL-1", 9),
    Row("LL128, a CTA: copies", "21 GB/s", "copies.LL128-1", 21),
    Row("LL128, a CTA: sums of float32", "13 GB/s", "ring.LL128-1", 13),
    Row("NVLS, a CTA: a round of 256 KiB, its works one after the other", "11 us, 23 GB/s",
        "gpus.nvls-Simple-1", 23),
    Row("NVLS all-reduce of 8 GPUs, 16 CTAs; the links' bound", "370; 400 GB/s",
        "gpus.nvls-Simple", 370, WHOLE),
    Row("resolving a call of processes that share a GPU", "2 rounds over PCIe, 2 us"),
    Row("messages, a CTA: a slot of 64 KiB", "1.4 us, 47 GB/s"),
    Row("messages, a pair's 8 channels, one way", "376 GB/s", "gpus.processes-sendrecv", 376,
        WHOLE),
    Row("host memory read by a CTA that waits", "2 words every 1,000 turns"),
)  # fmt: skip
OF_STAGE = {row.stage: row for row in ROWS if row.stage}


def predicted(stage: str) -> float | None:
    return OF_STAGE[stage].value if stage in OF_STAGE else None


def markdown(measured: list[dict]) -> str:
    """measured: rows of roof.rows_of(). The best size of each stage counts, as predictions do."""
    lines = ["| what | predicted | stage | measured |", "|---|---|---|---|"]
    for row in ROWS:
        values = [one[row.of] for one in measured
                  if row.stage and one["stage"] == row.stage
                  and isinstance(one.get(row.of), int | float)]  # fmt: skip
        cells = [row.what, row.predicted, f"`{row.stage}`" if row.stage else "",
                 f"{max(values):.3g} {row.of}" if values else ""]  # fmt: skip
        lines.append("".join(f"| {cell} " if cell else "| " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def main() -> int:
    assert OF_STAGE["ring.LL-1"].value == 9 and predicted("micro") is None
    filled = markdown([{"stage": "ring.LL-1", A_CTA: value} for value in (2.0, 8.25, None)])
    assert "| `ring.LL-1` | 8.25 GB/s a CTA |" in filled, filled
    page = pathlib.Path(sys.argv[1])
    if markdown([]) in page.read_text():
        return 0
    print(f"{page} has not the table of predictions that {__file__} has:\n{markdown([])}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
