# SPDX-License-Identifier: Apache-2.0
"""Checks that C++ comments and pages are about what is there: the names in them are names of the
code, the files are files of the tree, and each comment stands on what it describes.

A name is a word in backquotes, a word with an inner capital (NetLink, kDepth) or an underscore, or
a word with parentheses (push()). Examples, which are indented, may invent all but the methods that
they call. On pages only what is in backquotes counts, and names only on those about the inside,
where a program or a stage of tests/run.sh is a name, too. FOREIGN lists names of other software.
"""
import functools
import glob
import re

SOURCES = (".cc", ".h", ".cu", ".c")
OTHER_CODE = (".py", ".sh", ".cmake", "CMakeLists.txt", ".json", ".yml", ".in", ".inc", ".map")
FOREIGN = set("""
    AArch64 ASan CMake CPython GFlop GPUDirect InfiniBand IPv4 IPv6 MurmurHash3 NVLink NVSwitch
    PCIe PascalCase PreMulSum PyTorch SGLang SplitMix64 TSan
    ARPHRD_LOOPBACK CUDA_ERROR_NOT_SUPPORTED CollnetDirect IBV_ACCESS_OPTIONAL_RANGE NVLSTree
    PIPE_BUF TIME_WAIT UCX_DEBUG_SIGNO UCX_ERROR_SIGNALS cudaErrorAssert fg inference_all_reduce
    ncclDebugLogSubSys ncclNet ncclProfiler_v5 ncclras numPipeOps pciDomainID regBuff seq_cst
    sm_70 sm_80 sm_89 snake_case ucp_mem_unmap
""".split())
FOREIGN_FILES = set("""
    cuda_runtime.h net_v8.h net_v12.h profiler_v1.h profiler_v6.h train.py tuner_v2.h tuner_v6.h
    ucp.h verbs.h
""".split())
PIECE = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|'
                   r"//[^\n]*|/\*.*?\*/", re.DOTALL)
WORD = re.compile(r"\b[A-Za-z]\w*")
BACKQUOTED = re.compile(r"`([\w:.>()&*-]+)`")
START = r"(?<![\w/.@\\-])"
CAPITALS = r"[A-Za-z]*[a-z][A-Z]\w*|[A-Z]{2,}[a-z]\w*"  # NetLink, kDepth, LLPush
NAMED = re.compile(START + r"(?:([A-Za-z_]\w*\*?)\(\)|"  # push(), hear*()
                   rf"((?:{CAPITALS}|[A-Za-z]\w*_\w*)\*?))(?![\w/=]|\.[a-z]+\b(?!\())")
CHAIN = re.compile(START + r"([a-z]\w*)(?:\.|->)(\w+)\(")  # reporter.waits()
METHOD = re.compile(r"(?:\.|->)([a-z]\w*)\(")
PLACEHOLDER = re.compile(r"[a-z]+_[A-Z]+|[A-Z]+_[a-z]+|[A-Z]+s")  # rondo_RANK, GPUs
QUOTED = re.compile(r'"[^"]*"')
EXAMPLE = re.compile(r"\s*(//|\*)\s{3,}\S")
FILE = re.compile(START + r"([a-z0-9_-]+\.(?:h|cc|cu|py|sh))\b(?!\()")
PATH = re.compile(r"(?<![\w/<])((?:base|topology|transport|kernels|collectives|api|bench|tests|"
                  r"docs|cmake|\.ci)/[\w./-]*\w\.(?:h|cc|cu|c|py|sh|md|txt|tsv|cmake))\b")
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ABOUT_THE_INSIDE = "docs/internals/"
TITLE = re.compile(r"\s*// (-{3,}|clang-format )")


