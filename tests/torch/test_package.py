# SPDX-License-Identifier: Apache-2.0
"""The wheel: one for every Python and every torch, with the library and a C module inside."""

import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import re
import subprocess
import sys
import tomllib

import pytest

SOURCE = pathlib.Path(__file__).parents[2] / "api" / "torch"
PRIVATE = {"_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct", "_Py_Dealloc"}  # also stable
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0"}


@pytest.fixture
def package():
    try:
        return importlib.metadata.distribution("rondo-ccl")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")


def tag_of(package):
    (tag,) = re.findall(r"^Tag: (.+)$", package.read_text("WHEEL"), re.MULTILINE)
    return tag


def test_its_python_files_are_those_of_the_package(package):
    packed = {str(file): file.read_binary() for file in package.files if file.suffix == ".py"}
    sources = {
        str(path.relative_to(SOURCE)): path.read_bytes() for path in SOURCE.glob("rondo/**/*.py")
    }
    assert sorted(packed) == sorted(sources)
    assert [name for name, text in packed.items() if text != sources[name]] == []


def readelf(option, package):
    """Of the library and of the module."""
    names = ("lib/librondo.so.1", "torch/usual_calls.abi3.so")
    files = [str(package.locate_file(f"rondo/{name}")) for name in names]
    command = ["readelf", option, *files]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_one_wheel_serves_every_python(package):
    machine = platform.machine()
    assert re.fullmatch(rf"cp310-abi3-manylinux_2_\d+_{machine}", tag_of(package))


def test_torch_is_neither_fetched_nor_pinned(package):
    assert not package.requires
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())
    assert project["build-system"]["requires"] == ["hatchling>=1.28"]
    assert project["project"]["dependencies"] == []
    assert not (SOURCE / "__init__.py").exists()


def test_the_module_uses_only_the_stable_interface_of_python(package):
    assert importlib.util.find_spec("rondo.torch.usual_calls") is not None
    symbols = set(re.findall(r" UND (_?Py\w+)", readelf("-sW", package)))
    assert symbols and not {name for name in symbols if name.startswith("_Py")} - PRIVATE


def test_the_library_needs_the_c_library_alone_and_none_newer_than_its_tag(package):
    needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", readelf("-d", package)))
    assert {name for name in needed if not name.startswith("ld-linux")} <= GLIBC
    newest = max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", readelf("-V", package)))
    assert newest <= int(re.search(r"manylinux_2_(\d+)", tag_of(package))[1])


def test_torch_finds_the_backend_by_its_entry_point(package):
    (entry,) = [e for e in package.entry_points if e.group == "torch.backends"]
    assert entry.value == "rondo.autoload:autoload"


def run_rondo(*arguments, **options):
    command = [sys.executable, "-m", "rondo", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def test_the_command_is_of_the_same_version(package):
    assert run_rondo("--version").startswith(f"rondo {package.version} ")


def test_the_command_measures(package):
    table = run_rondo("bench", "all_reduce", "--ranks", "2", "-b", "1K", "-e", "1K", "-n", "5")
    assert "# Out of bounds values : 0 OK" in table


def test_a_program_is_built_against_the_wheel_and_runs_preloaded(package, tmp_path):
    root = run_rondo("prefix").strip()
    example = pathlib.Path(root, "share", "rondo", "examples", "hello_allreduce.c")
    environment = {**os.environ, "PKG_CONFIG_PATH": f"{root}/lib/pkgconfig"}
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "rondo"],
        check=True, stdout=subprocess.PIPE, text=True, env=environment,
    ).stdout.split()  # fmt: skip
    hello = tmp_path / "hello"
    subprocess.run(["cc", example, *flags, f"-Wl,-rpath,{root}/lib", "-o", hello], check=True)
    assert run_rondo("run", "-n", "2", "--", hello).count("\n") >= 2
    library = run_rondo("preload").strip().removeprefix("LD_PRELOAD=")
    assert pathlib.Path(library) == pathlib.Path(root, "lib", "libnccl.so.2").resolve()
