# SPDX-License-Identifier: Apache-2.0
"""The table %roof: every measurement beside what the devices' own copies reach, and beside what is
predicted of it, or of a CTA where it has so few (predictions.py)."""

COLUMNS = ("stage", "collective", "ranks", "bytes", "us", "GB/s", "%roof", "of", "GB/s a CTA",
           "predicted", "plan")  # fmt: skip
WORDS = ("stage", "collective", "of", "plan")


def rows_of(records: list[dict]) -> list[dict]:
    """One row a measurement; what could not be read is left out, never made up."""
    rows = []
    for record in records:
        if record.get("set") not in ("B", "NEXT"):
            continue
        numbers = record.get("numbers") or {}
        for row in numbers.get("rows") or []:
            if not isinstance(row, dict):
                continue
            roof = row.get("roofline", row.get("of_copy"))
            rows.append({
                "stage": record["name"],
                "collective": row.get("kernel") or numbers.get("collective"),
                "ranks": row.get("ranks") or numbers.get("ranks"), "bytes": row.get("bytes"),
                "us": row.get("us", row.get("median_us")),
                "GB/s": row.get("gbs", row.get("bus_bw")),
                "%roof": 100 * roof if is_number(roof) else None,
                "of": row.get("roof_of"), "GB/s a CTA": row.get("bus_gbs_a_cta"),
                "predicted": row.get("predicted"), "plan": row.get("plan"),
            })  # fmt: skip
        for row in numbers.get("medians") or []:
            rows.append({
                "stage": record["name"], "collective": row.get("collective"),
                "ranks": row.get("ranks"), "bytes": row.get("bytes"), "us": row.get("ours_us"),
                "theirs": row.get("theirs_us"), "form": row.get("form"),
                "plan": f"{row.get('form')}; NCCL {shown(row.get('theirs_us'))} us",
            })  # fmt: skip
    return rows


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: object) -> str:
    if not is_number(value):
        return "-" if value is None else str(value)
    if isinstance(value, int):
        return str(value)
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def table(rows: list[dict]) -> str:
    if not rows:
        return ""
    cells = [COLUMNS, *[[shown(row.get(column)) for column in COLUMNS] for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    return "".join(
        "  ".join(word.ljust(width) if column in WORDS else word.rjust(width)
                  for column, word, width in zip(COLUMNS, line, widths)).rstrip() + "\n"
        for line in cells
    )  # fmt: skip


def short(rows: list[dict]) -> str:
    """The largest size of each measurement, and of calls the smallest, too."""
    by: dict[tuple, list[dict]] = {}
    for row in rows:
        by.setdefault((row["stage"], row["collective"], row["ranks"]), []).append(row)
    kept = []
    for group in by.values():
        group = sorted(group, key=lambda row: row["bytes"] if is_number(row["bytes"]) else 0)
        kept += (
            group[-1:] if len(group) < 2 or group[0]["stage"] == "micro" else [group[0], group[-1]]
        )
    return table([{**row, "plan": str(row.get("plan") or "")[:24]} for row in kept])
