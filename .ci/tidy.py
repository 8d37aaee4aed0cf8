#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy, with the checks of .clang-tidy, on the sources of the product.

  .ci/tidy.py [path...]     these, or all of dev and simt but tests and kernels

Needs no build: CMake gives the compile commands. A source without findings is checked again only if
it, a header of the project that it includes, its compile command, .clang-tidy or clang-tidy itself
changes; $XDG_CACHE_HOME/rondo-tidy records the clean sources. Prints the findings and exits 1 if
there are any.

clang-tidy spends nearly all its time on included headers, so sources with the same flags are
checked together, as one text. If that has findings, or does not compile (two sources can define the
same name), its halves are checked, and finally each source alone. Only findings in a single source
are trusted and printed.
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
    """The compile command of each source, from a build that compiles each alone. The GPU engine is
    not part of dev."""
    commands = {}
    for preset, build, part in (("simt", BUILD / "simt", "collectives/gpu/"), ("dev", BUILD, "")):
        output_of(["cmake", "--preset", preset, "-B", str(build), "-DCMAKE_UNITY_BUILD=OFF"])
        with open(build / "compile_commands.json", encoding="utf-8") as file:
            entries = json.load(file)
        for entry in entries:
            source = Path(entry["file"])
            if source.is_relative_to(ROOT / part):
                words = [word for word in shlex.split(entry["command"])
                         if not word.startswith("-DFMT_")]  # format strings are checked here
                out = words.index("-o")
                commands[str(source.relative_to(ROOT))] = tuple(
                    words[:out] + words[out + 2:words.index("-c")])
    return commands


class Fingerprints:
    """Digest of all project files that a finding in a source can depend on."""

    def __init__(self):
        self.of_file = {}
        self.common = output_of([TIDY, "--version"]) + Path(".clang-tidy").read_text()

    def file(self, name):
        """A file's digest, and the project files that it includes by name."""
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
    """Output of clang-tidy for a source with these flags."""
    with tempfile.TemporaryDirectory() as folder:
        entry = {"directory": str(BUILD.resolve()), "file": str(Path(source).resolve()),
                 "command": shlex.join([*command, "-c", str(Path(source).resolve())])}
        Path(folder, "compile_commands.json").write_text(json.dumps([entry]))
        done = subprocess.run([TIDY, "-p", folder, "--quiet", source],
                              capture_output=True, text=True)
    clean = done.returncode == 0 and not done.stdout.strip()
    return "" if clean else done.stdout or done.stderr


def look_together(sources, command):
    """True if clang-tidy finds nothing in these sources as one text."""
    MADE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MADE) as folder:  # below the folder with .clang-tidy
        text = Path(folder, "all.cc")
        text.write_text("\n".join(Path(source).read_text() for source in sources))
        return look(str(text.resolve()), command) == ""


def check(sources, command, fingerprints):
    """The findings in sources with the same flags; records the clean ones."""
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
    """Groups of sources with the same flags, at most TOGETHER; those that include themselves are
    alone."""
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
