# SPDX-License-Identifier: Apache-2.0
"""bench/compare/plot.py --simulated: what it draws from a file, and its errors.

A fake matplotlib records what was drawn, so this runs without matplotlib.
"""
import json
import os
import subprocess
import sys
import tempfile

COMPARE = sys.argv[1]
HEAD = ("collective,size,count,type,redop,algorithm,protocol,channels,time_us,algbw_gbs,busbw_gbs,"
        "planner_us,planned,by,busiest_wire,busiest_share\n")
ROWS = [("oneshot", "line", 64, 0.2, 0.3, 1), ("twoshot", "staged", 64, 0.4, 0.5, 0),
        ("oneshot", "staged", 4096, 3.0, 2.0, 0), ("twoshot", "staged", 4096, 1.0, 1.5, 1)]
PRETENDED = """
import json, os
lines = []
class Panel:
    def plot(self, x, y, style, **how): lines.append([how.get("label"), style, list(x), list(y)])
    def set(self, **how): lines.append([how["title"], how["xscale"], how["yscale"], []])
    def grid(self, *what, **how): pass
    def legend(self, **how): pass
class Figure:
    def tight_layout(self): pass
    def savefig(self, path, **how):
        if path.endswith(".doc"): raise ValueError("no such format")
        with open(path, "w") as file: json.dump(lines, file)
class pyplot:
    @staticmethod
    def subplots(**how): return Figure(), Panel()
def use(backend): assert backend == "Agg"
"""


def csv_of(rows):
    return HEAD + "".join(
        f"all_reduce,{size},{size // 4},float,sum,{algorithm},{protocol},0,{us},1,1,{planner},"
        f"{planned},simulated,,0.0000\n"
        for algorithm, protocol, size, us, planner, planned in rows)


def run(folder, csv, picture, matplotlib=PRETENDED):
    with open(os.path.join(folder, "matplotlib.py"), "w", encoding="utf-8") as file:
        file.write(matplotlib)
    path = os.path.join(folder, "simulated.csv")
    if csv is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(csv)
    return subprocess.run(
        [sys.executable, os.path.join(COMPARE, "plot.py"), "--simulated", path,
         os.path.join(folder, picture)], capture_output=True, text=True, check=False,
        env=dict(os.environ, PYTHONPATH=folder, PYTHONDONTWRITEBYTECODE="1"))


def drawn(rows):
    with tempfile.TemporaryDirectory() as folder:
        done = run(folder, csv_of(rows), "picture.png")
        assert done.returncode == 0, done.stderr
        with open(os.path.join(folder, "picture.png"), encoding="utf-8") as file:
            return json.load(file)


def refused(csv, *, picture="picture.png", matplotlib=PRETENDED):
    with tempfile.TemporaryDirectory() as folder:
        done = run(folder, csv, picture, matplotlib)
        assert done.returncode == 1, done
        assert "Traceback" not in done.stderr, done.stderr
        assert not os.path.exists(os.path.join(folder, picture))
        return done.stderr


lines = drawn(ROWS)
assert ["oneshot", "-", [64, 4096], [0.2, 3.0]] in lines, lines
assert ["twoshot", "-", [64, 4096], [0.4, 1.0]] in lines, lines
assert ["what would run", "o", [64, 4096], [0.2, 1.0]] in lines, lines
assert ["the planner's time of it", ":", [64, 4096], [0.3, 1.5]] in lines, lines
assert ["all_reduce, float, simulated", "log", "log", []] in lines, lines
assert len(lines) == 5, lines

# An algorithm with several protocols is drawn as one line per protocol.
both = drawn([("ring", "LL", 64, 7.0, 8.0, 1), ("ring", "Simple", 64, 9.0, 9.5, 0)])
assert ["ring LL", "-", [64], [7.0]] in both and ["ring Simple", "-", [64], [9.0]] in both, both

assert "cannot be read" in refused(None)
assert "no file of rondo simulate" in refused("size,time\n1,2\n")
assert "no file of rondo simulate" in refused(HEAD)
assert "no such format" in refused(csv_of(ROWS), picture="picture.doc")
lacking = refused(csv_of(ROWS), matplotlib="raise ModuleNotFoundError('No module named it')")
assert "needs matplotlib" in lacking and ".ci/install.sh --compare" in lacking, lacking
