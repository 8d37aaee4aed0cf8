#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of the sources that no compiler makes: layers, file sizes, line lengths, format, words;
of Python: that no modules import each other in a cycle; of the pages: lengths, links, that the
files and tests that they name exist, that generated pages have what the sources' tables have, and
that figures of GPUs are those of bench/results; and of the subjects of new commits.

Exits 1 and prints every finding as path:line: text.
"""
import functools
import glob
import os
import re
import subprocess
import sys
import tokenize

from classes import class_findings
from comments import comment_findings
from folders import INCLUDE, TABLE, folder_of, may_include, row_findings
from generated import generated_findings
from gpu_figures import figure_findings
from imports import import_findings
from patches import patch_findings
from subjects import subject_findings

LAYERS = ["base", "topology", "transport", "kernels", "collectives", "api", "bench", "tests"]
SOURCES = (".cc", ".h", ".cu", ".c")
SCRIPTS = (".sh", ".py", "CMakeLists.txt", ".cmake", ".ci/run")
MAX_LINES = 400
MAX_COLUMNS = 100
LICENCE = "SPDX-License-Identifier: Apache-2.0"
# Words that readers stumble over, with replacements. They match as whole words in any case, also
# across lines.
PLAIN_WORDS = {
    "whoever": "the rank that, the caller",
    "so many": "N, the number of, the parameter's name",
    "for ever": "without limit, never",
    "likewise": "also, the same",
    "nobody's": "no rank's, unused",
    "as well as it can": "best effort",
}
# The same for names with these prefixes: max_bytes, kMaxBytes.
PLAIN_NAMES = {"most": "max", "fewest": "min"}
# Names that the glossary (docs/glossary.md) replaced. Comments count, strings do not.
REPLACED = re.compile(
    r"\b(Done|LaunchSite|Spots?|[Cc]ircles?|kLed|Led[A-Z]\w*|kMet|Met[A-Z]\w*|Span[A-Z]\w*|"
    r"[Hh]ung_?(tree|links|ends)\w*|\w*Twins?|(Ring|Tree|Host|Direct|Push|Links|Views)Text|"
    r"run_text|[Mm]ailbox\w*)\b")
# Words that no part of a name may be (say_over, ToldChild, kPlayed), except in these names.
NAME_WORDS = {
    "circle": "cycle", "fewest": "min", "forever": "no limit", "hear": "receive",
    "heard": "received", "hears": "receives", "judge": "check", "judged": "checked",
    "judges": "checks", "led": "leader", "looker": "poller", "mailbox": "slot",
    "met": "joined, connected", "most": "max", "play": "run, simulate", "played": "simulated, fake",
    "plays": "runs, simulates", "said": "sent, reported", "say": "report, send",
    "says": "reports, sends", "tell": "report", "teller": "reporter", "tells": "reports",
    "told": "reported, sent", "twin": "pair", "whoever": "the rank that",
}
FOREIGN_NAMES = {"at_most", "most_common"}
NAME = re.compile(r"\b[A-Za-z_]\w*")
BLOCK_COMMENT = re.compile(r"/\*.*?\*/|R\"\(.*?\)\"", re.DOTALL)  # or raw string
NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
BETWEEN_WORDS = r'[\s/#*"]+'  # also matches the end of a comment line or of a literal
WORD_LIST = ".ci/lint.py"
UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|HAC[K]|XX[X])\b")

# Code that lets an exception end the program: a bare thread, an entry point without a guard. The
# library uses base/thread.h and api/export.h. Programs (rondo, the examples) may start threads.
GUARDED = [
    (re.compile(r"\bstd::(thread\b(?!::)|jthread\b|async\b)|\bpthread_create\b"), "base/thread.h",
     "a thread that is not started by base/thread.h: what its body throws ends the program"),
    (re.compile(r'RONDO_EXPORT|visibility\("default"\)'), "api/export.h",
     "an entry point that is not defined by api/export.h: what it throws ends the program"),
]
# New descriptors can be 0, 1 or 2, to which a program prints: base/fd.h moves them. Files and
# libraries named by users can be FIFOs, which block open().
MAKES_DESCRIPTOR = re.compile(
    r"(?<![\w:.>])(::(open|openat|socket|accept)|(::)?(accept4|dup|epoll_create1|eventfd|"
    r"memfd_create|signalfd|timerfd_create))\(|F_DUPFD|SYS_pidfd_open,")
OWNED = re.compile(r"\b(Fd|Socket)\b( \w+)?\(|\.reset\(")
TEXT = re.compile(r'"(\\.|[^"\\])*"')
OPENS_NAMED = [
    (re.compile(r"\bstd::ifstream\b|\bfopen\("), "base/text_file.",
     "a file that may be a FIFO or endless: read it by base/text_file.h"),
    (re.compile(r"\bdlopen\((?!\))"), "base/shared_library.",
     "a library that may be a FIFO: load it by base/shared_library.h"),
]
OWNERS = ("base/fd.", "base/shared_library.")
# Bugs that a test plants in the product are patches.
PLANTED = re.compile(r"\bplanted\(|\b(Faults|NoFaults)\b(?=[:,>;]| =)")
# Code that waits must use the Waiter on data paths, poll_until() elsewhere.
SLEEPS = re.compile(r"\bthis_thread::sleep|\b(usleep|nanosleep)\(")
# The descriptor of a net::WakeSource: only the Sleeper uses it, which arms the source first.
ASKED = re.compile(r"(\.|->)poll_fd\(\)")
HANDED_ON = "poll_fd() const"
BESIDE_NETWORKS = ("collectives/", "transport/net/", "transport/proxy/")
SLEEPER = "transport/net/sleeper."
# Package headers that take seconds to compile: each has one source that includes it, behind a
# header of ours.
ONE_SOURCE = {"CLI/": "bench/command_line.cc", "nlohmann/": "base/json.cc"}
LIBRARY = ("base/", "topology/", "transport/", "kernels/", "collectives/", "api/")
PROGRAMS = ("api/examples/", "api/audit/", "api/watch/mpi/")

# A switch over these lists every value, so that the compiler (-Wswitch) finds what a new one lacks.
LISTED = re.compile(r"( *)case (Strategy|Algorithm|Order)::")
OTHER_ORDERS = "tests/simt/machine/"  # of memory

ALGORITHMS, ALGORITHMS_PAGE = "base/algorithm.h", "docs/internals/algorithms.md"

# Pages. Table rows can be longer.
README_LINES = 130
NAMED = re.compile(r"`((?:" + "|".join([*LAYERS, "docs", "cmake", r"\.ci"]) + r")/[^\s`]+)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
# The README's table is the only place that states what ran on which hardware. Pages on GPUs and
# RDMA give the figures, and state what a single feature lacks.
STATUS = re.compile(r"(?i)nothing (yet|has (run|been measured))|(not|has) run on a (real )?GPU"
                    r"|real GPU has been|ran on one H\d00")
STATUS_PAGE = "README.md"


def tracked():
    listing = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True)
    return listing.stdout.split("\n")[:-1]


def allowed(layer, included, path, target):
    """Imports point downwards; kernels see one header of transport."""
    if layer == "tests" or included == layer:
        return True
    if layer == "kernels" and included == "transport":
        return target == "transport/connection.h"
    return LAYERS.index(included) < LAYERS.index(layer)


def split_words(words, between):
    """A pattern of these words, with any match of `between` in place of blanks."""
    return "|".join(between.join(map(re.escape, word.split())) for word in words)


def word_findings(path):
    """Finds words and names that have a plain replacement."""
    if path == WORD_LIST:
        return
    with open(path, encoding="utf-8") as file:
        text = file.read()
    words = re.compile(rf"(?i)\b(?:{split_words(PLAIN_WORDS, BETWEEN_WORDS)})\b")
    for found in words.finditer(text):
        word = re.sub(BETWEEN_WORDS, " ", found.group()).lower()
        yield text.count("\n", 0, found.start()) + 1, f"'{word}': write {PLAIN_WORDS[word]}"
    for name, plain in PLAIN_NAMES.items():
        for found in re.finditer(rf"\b(?:{name}_(?!common)|k{name.title()}(?![a-z]))", text):
            yield text.count("\n", 0, found.start()) + 1, f"a name with '{name}': write {plain}"


def names_in(path):
    """Yields (line, name) for all names of the code, and for those in C++ comments that are no
    plain words."""
    if path.endswith(".py"):
        with open(path, "rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.NAME:
                    yield token.start[0], token.string
    elif path.endswith(SOURCES):
        with open(path, encoding="utf-8") as file:
            text = BLOCK_COMMENT.sub(lambda found: "\n" * found.group().count("\n"), file.read())
            for number, line in enumerate(text.split("\n"), 1):
                code, _, comment = TEXT.sub('""', line).partition("//")
                yield from ((number, name) for name in NAME.findall(code))
                for name in NAME.findall(comment):
                    if re.search(r"_|[a-z][A-Z]", name):
                        yield number, name


def name_findings(path):
    for number, name in names_in(path):
        if name in FOREIGN_NAMES:
            continue
        for part in map(str.lower, NAME_PARTS.findall(name)):
            if part in NAME_WORDS:
                yield number, f"'{part}' in {name}: write {NAME_WORDS[part]}"


def findings(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    layer = path.split("/")[0]
    listed = None
    if LICENCE not in "".join(lines[:2]):
        yield 1, f"no line '{LICENCE}' at the top"
    if len(lines) - 1 > MAX_LINES and not path.startswith("api/nccl.h"):
        yield 1, f"{len(lines) - 1} lines, at most {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} columns, at most {MAX_COLUMNS}"
        if UNFINISHED.search(line):
            yield number, "a word that marks something unfinished"
        if path.startswith(LIBRARY) and not path.startswith(PROGRAMS):
            for pattern, home, text in GUARDED:
                if path != home and path.endswith(SOURCES) and pattern.search(line):
                    yield number, text
            code = TEXT.sub('""', line).split("//")[0]
            for pattern, home, text in OPENS_NAMED:
                if not path.startswith(home) and pattern.search(code):
                    yield number, text
            if PLANTED.search(code):
                yield number, "a bug for tests: plant it by a patch in tests/planted"
            if MAKES_DESCRIPTOR.search(code) and not OWNED.search(code):
                if not path.startswith(OWNERS):
                    yield number, "a descriptor without an owner: give it to Fd or net::Socket"
        if (case := LISTED.match(line)) and not path.startswith(OTHER_ORDERS):
            listed = case.group(1)
        elif "switch (" in line or line.startswith("}"):
            listed = None
        elif listed is not None and line.startswith(listed + "default:"):
            yield number, "a default beside strategies or algorithms: list every value"
        if path.endswith(SOURCES) and (old := REPLACED.search(TEXT.sub('""', line))):
            yield number, f"'{old.group()}': the glossary has another name for it"
        if path.startswith("collectives/") and SLEEPS.search(line):
            yield number, "a sleep: use the Waiter (base/wait.h) or base/poll_until.h"
        if path.startswith(BESIDE_NETWORKS) and not path.startswith(SLEEPER):
            if ASKED.search(line) and HANDED_ON not in line:
                yield number, "a descriptor to sleep on: use net::Sleeper, which arms its source"
        package = re.match(r'\s*#\s*include\s+<(\w+/)', line)
        home = ONE_SOURCE.get(package.group(1)) if package else None
        if home not in (None, path) and layer != "tests":
            yield number, f"{package.group(1)} takes seconds to compile: {home} alone includes it"
        include = INCLUDE.match(line)
        if include and layer in LAYERS:
            target = include.group(1)
            included = target.split("/")[0]
            if included in LAYERS and not allowed(layer, included, path, target):
                yield number, f"{layer} may not include {target}: imports point downwards"
            elif included == layer and layer != "tests" and not may_include(path, target):
                yield number, f"{path.rpartition('/')[0]} may not include {target}"


def anchors(path):
    """The anchors of a page's headings, as GitHub generates them."""
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"^#+ (.*)$", file.read(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text).lower().replace(" ", "-") for text in headings}


