#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the pages that follow from the code, and checks JSON by its schemas.

  docs/site/reference.py BIN              fails where a page differs from what it would be
  docs/site/reference.py BIN --write      writes the pages
  docs/site/reference.py BIN --json       validates what the commands print as JSON, and
                                          docs/start/statefulset.yaml

docs/reference/rondo.md is made of api/rondo.h: its sections, declarations and comments.
docs/reference/commands.md holds what `rondo COMMAND --help` prints, for each command that rondo
lists; docs/operate/environment.md what `rondo env --markdown` prints. BIN is the folder that has
the program rondo.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time

FOLDER = "docs/reference"
MADE = "<!-- made by docs/site/reference.py -->\n\n"
SECTION = re.compile(r"/\* ---- (.*?) -+\s*\*/")
BLOCK = re.compile(r"/\*(.*?)\*/|(^typedef (?:enum|struct) \{.*?^\} \w+;|^#define (?:[^\n]*\\\n)*"
                   r"[^\n]*|^[a-z][^;{}/]*;)", re.MULTILINE | re.DOTALL)
PLUMBING = re.compile(r"#define RONDO_H_|#include|extern \"C\"")


def prose(comment):
    """A comment as Markdown. Lines that are indented by two more are code."""
    lines = [re.sub(r"^ ?\* ?", "", line).rstrip() for line in comment.strip("\n").split("\n")]
    out, code = [], False
    for line in lines:
        if line.startswith("  ") != code and line:
            out += ["```", ""] if code else ["", "```c"]
            code = not code
        out.append(line[2:] if code else line.strip())
    while out and not out[-1]:
        out.pop()
    text = "\n".join(out + (["```"] if code else [])).strip()
    # Names of the interface keep their case.
    return text if text.startswith(("nccl", "rondo")) else text[:1].upper() + text[1:]


def entries(body):
    """Comments of a section with the declarations that each of them is about."""
    found, note = [], ""
    for comment, declaration in BLOCK.findall(body):
        if comment:
            found += [(note, [])] if note else []
            note = prose(comment)
        elif not PLUMBING.match(declaration):
            is_macro = declaration.startswith("#define")
            before = found[-1][1][-1:] if found else []
            if not note and is_macro and before and before[0].startswith("#define"):
                found[-1][1].append(declaration.strip())
            else:
                found.append((note, [declaration.strip()]))
            note = ""
    return found + ([(note, [])] if note else [])


def results():
    with open("api/nccl.h", encoding="utf-8") as file:
        codes = file.read().split("ncclSuccess = 0,", 1)[1].split("ncclNumResults", 1)[0]
    rows = re.findall(r"(nccl\w+) = (\d),\s*/\* (.*?) \*/", codes)
    lines = ["| code | number | meaning |", "|---|---|---|", "| ncclSuccess | 0 | success |"]
    return "\n".join(lines + [f"| {name} | {number} | {text} |" for name, number, text in rows])


def header_page():
    with open("api/rondo.h", encoding="utf-8") as file:
        text = file.read()
    first, rest = text.split("#ifndef RONDO_H_", 1)
    first = first[first.index("/* rondo.h:"):]  # the licence stands before it
    out = ["# rondo.h", MADE + prose(first.strip().removeprefix("/* rondo.h:").removesuffix("*/")),
           "## Results", results()]
    parts = SECTION.split(rest)
    for title, body in [("The version", parts[0])] + list(zip(parts[1::2], parts[2::2])):
        out.append(f"## {title}")
        for note, declarations in entries(body):
            names = re.findall(r"\b(rondo\w+)\(", "\n".join(declarations))
            out += [f"### {names[0]}"] if names else []
            out += [note] if note else []
            out += ["```c\n" + "\n".join(declarations) + "\n```"] if declarations else []
    return "\n\n".join(out) + "\n"


def wrapped(line):
    """A line of at most 100 columns; the rest below where its description begins."""
    begin = max(line.rfind("  ", 0, 40) + 2, 2) if line.startswith(" ") else 0
    return "\n".join(textwrap.wrap(line.rstrip(), 100, subsequent_indent=" " * begin,
                                   replace_whitespace=False)) if len(line) > 100 else line.rstrip()


