# SPDX-License-Identifier: Apache-2.0
"""Checks the figures of GPUs on pages and in comments against their rows in bench/results.

A reference stands behind the figures, on a page as a comment that readers do not see:

  two ranks take 44 us, eight 132 <!-- bench/results/h200/roof_0c3f96bb.txt: processes.2 4B;
  processes.8 4B -->

In a comment of the code it is in parentheses. N keys are those of the last N numbers before the
reference, without sizes and counts (64 KiB, 8 ranks). A key is

  roof*.txt   words of one row, first its stage, bytes as 4B or 64KiB; `us`, unless one of COLUMNS
              or NCCL is among them
  *.json      PROBE.VALUE, and the unit if it is not the file's
  *.tune      a name behind the line of the GPU, and the unit if it is not ns
  NAME.txt:   before a key: from here on of this file of the same folder
  computed    the figure follows from others of the file
  prior       the figure is none that was measured
  unkept      no row was kept

A figure may be rounded. Every number with a unit in a sentence that names an H200 needs a key, and
so do those below a heading that names one, and the numbers of a table's columns from the one whose
title names one.
"""
import functools
import json
import re

RESULTS = "bench/results/"
PAGES, CODE = (".md",), (".h", ".cc", ".cu")
HISTORY = "docs/CHANGELOG.md"
COLUMNS = {"us": 4, "GB/s": 5, "%roof": 6, "CTA": 8}
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
WITHOUT_ROW = ("computed", "prior", "unkept")
REFERENCE = re.compile(r"<!-- bench/results/([\w/.]+): (.*?) -->|"
                       r"bench/results/([\w/.]+): ([^()]*)\)", re.DOTALL)
SIZES = r"(?:[KMG]iB|B|bytes?|bits?|ranks?|processes|CTAs?|GPUs?|rows|words|times|slots)\b"
NUMBER = re.compile(r"(?<![\w.,/-])(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)"
                    rf"(?![\w]|[.,-]\w| {SIZES})")
WITH_UNIT = re.compile(NUMBER.pattern + r"(?= (?:us|ns|ms|GB/s|%)(?!\w))")
NAMES_A_GPU = re.compile(r"\bH200\b")
SENTENCE_END = re.compile(r"(?<=[.:])\s+(?=[A-Z`*\[])")


@functools.cache
def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def plain(word):
    """4KiB as 4096B."""
    size = re.fullmatch("([0-9]+)([KM]?i?B)", word)
    return f"{int(size.group(1)) * SIZE_UNITS[size.group(2)]}B" if size else word


def of_table(path, words):
    column = next((word for word in words if word in (*COLUMNS, "NCCL")), "us")
    wanted = {plain(word) for word in words[1:]} - {column}
    rows = [line.replace(";", "").split() for line in text_of(path).splitlines()]
    rows = [row for row in rows if row[:1] == words[:1]
            and wanted <= {*row[1:3], *(f"{size}B" for size in row[3:4]), *row[10:]}]
    if len(rows) != 1:
        raise LookupError(f"{len(rows)} rows of {path} are '{' '.join(words)}'")
    return float(rows[0][rows[0].index("NCCL") + 1 if column == "NCCL" else COLUMNS[column]])


def of_probe(path, words):
    probe, _, name = words[0].partition(".")
    values = json.loads(text_of(path))["probes"].get(probe, {}).get("values", {})
    if name not in values:
        raise LookupError(f"{path} has no {words[0]}")
    value = values[name]
    value, unit = (value["value"], value["unit"]) if isinstance(value, dict) else (value, "")
    return value * UNITS[unit] / UNITS[words[1]] if words[1:] else value


def of_tune(path, words):
    found = re.search(rf"^gpu (?:.*\n)*?{re.escape(words[0])} (\S+)$", text_of(path), re.MULTILINE)
    if not found:
        raise LookupError(f"{path} has no {words[0]} of a GPU")
    return float(found.group(1)) * UNITS["ns"] / UNITS[words[1] if words[1:] else "ns"]


def value_of(path, words):
    if words[0] in WITHOUT_ROW:
        return None
    readers = {"txt": of_table, "json": of_probe, "tune": of_tune}
    try:
        return readers[path.rpartition(".")[2]](path, words)
    except (LookupError, OSError, ValueError) as error:
        raise LookupError(str(error)) from None


def keys_of(place, keys):
    """Yields the file and the words of each key."""
    file = RESULTS + place
    for key in keys.split(";"):
        words = key.split()
        if words and words[0].endswith(":"):
            file, words = f"{file.rpartition('/')[0]}/{words[0][:-1]}", words[1:]
        yield file, words


