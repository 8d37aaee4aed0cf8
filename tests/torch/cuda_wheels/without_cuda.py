# SPDX-License-Identifier: Apache-2.0
"""Makes a CUDA build of PyTorch run on the CPU without the CUDA libraries that it is linked with.

  without_cuda.py SITE_PACKAGES     of an environment with torch, installed by pip --no-deps

PyPI's wheel is linked with 4 GB of libraries that a machine without a GPU never calls. In place of
those that are missing this puts libraries of the same names and versions into torch/lib: functions
that return cudaErrorNoDevice. Takes 5 s; does nothing where none is missing.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

NO_DEVICE = 100  # cudaErrorNoDevice
NVIDIA = re.compile(r"lib(cu|nv|nccl)")
OURS = re.compile(r"(__)?cu|nv|nccl")  # prefixes of their functions' names
VERSIONS_ELSEWHERE = {"NVSHMEM": "libnvshmem_host.so.3"}  # the rest have their libraries' names
UNVERSIONED = "libnccl.so.2"  # any of those without versions


def read(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(which: str, files: list[pathlib.Path]) -> set[str]:
    lines = read("nm", "-D", which, *files).splitlines()
    return {line.split()[-1] for line in lines if line.split() and not line.endswith(":")}


def missing(folder: pathlib.Path) -> dict[str, dict[str, list[str]]]:
    """Libraries that torch needs and this environment lacks: names of functions by version."""
    files = sorted(folder.glob("*.so*"))
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", read("readelf", "-d", *files)))
    installed = {file.name for file in folder.parents[1].glob("nvidia/**/lib*.so*")}
    absent = {n for n in needed if NVIDIA.match(n)} - installed - {file.name for file in files}
    libraries: dict[str, dict[str, list[str]]] = {name: {} for name in sorted(absent)}
    defined = {name.split("@")[0] for name in symbols("--defined-only", files)}
    for symbol in symbols("--undefined-only", files):
        name, _, version = symbol.partition("@")
        library = VERSIONS_ELSEWHERE.get(version, version or UNVERSIONED)
        if name not in defined and library in absent and (version or OURS.match(name)):
            libraries[library].setdefault(version, []).append(name)
    return libraries


def body(name: str) -> str:
    if "String" in name or "ErrorName" in name:
        return f'const char* {name}(void) {{ return ""; }}\n'
    return f"int {name}(void) {{ return {NO_DEVICE}; }}\n"


def build(folder: pathlib.Path, library: str, versions: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as work:
        source, script = pathlib.Path(work, "absent.c"), pathlib.Path(work, "versions")
        source.write_text("".join(body(n) for names in versions.values() for n in sorted(names)))
        command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{library}"]
        if named := [version for version in versions if version]:
            (version,) = named
            script.write_text(f"{version} {{ global: *; }};\n")
            command.append(f"-Wl,--version-script={script}")
        subprocess.run([*command, "-o", folder / library, source], check=True)


def main() -> None:
    folder = pathlib.Path(sys.argv[1], "torch", "lib")
    libraries = missing(folder)
    for library, versions in libraries.items():
        build(folder, library, versions)
    print(f"{len(libraries)} libraries of CUDA stand in for those that are missing")


if __name__ == "__main__":
    main()
