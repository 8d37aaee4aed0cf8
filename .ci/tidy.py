#!/usr/bin/env python3
"""Runs clang-tidy, with the checks of .clang-tidy, on the sources of the product.

  .ci/tidy.py [path...]     these, or all of dev and simt but tests and kernels

Needs no build: CMake tells how each source is compiled. A source without findings is not looked at
again until it, a header of the project that it includes, how it is compiled, .clang-tidy or
clang-tidy itself changes; what is known to be clean stands in $XDG_CACHE_HOME/rondo-tidy. Prints
the findings and exits 1 if there are any.

Nearly all the time of clang-tidy goes to what a source includes: so sources with the same flags are
looked at together, as one text. Where that has findings, or does not compile (two sources may have
a name each of its own), the halves are looked at, and at last each source alone: only that is
believed and printed.
"""
import collections
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TIDY = "clang-tidy-14"
ROOT = Path.cwd()
BUILD = Path("build/tidy")
MADE = BUILD / "together"
TOGETHER = 12
LAYERS = ("base", "topology", "transport", "kernels", "collectives", "api", "bench")
CLEAN = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rondo-tidy"


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def commands_of_sources():
    """How each source is compiled, by a build that compiles each alone. The engine for GPUs is not
    part of dev."""
    commands = {}
    for preset, build, part in (("simt", BUILD / "simt", "collectives/gpu/"), ("dev", BUILD, "")):
        output_of(["cmake", "--preset", preset, "-B", str(build), "-DCMAKE_UNITY_BUILD=OFF"])
        with open(build / "compile_commands.json", encoding="utf-8") as file:
            entries = json.load(file)
        for entry in entries:
            source = Path(entry["file"])
            if source.is_relative_to(ROOT / part):
                words = [word for word in shlex.split(entry["command"])
                         if not word.startswith("-DFMT_")]  # here format strings are checked
                out = words.index("-o")
                commands[str(source.relative_to(ROOT))] = tuple(
                    words[:out] + words[out + 2:words.index("-c")])
    return commands


class Fingerprints:
    """Of everything of the project that a finding in a source may depend on."""

    def __init__(self):
        self.of_file = {}
        self.common = output_of([TIDY, "--version"]) + Path(".clang-tidy").read_text()

    def file(self, name):
        """A file's digest, and the project's files that it includes by name."""
        if name not in self.of_file:
            text = Path(name).read_text()
            places = (place for include in re.findall(r'^#\s*include "([^"]+)"', text, re.MULTILINE)
                      for place in (include, os.path.join(os.path.dirname(name), include)))
            included = [os.path.normpath(place) for place in places if os.path.isfile(place)]
            self.of_file[name] = hashlib.sha256(text.encode()).hexdigest(), included
        return self.of_file[name]

    def of(self, source, command):
        found, todo = {source}, [source]
        while todo:
            for name in self.file(todo.pop())[1]:
                if name not in found:
                    found.add(name)
                    todo.append(name)
        files = [f"{name} {self.file(name)[0]}" for name in sorted(found)]
        how = shlex.join(command).replace(str(Path.cwd()), ".")
        text = "\n".join([self.common, how, source, *files])
        return hashlib.sha256(text.encode()).hexdigest()


def look(source, command):
    """What clang-tidy says of a source that is compiled so."""
    with tempfile.TemporaryDirectory() as folder:
        entry = {"directory": str(BUILD.resolve()), "file": str(Path(source).resolve()),
                 "command": shlex.join([*command, "-c", str(Path(source).resolve())])}
        Path(folder, "compile_commands.json").write_text(json.dumps([entry]))
        done = subprocess.run([TIDY, "-p", folder, "--quiet", source],
                              capture_output=True, text=True)
    clean = done.returncode == 0 and not done.stdout.strip()
    return "" if clean else done.stdout or done.stderr


def look_together(sources, command):
    """Whether nothing is found in sources that stand in one text."""
    MADE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MADE) as folder:  # below the folder with .clang-tidy
        text = Path(folder, "all.cc")
        text.write_text("\n".join(Path(source).read_text() for source in sources))
        return look(str(text.resolve()), command) == ""


def check(sources, command, fingerprints):
    """The findings in sources that are compiled alike; what is clean is noted."""
    if len(sources) == 1:
        found = look(sources[0], command)
        if not found:
            (CLEAN / fingerprints[sources[0]]).touch()
        return [found] if found else []
    if look_together(sources, command):
        for source in sources:
            (CLEAN / fingerprints[source]).touch()
        return []
    half = len(sources) // 2
    return (check(sources[:half], command, fingerprints)
            + check(sources[half:], command, fingerprints))


def batches(sources, commands):
    """Sources that are compiled alike, at most TOGETHER; those that include themselves alone."""
    alike = collections.defaultdict(list)
    for source in sources:
        alone = source if "HWY_TARGET_INCLUDE" in Path(source).read_text() else ""
        alike[commands[source], alone].append(source)
    for (command, _), group in alike.items():
        parts = -(-len(group) // TOGETHER)
        for part in range(parts):
            yield group[len(group) * part // parts:len(group) * (part + 1) // parts], command


def main():
    commands, prints = commands_of_sources(), Fingerprints()
    folders = tuple(f"{layer}/" for layer in LAYERS)
    sources = sys.argv[1:] or sorted(s for s in commands if s.startswith(folders))
    CLEAN.mkdir(parents=True, exist_ok=True)
    fingerprints = {}
    for source in sources:
        if source not in commands:
            sys.exit(f"{source}: dev and simt compile no such source, or it is a kernel")
        fingerprints[source] = prints.of(source, commands[source])
    unknown = [source for source in sources if not (CLEAN / fingerprints[source]).exists()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = pool.map(lambda batch: check(*batch, fingerprints), batches(unknown, commands))
    failed = [report for batch in reports for report in batch]
    print("".join(failed), end="")
    print(f"clang-tidy: {len(sources)} sources, {len(failed)} with findings")
    return 1 if failed else 0


sys.exit(main())