def split_source(text):
    """The code with strings emptied and comments removed; the strings; [(line, comment)]."""
    code, strings, comments, end = [], [], [], 0
    for piece in PIECE.finditer(text):
        code.append(text[end:piece.start()])
        end = piece.end()
        if piece.group().startswith(("//", "/*")):
            first = text.count("\n", 0, piece.start()) + 1
            comments += enumerate(piece.group().split("\n"), first)
            code.append(" ")
        else:
            strings.append(piece.group())
            code.append('""')
    code.append(text[end:])
    return "".join(code), strings, comments


def is_name(word):
    return "_" in word or re.search("[a-z][A-Z]", word)


class Names:
    """All names of the tree's code, and those of its strings and scripts that are no words."""

    def __init__(self, paths):
        self.comments, self.known = {}, set(FOREIGN)
        self.sources = {path.rpartition("/")[2].partition(".")[0] for path in paths}
        for path in paths:
            if path.endswith(SOURCES + OTHER_CODE):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                if path.endswith(SOURCES):
                    code, strings, self.comments[path] = split_source(text)
                    self.known.update(WORD.findall(code))
                    text = " ".join(strings)
                self.known.update(filter(is_name, WORD.findall(text)))

    @functools.cache
    def has(self, name):
        if name.endswith(("*", "_")):  # hear*(), NCCL_*: names that begin so
            start = re.compile(name.rstrip("*_") + "[A-Z_]")
            return any(map(start.match, self.known))
        singular = re.sub("(?<=ch)es$|s$", "", name)
        return bool({name, singular} & self.known or PLACEHOLDER.fullmatch(name))

    @functools.cache
    def is_run(self, name):
        """True for a stage, and for a program whose name CMakeLists.txt puts together (micro_*)."""
        return f"stage_{name}" in self.known or name in self.sources


def names_of(comment):
    """The names in a line of a comment."""
    for quoted in BACKQUOTED.findall(comment):
        yield from WORD.findall(quoted)
    comment = QUOTED.sub(" ", BACKQUOTED.sub(" ", comment))
    if EXAMPLE.match(comment):
        yield from METHOD.findall(comment)
        return
    yield from (name for chain in CHAIN.findall(comment) for name in chain)
    yield from (called or named for called, named in NAMED.findall(comment))


def orphans(lines):
    """The lines of comments that an empty line follows, behind the file's own comment."""
    inside = False
    for number, line in enumerate(lines, 1):
        comment = line.lstrip().startswith("//")
        inside = inside or not comment
        if inside and comment and not TITLE.match(line) and lines[number:number + 1] == [""]:
            yield number


def page_findings(path, names, files):
    """Yields (path, line, text) for what is in backquotes outside of blocks."""
    with open(path, encoding="utf-8") as file:
        text = CODE_BLOCK.sub(lambda found: "\n" * found.group().count("\n"), file.read())
    for number, line in enumerate(text.split("\n"), 1):
        for quoted in BACKQUOTED.findall(line):
            if (named := FILE.fullmatch(quoted)) and named.group(1) not in files:
                yield path, number, f"{quoted} is not there"
            elif path.startswith(ABOUT_THE_INSIDE) and "." not in quoted:
                for name in filter(is_name, WORD.findall(quoted)):
                    if not names.has(name) and not names.is_run(name):
                        yield path, number, f"{name}: nothing has this name"


def comment_findings(paths):
    """Yields (path, line, text)."""
    names = Names(paths)
    files = {path.rpartition("/")[2] for path in paths} | FOREIGN_FILES
    for path in paths:
        if path.endswith(".md"):
            yield from page_findings(path, names, files)
    for path, comments in names.comments.items():
        for number, comment in comments:
            for name in names_of(comment):
                if not names.has(name):
                    yield path, number, f"{name}: nothing has this name"
            gone = [named for named in PATH.findall(comment) if not glob.glob(named)]
            gone += set(FILE.findall(comment)) - files
            yield from ((path, number, f"{named} is not there") for named in gone)
        with open(path, encoding="utf-8") as file:
            for number in orphans(file.read().split("\n")):
                yield path, number, "a comment on an empty line: put it on what it describes"
