"""The wheel: one for every Python and every torch, with the library inside."""

import importlib.metadata
import pathlib
import platform
import re
import subprocess
import tomllib

import pytest

SOURCE = pathlib.Path(__file__).parents[2] / "api" / "torch"
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0"}


@pytest.fixture
def package():
    try:
        return importlib.metadata.distribution("rondo-torch")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")


def tag_of(package):
    (tag,) = re.findall(r"^Tag: (.+)$", package.read_text("WHEEL"), re.MULTILINE)
    return tag


def readelf(option, package):
    library = package.locate_file("rondo/torch/librondo.so.1")
    command = ["readelf", option, str(library)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_one_wheel_serves_every_python(package):
    machine = platform.machine()
    assert re.fullmatch(rf"py3-none-manylinux_2_\d+_{machine}", tag_of(package))


def test_torch_is_neither_fetched_nor_pinned(package):
    assert not package.requires
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())
    assert project["build-system"]["requires"] == ["hatchling"]
    assert project["project"]["dependencies"] == []
    assert not (SOURCE / "__init__.py").exists()


def test_the_library_needs_the_c_library_alone_and_none_newer_than_the_tag_says(package):
    needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", readelf("-d", package)))
    assert {name for name in needed if not name.startswith("ld-linux")} <= GLIBC
    newest = max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", readelf("-V", package)))
    assert newest <= int(re.search(r"manylinux_2_(\d+)", tag_of(package))[1])


def test_torch_finds_the_backend_by_its_entry_point(package):
    (entry,) = [e for e in package.entry_points if e.group == "torch.backends"]
    assert entry.value == "rondo.autoload:autoload"
