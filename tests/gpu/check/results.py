# SPDX-License-Identifier: Apache-2.0
"""Results: what every stage did, on disk as soon as it is known.

At most 9 files in OUT: results.json (all records and figures, replaced at once or not at all, also
when a stage begins), summary.txt, roof.txt, probe.json, gpu.tune, and logs: tests.txt,
programs.txt, bench.txt, and build.txt, which check.sh writes. If this program is killed, the output
of the stages that ran at that moment is lost; results.json has their names under "running".
"""

import json
import pathlib
import time

LOGS = ("tests", "programs", "bench")
MAX_LOG = 15 << 20
MAX_PRINTED = 11_000  # characters: a caller may see only the end of the output
ORDER = ("failed", "hung", "not run")


class Results:
    def __init__(self, out: str, facts: dict, sets: str) -> None:
        self.out, self.begin = pathlib.Path(out), time.monotonic()
        self.records: list[dict] = []
        self.running: list[str] = []
        self.roof: list[dict] = []
        self.verdicts: list[dict[str, str]] = []  # of set NEXT
        self.head = {"schema": "rondo-gpu-check", "version": 1, "sets": sets,
                     "started": time.strftime("%Y-%m-%d %H:%M:%S"), **facts}  # fmt: skip
        for name in [f"{log}.txt" for log in LOGS] + ["results.json", "summary.txt", "roof.txt",
                                                      "probe.json", "gpu.tune"]:  # fmt: skip
            (self.out / name).unlink(missing_ok=True)
        self.write()

    def add(self, record: dict) -> None:
        self.records.append(record)
        self.write()

    def write(self, complete: bool = False) -> None:
        document = {
            **self.head, "complete": complete, "seconds": round(time.monotonic() - self.begin, 1),
            "counts": self.counts(), "running": self.running, "roof": self.roof,
            "verdicts": self.verdicts,
            "stages": self.records,
        }  # fmt: skip
        self.replace("results.json", json.dumps(document, indent=1, allow_nan=False) + "\n")

    def replace(self, name: str, text: str) -> None:
        growing = self.out / f".{name}.new"
        growing.write_text(text)
        growing.replace(self.out / name)

    def log(self, name: str, title: str, text: str, passed: bool) -> None:
        path = self.out / f"{name}.txt"
        room = MAX_LOG - (path.stat().st_size if path.exists() else 0)
        limit = min(20_000 if passed else 300_000, room // 4)
        if len(text) > limit:
            end = text[len(text) - limit * 3 // 4 :]
            text = f"{text[: limit // 4]}\n... {len(text) - limit} characters ...\n{end}"
        with open(path, "a") as file:
            file.write(f"== {title}\n{text.rstrip()}\n\n")

    def counts(self) -> dict[str, int]:
        return {status: sum(r["status"] == status for r in self.records)
                for status in ("passed", *ORDER)}  # fmt: skip

    def summary(self) -> str:
        """The verdicts; what failed, hung or did not run: a line each, with why."""
        device = self.head.get("device", {}).get("name", "no device")
        lines = [
            f"sets {self.head['sets']} on {device}, commit {self.head.get('commit') or '?'}, "
            f"{time.monotonic() - self.begin:.0f} s: "
            + ", ".join(f"{count} {status}" for status, count in self.counts().items())
        ]
        lines += [one_line(f"{one['row']}: {one['verdict']}", 300) for one in self.verdicts]
        for status in ("failed", "hung"):
            lines += [f"{status.upper()} {record['name']}: {reason_of(record)}"
                      for record in self.records if record["status"] == status]  # fmt: skip
        remarks = [f"{r['name']}: {text}" for r in self.records for text in r.get("remarks", [])]
        lines += [one_line(text, 240) for text in remarks]
        why: dict[str, list[str]] = {}
        for record in self.records:
            if record["status"] == "not run":
                why.setdefault(reason_of(record), []).append(record["name"])
        lines += [f"not run ({len(names)}) {one_line(', '.join(names), 400)}: {reason}"
                  for reason, names in why.items()]  # fmt: skip
        skipped = sum(len_of(r, "skipped") for r in self.records)
        if skipped:
            lines.append(f"{skipped} tests were skipped, most of which want several GPUs")
        return "\n".join(lines) + "\n"


def len_of(record: dict, what: str) -> int:
    found = record.get("tests", {}).get(what, 0)
    return found if isinstance(found, int) else len(found)


def reason_of(record: dict) -> str:
    words = [record.get("how", ""), record.get("failure", "")]
    return one_line("; ".join(word for word in words if word), 300)


def one_line(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 4] + " ..."


def shortened(text: str, limit: int, where: str) -> str:
    """Its first lines, as many as fit."""
    kept, length = [], 0
    lines = text.splitlines()
    for line in lines:
        length += len(line) + 1
        if length > limit - 80:
            kept.append(f"... and {len(lines) - len(kept)} lines more in {where}")
            break
        kept.append(line)
    return "\n".join(kept) + "\n"
