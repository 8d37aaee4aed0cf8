# SPDX-License-Identifier: Apache-2.0
"""Build hook: compiles Rondo with CMake and puts its install tree into the wheel, below rondo/;
and the C module of the PyTorch back end.

Libraries and programs need only glibc, the module only CPython's stable ABI, so one wheel
(cp310-abi3) serves every Python from 3.10 on and every torch. An SBOM (CycloneDX) lists what is
linked into them, and rondo/share/doc/licenses has its licences. An sdist holds the C++ sources
below source/. Variables: CMAKE_ARGS holds more options for CMake, RONDO_BUILD_DIR the build folder.
"""

import json
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
# What libraries and programs contain of others: the SPDX licence, and Debian's package of it.
LINKED = {
    "fmt": ("MIT", "libfmt-dev"),
    "highway": ("Apache-2.0", "libhwy-dev"),
    "pugixml": ("MIT", "libpugixml-dev"),
    "boost-context": ("BSL-1.0", "libboost1.74-dev"),
    "cli11": ("BSD-3-Clause", "libcli11-dev"),
    "nlohmann-json": ("MIT", "nlohmann-json3-dev"),
    "openssl": ("Apache-2.0", "libssl-dev"),
    "libstdc++": ("GPL-3.0-or-later WITH GCC-exception-3.1", "libstdc++-{gcc}-dev"),
}
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}  # of readelf


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
    """The platform with the oldest glibc that has the symbols that the files need; 2.28 at least,
    as PyTorch: systems with an older one have kernels that are too old."""
    files = [*staged.glob("lib/*.so.*"), *staged.glob("bin/*")]
    command = ["readelf", "--file-header", "--version-info", "--wide", *files]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    minor = max(28, *(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", text)))
    (machine,) = set(re.findall(r"Machine: +(.+)", text))
    return f"manylinux_2_{minor}_{MACHINES[machine]}"


def cached(folder: pathlib.Path, name: str) -> str:
    """A variable of a CMake build."""
    found = re.search(rf"^{name}:\w+=(.*)$", (folder / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found[1] if found else ""


def debian_version(package: str) -> str:
    """Of an installed package; "" where there is none, or no dpkg."""
    if not shutil.which("dpkg-query"):
        return ""
    command = ["dpkg-query", "-W", "-f", "${Version}", package]
    return subprocess.run(command, capture_output=True, text=True).stdout


def licence_of(name: str, file: pathlib.Path) -> str:
    """The text; of that of all of Boost (2 MB) the paragraphs about Boost.Context."""
    text = file.read_text(encoding="utf-8")
    if name != "boost-context":
        return text
    kept = [one for one in text.split("\n\n")
            if "\n libs/context/" in one or one.startswith("License: BSL-1.0\n ")]  # fmt: skip
    return "\n\n".join(kept) + "\n"


def write_sbom(staged: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Copies the licences of what is linked into the files of `staged`. Versions and licences that
    this system does not know are left out."""
    (known,) = (folder / "CMakeFiles").glob("*/CMakeCXXCompiler.cmake")
    gcc = re.search(r'CMAKE_CXX_COMPILER_VERSION "(\d+)', known.read_text())[1]
    own_openssl = pathlib.Path(cached(folder, "OPENSSL_CRYPTO_LIBRARY")).parents[1]
    licences = staged / "share" / "doc" / "licenses"
    licences.mkdir(parents=True)
    components = []
    for name, (licence, package) in LINKED.items():
        package = package.format(gcc=gcc)
        found = debian_version(package)
        text = pathlib.Path("/usr/share/doc", package, "copyright")
        if name == "openssl" and (own_openssl / "version").exists():
            found = (own_openssl / "version").read_text().strip()
            text = own_openssl / "LICENSE.txt"
        component = {"type": "library", "name": name, "licenses": [{"expression": licence}]}
        if found:
            component |= {"version": found, "purl": f"pkg:deb/debian/{package}@{found}"}
        if text.exists():
            (licences / f"{name}.txt").write_text(licence_of(name, text), encoding="utf-8")
        components.append(component)
    subject = {"type": "library", "name": "rondo-ccl", "version": version(),
               "licenses": [{"expression": "Apache-2.0"}]}  # fmt: skip
    sbom = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
            "metadata": {"component": subject}, "components": components}  # fmt: skip
    path = folder / "rondo-ccl.cdx.json"
    path.write_text(json.dumps(sbom, indent=1) + "\n", encoding="utf-8")
    return path


def build_module(folder: pathlib.Path) -> pathlib.Path:
    headers = pathlib.Path(sysconfig.get_config_var("INCLUDEPY"))
    if not (headers / "Python.h").exists():
        sys.exit(f"{headers} has no Python.h: install this Python's headers (Debian: python3-dev)")
    module = folder / "usual_calls.abi3.so"
    options = ["-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", f"-I{headers}"]
    for flags in ("CFLAGS", "LDFLAGS"):
        options += os.environ.get(flags, "").split()
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
        build_data["sbom_files"].append(str(write_sbom(staged, folder)))
        module = build_module(folder)
        build_data["force_include"][str(module)] = f"rondo/torch/{module.name}"
        for name in ("bin", "lib", "include", "share"):
            build_data["force_include"][str(staged / name)] = f"rondo/{name}"
