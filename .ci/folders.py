# SPDX-License-Identifier: Apache-2.0
"""Checks which folder of a layer includes which, by the rows of folders.txt.

A row names only folders of rows above it, so includes between folders form no cycle.
"""
import functools
import re

TABLE = ".ci/folders.txt"
PAGE, DESCRIBED = "docs/internals/contributing.md", "collectives/"
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')


def folder_of(path):
    return path.rpartition("/")[0]


@functools.cache
def rows():
    """{folder: the folders of its layer that it may include}, in the order of the table."""
    with open(TABLE, encoding="utf-8") as file:
        text = re.sub(r"^#.*\n", "", file.read(), flags=re.MULTILINE)
    found = {}
    for folder, names in re.findall(r"^([\w/]+):((?:\s+[\w/]+(?=\s))*)", text, re.MULTILINE):
        layer = folder.split("/")[0]
        found[folder] = [f"{layer}/{name}" for name in names.split()]
    return found


def row_findings(folders):
    """Folders without a row, rows without a folder, and rows that name what is not above them."""
    above = set()
    for folder, included in rows().items():
        if folder not in folders:
            yield f"{folder} holds no source"
        for name in included:
            if name not in above:
                yield f"{folder} may include {name}, which has no row above it"
        above.add(folder)
    for folder in sorted(folders - above):
        yield f"{folder} has no row: list what it may include of its layer"
    with open(PAGE, encoding="utf-8") as file:
        described = re.findall(r"^\| `([\w/]+)` \|", file.read(), re.MULTILINE)
    for folder in above:
        if folder.startswith(DESCRIBED) and folder not in described:
            yield f"{folder} has no row in {PAGE}: say what it holds"


def may_include(path, target):
    """True if this source may include a file of this folder of its layer."""
    folder, included = folder_of(path), folder_of(target)
    return folder == included or "/" not in included or included in rows().get(folder, [])
