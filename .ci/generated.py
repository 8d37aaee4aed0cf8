# SPDX-License-Identifier: Apache-2.0
"""Findings on pages that follow from tables of the sources: without a build, so their texts only.
docs/site/reference.py compares the whole pages with what the command prints.
"""
import ast
import re

VARIABLES, VARIABLES_PAGE = "base/env_table.cc", "docs/operate/environment.md"
COMMANDS, COMMANDS_PAGE = "bench/cli/main.cc", "docs/reference/commands.md"
REWRITE = "python3 docs/site/reference.py build/dev/bin --write rewrites it"
LITERALS = r'((?:"(?:\\.|[^"\\])*"\s*)+)'
VARIABLE = re.compile(r'\{"(\w+)",\s*Type::\w+,\s*"(?:\\.|[^"\\])*",\s*' + LITERALS + r"\}")
COMMAND = re.compile(r'\{"([a-z]+)",\s*' + LITERALS + r",\s*\w+_command\}")


def rows_of(path, row):
    """The rows of a table: name and text, of which neighbouring literals are joined."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return {name: ast.literal_eval(f"({literals})") for name, literals in row.findall(text)}


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return " ".join(file.read().split())


def generated_findings():
    """Yields (page, text) for what the tables have and the pages lack, and the reverse."""
    for source, row, page, heading in (
            (VARIABLES, VARIABLE, VARIABLES_PAGE, r"- `(\w+)` \("),
            (COMMANDS, COMMAND, COMMANDS_PAGE, r"## rondo ([a-z]+)\b")):
        rows, text = rows_of(source, row), text_of(page)
        if not rows:
            yield source, "no row of its table is understood (.ci/generated.py)"
        for name, about in rows.items():
            if not re.search(heading.replace(r"(\w+)", name).replace("([a-z]+)", name), text):
                yield page, f"{name} of {source} is missing: {REWRITE}"
            elif " ".join(about.split()) not in text:
                yield page, f"the text of {name} is not that of {source}: {REWRITE}"
        for name in re.findall(heading, text):
            if name not in rows:
                yield page, f"{name} is not in {source}: {REWRITE}"
