#!/usr/bin/env python3
"""Runs clang-tidy, with the checks of .clang-tidy, on the sources of the product.

  .ci/tidy.py [path...]     these, or all that build/dev compiles but tests

Needs the tree build/dev, built: ninja knows there what a source includes. A source without findings
is not looked at again until it, one of its headers, .clang-tidy or clang-tidy itself changes; what
is known to be clean stands in $XDG_CACHE_HOME/rondo-tidy. The first run takes about 15 minutes of
processor time. Prints the findings and exits 1 if there are any.
"""
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TIDY = "clang-tidy-14"
BUILD = Path("build/dev")
LAYERS = ("base", "topology", "transport", "kernels", "collectives", "api", "bench")
CLEAN = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rondo-tidy"


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def objects_of_sources():
    """The object that build/dev makes of each source."""
    root = Path.cwd()
    with open(BUILD / "compile_commands.json", encoding="utf-8") as file:
        entries = json.load(file)
    objects = {}
    for entry in entries:
        source = Path(entry["file"])
        if source.is_relative_to(root):
            words = shlex.split(entry["command"])
            objects[str(source.relative_to(root))] = words[words.index("-o") + 1]
    return objects


def files_of_objects():
    """What each object was compiled from, as ninja recorded it."""
    files, current = {}, None
    for line in output_of(["ninja", "-C", str(BUILD), "-t", "deps"]).split("\n"):
        head = re.match(r"(\S+): #deps", line)
        if head:
            current = files.setdefault(head[1], [])
        elif line.startswith("    "):
            current.append(line.strip())
    return files


class Fingerprints:
    """Of everything that a finding in a source may depend on."""

    def __init__(self):
        self.of_file = {}
        self.common = output_of([TIDY, "--version"]) + Path(".clang-tidy").read_text()

    def file(self, name):
        if name not in self.of_file:
            path = Path(os.path.normpath(BUILD / name))
            if path.is_relative_to("/"):  # of the system: not ours to read
                self.of_file[name] = f"{path} {path.stat().st_size}"
            else:
                self.of_file[name] = f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        return self.of_file[name]

    def of(self, source, files):
        text = "\n".join([self.common, source, *map(self.file, files)])
        return hashlib.sha256(text.encode()).hexdigest()


def check(source, fingerprint):
    known = CLEAN / fingerprint
    if known.exists():
        return ""
    command = [TIDY, "-p", str(BUILD), "--quiet", source]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0 and not done.stdout.strip():
        known.touch()
        return ""
    return done.stdout or done.stderr


def main():
    objects, files, fingerprints = objects_of_sources(), files_of_objects(), Fingerprints()
    folders = tuple(f"{layer}/" for layer in LAYERS)
    built = [s for s in objects if s.startswith(folders) and objects[s] in files]
    sources = sys.argv[1:] or sorted(built)
    CLEAN.mkdir(parents=True, exist_ok=True)
    jobs = []
    for source in sources:
        if source not in objects or objects[source] not in files:
            sys.exit(f"{source}: not built in {BUILD}; first: cmake --preset dev && "
                     "cmake --build --preset dev")
        jobs.append((source, fingerprints.of(source, files[objects[source]])))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = list(pool.map(lambda job: check(*job), jobs))
    failed = [report for report in reports if report]
    print("".join(failed), end="")
    print(f"clang-tidy: {len(jobs)} sources, {len(failed)} with findings")
    return 1 if failed else 0


sys.exit(main())
