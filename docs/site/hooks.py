# SPDX-License-Identifier: Apache-2.0
"""Hooks of MkDocs: README.md is the home page, with its pictures and the licence.

MkDocs takes pages from docs/ alone. So README.md becomes index.md, its links to docs/... lose that
folder, and links of other pages to README.md lead to index.md.
"""
import os
import re

from mkdocs.structure.files import File

LINK = re.compile(r"(\]\()([^)\s#]+)")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")


def on_files(files, config):
    with open("README.md", encoding="utf-8") as file:
        text = file.read()
    for name in ["LICENSE", *IMAGE.findall(text)]:
        files.append(File.generated(config, name, abs_src_path=os.path.abspath(name)))
    home = LINK.sub(lambda m: m[1] + m[2].removeprefix("docs/"), text)
    files.append(File.generated(config, "index.md", content=home))
    return files


def on_page_markdown(markdown, page, config, files):
    return re.sub(r"\]\((?:\.\./)+README\.md", "](" + os.path.relpath(
        "index.md", os.path.dirname(page.file.src_uri) or "."), markdown)
