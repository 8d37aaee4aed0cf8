# SPDX-License-Identifier: Apache-2.0
"""Reads the measurements of bench/build_time.sh, and prints the tables.

  build_time.py objects BUILD   of ninja's log (wall) and the notes of the launcher (CPU)
  build_time.py headers BUILD   of the traces that clang++ -ftime-trace wrote beside the objects
"""
import collections
import json
import os
import re
import sys

ROWS = 20


def wall_seconds(build):
    """{output: seconds} of the last build by ninja."""
    taken = {}
    with open(os.path.join(build, ".ninja_log"), encoding="utf-8") as log:
        for line in log:
            fields = line.rstrip("\n").split("\t")
            if len(fields) == 5:
                taken[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return taken


def cpu_seconds(build):
    """{object: seconds}. Leaves out CMake's own test compilations."""
    taken = {}
    with open(os.path.join(build, "cpu_times"), encoding="utf-8") as notes:
        for line in notes:
            user, system, name = line.rstrip("\n").split(" ", 2)
            taken[name] = float(user) + float(system)
    return taken


def contents(build, name):
    """The contents of a unity object: its first and last source, and their number."""
    source = os.path.join(build, re.sub(r"\.o$", "", name))
    if "/Unity/unity_" not in name or not os.path.exists(source):
        return ""
    with open(source, encoding="utf-8") as file:
        paths = re.findall(r'^#include "(.*)"', file.read(), re.MULTILINE)
    if not paths:
        return ""
    first, last = (os.path.relpath(path) for path in (paths[0], paths[-1]))
    return f"  {first} ... {last} ({len(paths)})" if len(paths) > 1 else f"  {first}"


def print_objects(build):
    with open(os.path.join(build, "totals"), encoding="utf-8") as totals:
        for line in totals:
            name, wall, user, system = line.split()
            cpu = float(user) + float(system)
            print(f"{name:<10} {float(wall):7.1f} s wall {cpu:7.1f} s CPU")
    wall, cpu = wall_seconds(build), cpu_seconds(build)
    cpu = {name: seconds for name, seconds in cpu.items() if name in wall}
    rows = sorted(cpu.items(), key=lambda row: -row[1])
    total = sum(cpu.values())
    share = 100 * sum(seconds for _, seconds in rows[:ROWS]) / total if total else 0
    print(f"{len(cpu)} objects take {total:.1f} s CPU; the first {ROWS} of them {share:.0f} %:")
    print("  CPU s  wall s  object")
    for name, seconds in rows[:ROWS]:
        short = re.sub(r"CMakeFiles/|\.cxx\.o$|\.o$", "", name)
        print(f"{seconds:7.1f} {wall[name]:7.1f}  {short}{contents(build, name)}")


def traces(build):
    for folder, _, names in os.walk(build):
        for name in names:
            if name.endswith(".json") and "CMakeFiles" in folder:
                yield os.path.join(folder, name)


def print_headers(build):
    seconds, times = collections.Counter(), collections.Counter()
    for path in traces(build):
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        if not isinstance(trace, dict):
            continue
        for event in trace.get("traceEvents", []):
            if event.get("name") == "Source":
                header = os.path.normpath(event["args"]["detail"])
                if header.endswith((".cc", ".cxx", ".cu", ".c")):
                    continue
                seconds[header] += event["dur"] / 1e6
                times[header] += 1
    here = os.getcwd() + os.sep
    print("parsing, with what each header includes itself; instances of templates are not in it:")
    print("      s  times  header")
    for header, taken in seconds.most_common(ROWS):
        print(f"{taken:7.1f} {times[header]:6}  {header.removeprefix(here)}")
    if not seconds:
        print("no traces were written")


if __name__ == "__main__":
    {"objects": print_objects, "headers": print_headers}[sys.argv[1]](sys.argv[2])