def printed(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


ABOUT_COMMANDS = """What each command prints with `--help`. The same as manual pages:
`rondo --man | man -l -`, `rondo bench --man | man -l -`; `cmake --install` and Debian packages
install them for `man rondo-bench`. Completions of commands and options:
`source <(rondo completion bash)`.

All commands end with 2 after a wrong command line, with 141 if the reader of their output has
gone, and with 1 if their output cannot be written. Errors go to stderr and begin with the command's
name."""


def commands_page(program):
    out = ["# Commands", MADE + ABOUT_COMMANDS]
    commands = [line.split("\t")[0] for line in printed(program, "--list-options").splitlines()]
    for command in ["", *commands]:
        text = printed(program, *([command] if command else []), "--help")
        out.append(f"## rondo {command}".rstrip())
        out.append("```text\n" + "\n".join(map(wrapped, text.strip("\n").split("\n"))) + "\n```")
    return "\n\n".join(out) + "\n"


def ranks_of(program, *words, written=""):
    """What rondo ps or trace prints of a job that has just been started; once there is a file that
    matches `written`, too."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        done = subprocess.run([program, *words], capture_output=True, text=True)
        if done.returncode == 0 and (not written or glob.glob(written)):
            return done.stdout
        time.sleep(0.1)
    sys.exit(f"rondo {' '.join(words)}: {done.stderr}")


def check_json(program):
    import jsonschema
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        bench = ["bench", "all_reduce", "--ranks", "2", "-b", "4", "-e", "64", "-f", "16", "-n",
                 "5", "--no-progress", "--json", file.name]
        outputs = {name: subprocess.run([program, *words], check=True, capture_output=True,
                                        text=True, timeout=300).stdout for name, words in (
            ("env", ["env", "--json"]), ("topo", ["topo", "--json"]), ("bench", bench),
            ("explain", ["explain", "all_reduce", "4M", "--topo", "dgx-h100", "--json"]),
            ("simulate", ["simulate", "all_reduce", "-b", "1M", "-e", "1M", "--algo", "all",
                          "--json"]))}
        for name, more in (("doctor", []), ("self-test", ["--self-test", "--ranks", "2"])):
            doctor = [program, "doctor", "--json", *more]  # exits with 1 where it finds a problem
            outputs[name] = subprocess.run(doctor, capture_output=True, text=True).stdout
        job = subprocess.Popen([program, *bench[:-2], "-N", "0"],
                               env={**os.environ, "RONDO_RECORD": "1"},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        outputs["ps"] = ranks_of(program, "ps", str(job.pid), "--json")
        outputs["jobs"] = subprocess.run([program, "ps", "--json"], check=True,
                                         capture_output=True, text=True, timeout=300).stdout
        with tempfile.TemporaryDirectory() as folder:
            traced = ["trace", str(job.pid), "--json", "--files", folder]
            rank_1 = f"{folder}/*-rank1.json"
            outputs["trace"] = ranks_of(program, *traced, written=rank_1)
            with open(glob.glob(rank_1)[0], encoding="utf-8") as trace:
                outputs["rank-trace"] = trace.read()
        job.terminate()
        job.wait()
        with open(file.name, encoding="utf-8") as results:  # another file by now
            outputs["bench"] = results.read()
    subprocess.run([f"{sys.prefix}/bin/kubernetes-validate", "--strict",
                    "docs/start/statefulset.yaml"], check=True)
    for name, text in outputs.items():
        with open(f"{FOLDER}/schemas/{name}.schema.json", encoding="utf-8") as schema:
            jsonschema.Draft202012Validator(json.load(schema)).validate(json.loads(text))
        print(f"rondo {name}: JSON of {len(text)} bytes fits {FOLDER}/schemas/{name}.schema.json")


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"], ["--json"]):
        sys.exit(__doc__)
    program = sys.argv[1] + "/rondo"
    if sys.argv[2:] == ["--json"]:
        return check_json(program)
    stale = []
    for path, text in ((f"{FOLDER}/rondo.md", header_page()),
                       (f"{FOLDER}/commands.md", commands_page(program)),
                       ("docs/operate/environment.md", printed(program, "env", "--markdown"))):
        if sys.argv[2:] == ["--write"]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            continue
        with open(path, encoding="utf-8") as file:
            if file.read() != text:
                stale.append(path)
    if stale:
        sys.exit(f"{', '.join(stale)}: not what the code says; run docs/site/reference.py "
                 f"{sys.argv[1]} --write")


if __name__ == "__main__":
    main()
