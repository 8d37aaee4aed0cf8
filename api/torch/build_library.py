# SPDX-License-Identifier: Apache-2.0
"""Build hook: compiles Rondo with CMake and puts its install tree into the wheel, below rondo/;
and the C module of the PyTorch back end.

Libraries and programs need only glibc, the module only CPython's stable ABI, so one wheel
(cp310-abi3) serves every Python from 3.10 on and every torch. An sdist holds the C++ sources below
source/. Variables: CMAKE_ARGS holds more options for CMake, RONDO_BUILD_DIR the build folder.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE / "source" if (HERE / "source").is_dir() else HERE.parents[1]
# What CMake reads. tests: the topology files that the command knows by name.
SOURCES = ["CMakeLists.txt", "cmake", "base", "topology", "transport", "kernels", "collectives",
           "api", "bench", "tests/topology", "LICENSE", "docs/CHANGELOG.md"]  # fmt: skip


def version() -> str:
    text = (TOP / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(rondo VERSION ([\d.]+)", text)[1]


def run(command: list) -> None:
    # ccache then shares compilations with the other builds of this tree.
    environment = {"CCACHE_BASEDIR": str(TOP), "CCACHE_NOHASHDIR": "1", **os.environ}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def build(
    staged: pathlib.Path,
    folder: pathlib.Path,
    targets: list,
    components: list,
    options: tuple = (),
) -> None:
    """Compiles, and installs components below `staged`: bin, lib, include, share."""
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
    options = ["-DRONDO_PORTABLE=ON", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_INSTALL_LIBDIR=lib",
               *options, *os.environ.get("CMAKE_ARGS", "").split()]  # fmt: skip
    run(["cmake", "-S", TOP, "-B", folder, "-G", "Ninja", *options])
    run(["cmake", "--build", folder, "-j", jobs, "--target", *targets])
    shutil.rmtree(staged, ignore_errors=True)
    for component in components:
        run(["cmake", "--install", folder, "--prefix", staged, "--strip", "--component", component])
    # A wheel holds no links. Linkers read a name of a library from a text file as well.
    for link in staged.rglob("*"):
        if not link.is_symlink():
            continue
        to = os.readlink(link)
        link.unlink()
        if link.suffix == ".so":
            link.write_text(f"INPUT({to})\n")


def platform_tag(staged: pathlib.Path) -> str:
    """The platform with the oldest glibc that has the symbols that the files need."""
    files = [*staged.glob("lib/*.so.*"), *staged.glob("bin/*")]
    command = ["readelf", "--version-info", "--wide", *files]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    minor = max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", text))
    return f"manylinux_2_{minor}_{os.uname().machine}"


def build_module(folder: pathlib.Path) -> pathlib.Path:
    headers = pathlib.Path(sysconfig.get_config_var("INCLUDEPY"))
    if not (headers / "Python.h").exists():
        sys.exit(f"{headers} has no Python.h: install this Python's headers (Debian: python3-dev)")
    module = folder / "usual_calls.abi3.so"
    options = ["-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", f"-I{headers}"]
    run([os.environ.get("CC", "cc"), *options, HERE / "usual_calls.c", "-o", module])
    return module


class Hook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        if self.target_name == "sdist":
            for name in SOURCES:
                build_data["force_include"][str(TOP / name)] = f"source/{name}"
            return
        if version == "editable":
            return
        folder = pathlib.Path(os.environ.get("RONDO_BUILD_DIR", TOP / "build" / "wheel"))
        staged = TOP / "build" / "wheel-tree"
        build(
            staged,
            folder=folder,
            targets=["rondo_shared", "nccl_shared", "rondo_audit", "rondo_watch", "rondo"],
            components=["runtime", "dev", "tools"],
        )
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-{platform_tag(staged)}"
        module = build_module(folder)
        build_data["force_include"][str(module)] = f"rondo/torch/{module.name}"
        for name in ("bin", "lib", "include", "share"):
            build_data["force_include"][str(staged / name)] = f"rondo/{name}"