def fits(shown, value):
    decimals = len(shown.partition(".")[2])
    return abs(float(shown.replace(",", "")) - value) <= 0.5000001 * 10 ** -decimals


def checked(text):
    """The findings of a text, and the places of the numbers that have a key."""
    findings, known = [], set()
    begin = 0
    for found in REFERENCE.finditer(text):
        place, keys = found.group(1) or found.group(3), found.group(2) or found.group(4)
        keys = list(keys_of(place, keys))
        numbers = list(NUMBER.finditer(text, begin, found.start()))[-len(keys):]
        begin = found.end()
        if len(numbers) < len(keys):
            findings.append(f"{len(keys)} keys behind {len(numbers)} figures")
            continue
        for number, (file, words) in zip(numbers, keys):
            known.add(number.start())
            try:
                value = value_of(file, words)
            except LookupError as error:
                findings.append(f"{number.group()}: {error}")
                continue
            if value is not None and not fits(number.group(), value):
                findings.append(f"{number.group()} is {value:g} by '{' '.join(words)}' of {file}")
    return findings, known


def unnamed(text, known, pattern):
    """Numbers of a text without a key."""
    inside = [found.span() for found in REFERENCE.finditer(text)]
    for number in pattern.finditer(text):
        if number.start() not in known and not any(a <= number.start() < b for a, b in inside):
            yield f"{number.group()}: a figure of a GPU without its row in {RESULTS} " \
                  "(.ci/gpu_figures.py)"


def masked(text, keep):
    """The text with all but the cells from number `keep` on, and references, made blank."""
    bars = [bar.start() for bar in re.finditer(r"(?<!\\)\|", text)]
    end = bars[keep] if keep < len(bars) else len(text)
    return " " * end + text[end:]


def findings_in(text, everything, first_cell):
    """first_cell: of a table with a column that names a GPU; None in other texts."""
    findings, known = checked(text)
    yield from findings
    if first_cell is not None:
        yield from unnamed(masked(text, first_cell), known, NUMBER)
    elif everything:
        yield from unnamed(text, known, WITH_UNIT)
    else:
        begin = 0
        for end in [*(found.start() for found in SENTENCE_END.finditer(text)), len(text)]:
            if NAMES_A_GPU.search(text, begin, end):
                sentence = " " * begin + text[begin:end]
                yield from unnamed(sentence, known, WITH_UNIT)
            begin = end


def pieces_of_page(text):
    """Yields line, text, whether all of its figures count, and the first cell that does."""
    below, cells, block, start = False, None, [], 1
    fenced = False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        fenced ^= line.startswith("```")
        ends = not line.strip() or line.startswith(("#", "|", "```")) or re.match(r" *- ", line)
        if ends and block:
            yield start, " ".join(block), below, None
            block = []
        if fenced or not line.strip():
            cells = cells if line.startswith("|") else None
        elif line.startswith("#"):
            below, cells = bool(NAMES_A_GPU.search(line)), None
        elif line.startswith("|"):
            titles = line.split("|")
            if cells is None:  # the titles
                named = [place for place, title in enumerate(titles) if NAMES_A_GPU.search(title)]
                cells = (named[0] - 1 if named else None,)
            elif not line.startswith("|---"):
                yield number, line, below, cells[0]
        else:
            cells = None
            start = start if block else number
            block.append(line)


def pieces_of_code(text):
    """Yields line, text, False and None for each block of // comments."""
    block, start = [], 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.lstrip().startswith("//"):
            start = start if block else number
            block.append(line.lstrip().lstrip("/ "))
        elif block:
            yield start, " ".join(block), False, None
            block = []


def figure_findings(paths):
    """Yields (path, line, text)."""
    for path in paths:
        if path == HISTORY or not path.endswith(PAGES + CODE):
            continue
        text = text_of(path)
        if path.endswith(CODE) and not NAMES_A_GPU.search(text) and RESULTS not in text:
            continue
        pieces = pieces_of_page if path.endswith(PAGES) else pieces_of_code
        for line, piece, everything, first_cell in pieces(text):
            for finding in findings_in(piece, everything, first_cell):
                yield path, line, finding
        for number, line in enumerate(text.split("\n"), 1):
            if line.lstrip().startswith(f"<!-- {RESULTS}"):  # Markdown would end the paragraph
                yield path, number, "a reference at the begin of a line: put it behind its figure"
