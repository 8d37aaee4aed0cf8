# SPDX-License-Identifier: Apache-2.0
"""PyTorch's CUDA wheels against the library: what they import from NCCL, and that it is ours.

  check.py --refresh [VERSION]   writes nccl_imports.txt anew, for all versions or for one
  check.py --import 2.15.0 LIB   installs the whole wheel (5 GB) into build/torch-cuda-2.15.0 and
                                 imports it under LD_PRELOAD=LIB (a libnccl.so.2), with no GPU

--refresh downloads 540 MB a version from PyPI and keeps none of it.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "nccl_imports.txt"  # one name a line, then the versions that import it
TOP = HERE.parents[2]
VERSIONS = ("2.11.0", "2.12.1", "2.14.1", "2.15.0")
NO_LIMITS = {**os.environ, "PIP_CONSTRAINT": os.devnull}  # a version is given explicitly
LIBRARY = "torch/lib/libtorch_cuda.so"

PROOF = """
import ctypes, os, sys, torch

class Found(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("file_base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("symbol_base", ctypes.c_void_p)]

ours = os.path.realpath(os.environ["LD_PRELOAD"])
torch_cuda = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cuda.so"))
dladdr = ctypes.CDLL(None).dladdr
for name in sys.argv[1:]:
    address, found = ctypes.cast(getattr(torch_cuda, name), ctypes.c_void_p), Found()
    assert dladdr(address, ctypes.byref(found)), name
    assert os.path.realpath(found.file.decode()) == ours, (name, found.file)
ticket = torch.cuda.nccl.unique_id()
assert ticket.startswith(b"RondoID"), "torch.cuda.nccl.unique_id() is not Rondo's"
print(f"torch {torch.__version__}: {len(sys.argv) - 1} names and unique_id() are Rondo's")
"""


def names_of(version: str) -> list[str]:
    rows = [line.split() for line in TABLE.read_text().splitlines()]
    return [name for name, *versions in rows if version in versions]


def refresh(version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
             "--only-binary=:all:", "--index-url=https://pypi.org/simple", "--dest", folder,
             f"torch=={version}"],
            check=True, env=NO_LIMITS,
        )  # fmt: skip
        (wheel,) = pathlib.Path(folder).glob("torch-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(LIBRARY, folder)
        listing = subprocess.run(
            ["nm", "-D", "--undefined-only", pathlib.Path(folder) / LIBRARY],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
    names = sorted({word for word in listing.split() if word.startswith(("nccl", "pnccl"))})
    if not names:
        sys.exit(f"{LIBRARY} of torch {version} imports nothing from NCCL: has it changed?")
    lists = {each: names_of(each) for each in VERSIONS} | {version: names}
    rows = [
        " ".join([name, *(each for each in VERSIONS if name in lists[each])])
        for name in sorted(set().union(*lists.values()))
    ]
    TABLE.write_text("\n".join(rows) + "\n")
    print(f"torch {version}: {len(names)} names")


def import_whole(version: str, library: pathlib.Path) -> None:
    folder = TOP / "build" / f"torch-cuda-{version}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", f"torch=={version}"],
        check=True,
        env=NO_LIMITS,
    )
    environment = {**os.environ, "LD_PRELOAD": str(library.resolve())}
    subprocess.run([python, "-c", PROOF, *names_of(version)], check=True, env=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--refresh", nargs="*", choices=VERSIONS, metavar="VERSION")
    parser.add_argument("--import", nargs=2, dest="whole", metavar=("VERSION", "LIB"))
    options = parser.parse_args()
    if options.refresh is not None:
        for version in options.refresh or VERSIONS:
            refresh(version)
    if options.whole:
        import_whole(options.whole[0], pathlib.Path(options.whole[1]))


if __name__ == "__main__":
    main()