def link_finding(path, link):
    if re.match(r"https?://", link):
        return None
    name, _, anchor = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if not os.path.exists(target):
        return f"a link to {link}, which is not there"
    if anchor and anchor not in anchors(target):
        return f"a link to {link}: no such heading"
    return None


@functools.cache
def test_sources():
    texts = []
    for path in tracked():
        if path.startswith("tests/") and path.endswith(SOURCES):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
    return "\n".join(texts)


def missing_tests(line):
    """The patterns of a line's --gtest_filter whose suite no test source names."""
    for patterns in re.findall(r"--gtest_filter='?([\w*.:/]+)", line):
        for pattern in patterns.split(":"):
            if not all(part in test_sources() for part in re.split(r"[*/]", pattern.split(".")[0])):
                yield pattern


def algorithm_names():
    with open(ALGORITHMS, encoding="utf-8") as file:
        return re.findall(r'(?:FIRST|NEXT)\(k\w+, "(\w+)"\)', file.read())


def page_findings(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    if path == "README.md" and len(lines) - 1 > README_LINES:
        yield 1, f"{len(lines) - 1} lines, at most {README_LINES}"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS and not line.startswith("|") and not path.startswith("api/"):
            yield number, f"{len(line)} columns, at most {MAX_COLUMNS}"
        if path != STATUS_PAGE and (found := STATUS.search(line)):
            yield number, f"'{found.group()}': {STATUS_PAGE} alone says what ran on what"
        for link in LINK.findall(line):
            if finding := link_finding(path, link):
                yield number, finding
        for name in NAMED.findall(line):
            if "NAME" not in name and not glob.glob(name.rstrip(".,:;")):
                yield number, f"{name} is not there"
        for pattern in missing_tests(line):
            yield number, f"no test is called {pattern}"
    if path == ALGORITHMS_PAGE:
        for name in algorithm_names():
            if not re.search(rf"\b{name}\b", "\n".join(lines)):
                yield 1, f"algorithm '{name}' of {ALGORITHMS} is missing"


def main():
    paths = tracked()
    sources = [path for path in paths if path.endswith(SOURCES)]
    checked = sources + [path for path in paths if path.endswith(SCRIPTS)]
    failed = 0
    for path in checked:
        for line, text in findings(path):
            print(f"{path}:{line}: {text}")
            failed += 1
    for path, text in [*class_findings(sources), *patch_findings(sources), *generated_findings(),
                       *import_findings(paths)]:
        print(f"{path}:1: {text}")
        failed += 1
    for path, line, text in [*comment_findings(paths), *figure_findings(paths)]:
        print(f"{path}:{line}: {text}")
        failed += 1
    for commit, text in subject_findings():
        print(f"commit {commit}: {text}")
        failed += 1
    folders = {folder_of(path) for path in sources if path.split("/")[0] in LAYERS[:-1]}
    for text in row_findings(folders):
        print(f"{TABLE}:1: {text}")
        failed += 1
    pages = [path for path in paths if path.endswith(".md")]
    for path in pages:
        for line, text in page_findings(path):
            print(f"{path}:{line}: {text}")
            failed += 1
    for path in checked:
        for line, text in name_findings(path):
            print(f"{path}:{line}: {text}")
            failed += 1
    for path in checked + pages:
        for line, text in word_findings(path):
            print(f"{path}:{line}: {text}")
            failed += 1
    published = subprocess.run([sys.executable, "-B", "bench/compare/publish.py", "--check"])
    failed += published.returncode != 0
    for start in range(0, len(sources), 50):
        command = ["clang-format-14", "--dry-run", "--Werror", *sources[start:start + 50]]
        failed += subprocess.run(command).returncode != 0
    print(f"lint: {len(checked) + len(pages)} files, {failed} findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
