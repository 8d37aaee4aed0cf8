# SPDX-License-Identifier: Apache-2.0
"""What this machine has: programs, libraries, a device; asked without waiting for anything long."""

import glob
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent  # tests/gpu, or the bundle
ASKED = "name,driver_version,memory.total,compute_cap,clocks.max.sm,clocks.max.memory"

# Sizes of the benchmarks, chosen by SIZES=: for a real device, and for an emulated one.
SIZES = {
    "full": {
        "way": "-b 4 -e 4M -f 1024", "small": "-b 4 -e 1M -f 16 -n 50", "n": "20",
        "graph": "-b 4 -e 64K -f 16 -n 50 -G 4",
        "large": "-b 16M -e 256M -f 16 -n 10 -w 2 --rotate 512M -c 0",
        "middle": "-b 64K -e 64M -f 32 -n 10", "ring": "-b 64K -e 64M -f 32 -n 10 -w 2",
        "mixed": "-b 4 -e 64M -f 32 -n 20 -w 2", "micro": "--iterations 30", "tune": "--max 8M",
        "beside_sizes": "8,65536,1048576,16777216,268435456", "counted": "64M",
        "nccl_sizes": "65536,2097152,67108864",
    },
    "tiny": {
        "way": "-b 4 -e 4K -f 1024", "small": "-b 4 -e 1K -f 16 -n 3", "n": "2",
        "graph": "-b 4 -e 1K -f 16 -n 3 -G 2",
        "large": "-b 64K -e 64K -f 4 -n 2 -w 1 --rotate 256K -c 0",
        "middle": "-b 4K -e 16K -f 4 -n 2 -w 1", "ring": "-b 4K -e 16K -f 4 -n 2 -w 1",
        "mixed": "-b 4 -e 16K -f 4096 -n 2 -w 1", "micro": "--iterations 2 --large 65536",
        "tune": "--max 2K --min-time 0.001",
        "beside_sizes": "8,4096", "counted": "16K", "nccl_sizes": "4096,16384",
    },
}  # fmt: skip


def found(name: str, *places: str) -> str:
    """A program on the PATH or at one of the places; "": nowhere."""
    for path in (shutil.which(name), *sum((sorted(glob.glob(p)) for p in places), [])):
        if path and os.access(path, os.X_OK):
            return path
    return ""


def nvidia_folder() -> str:
    """Where PyPI's packages of NVIDIA's libraries are."""
    spec = importlib.util.find_spec("nvidia")
    return next(iter(spec.submodule_search_locations or []), "") if spec else ""


class Machine:
    def __init__(self, built: str) -> None:
        self.bin, self.lib = f"{built}/bin", f"{built}/lib"
        self.emulated = bool(glob.glob(f"{self.lib}/libcudart.so.1?"))
        nvidia = nvidia_folder()
        self.cudart = next(
            (hit for place in (f"{self.lib}/libcudart.so.1?", f"{nvidia}/*/lib/libcudart.so.1?",
                               "/usr/local/cuda/lib64/libcudart.so.1?")
             for hit in sorted(glob.glob(place), reverse=True)), "")  # fmt: skip
        self.theirs = next(iter(glob.glob(f"{nvidia}/nccl/lib/libnccl.so.2")), "")
        self.several = self._of_several_ranks(built)
        self.before = f"{built}/before"  # of pack.sh: the programs of an earlier commit
        self.sanitizer = found("compute-sanitizer", "/usr/local/cuda*/bin/compute-sanitizer")
        self.ncu = found("ncu", "/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
        beside = HERE.parent.parent / "bench" / "beside" / "beside.py"
        self.beside = str(beside if beside.exists() else HERE / "beside.py")
        self.device, self.gpus = self._ask_device()
        sizes = os.environ.get("SIZES", "tiny" if self.emulated else "full")
        if sizes not in SIZES:
            sys.exit(f"SIZES={sizes}: use {' or '.join(SIZES)}")
        self.words = {
            **SIZES[sizes], "bin": self.bin, "lib": self.lib, "here": str(HERE),
            "python": sys.executable, "cudart": self.cudart, "theirs": self.theirs,
            "beside": self.beside, "sanitizer": self.sanitizer, "ncu": self.ncu,
            "several": self.several, "before": self.before,
            "gpus": str(self.gpus),
        }  # fmt: skip

    def _of_several_ranks(self, built: str) -> str:
        """An NCCL that allows several ranks on a device: 2.30 or later; the bundle may have one."""
        code = (
            "import ctypes, sys; v = ctypes.c_int(); "
            "ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v)); print(v.value)"
        )
        for library in (f"{built}/theirs/libnccl.so.2", self.theirs):
            if not os.path.exists(library):
                continue
            done = subprocess.run([sys.executable, "-c", code, library], capture_output=True,
                                  text=True, timeout=60)  # fmt: skip
            if done.returncode == 0 and int(done.stdout.split()[-1]) >= 23000:
                return library
        return ""

    @staticmethod
    def _ask_device() -> tuple[dict, int]:
        """Only reads: these tests must not change settings of the card."""
        try:
            output = subprocess.run(
                ["nvidia-smi", f"--query-gpu={ASKED}", "--format=csv,noheader"],
                capture_output=True, text=True, timeout=20,
            ).stdout.strip().splitlines()  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            output = []
        if not output:
            return {}, 0
        return dict(zip(ASKED.split(","), [w.strip() for w in output[0].split(",")])), len(output)

    def lacks(self, need: str) -> str:
        """Why a stage that needs this cannot run; "": it can."""
        if need.startswith("bin:"):
            there = os.access(f"{self.bin}/{need[4:]}", os.X_OK)
            return "" if there else f"there is no {need[4:]} in {self.bin}"
        reasons = {
            "": "",
            "torch": "" if importlib.util.find_spec("torch") else "python3 has no torch",
            "cudart": "" if self.cudart else "no libcudart.so beside CUDA or PyTorch",
            "theirs": "" if self.theirs else "PyTorch brings no libnccl.so.2 here",
            "several-nccl": ""
            if self.several
            else "there is no NCCL of 2.30 or later (tests/gpu/small_nccl.sh)",
            "sanitizer": "" if self.sanitizer else "compute-sanitizer is not on this machine",
            "ncu": "" if self.ncu else "ncu is not on this machine",
            "one": "" if self.gpus <= 1 else f"there are {self.gpus} GPUs",
            "several": "" if self.gpus > 1 else "there is one GPU",
            "before": self._lacks_before(),
        }
        return reasons[need]

    def _lacks_before(self) -> str:
        if self.gpus < 2:
            return "there is one GPU"
        there = os.access(f"{self.before}/bin/rondo", os.X_OK)
        return "" if there else "there are no programs of an earlier commit (BEFORE of pack.sh)"

    def facts(self) -> dict:
        commit = HERE / "commit"
        named = commit.read_text().strip() if commit.exists() else self._commit_of_checkout()
        return {
            "device": self.device, "gpus": self.gpus, "emulated": self.emulated, "commit": named,
            "cores": os.cpu_count(), "python": sys.version.split()[0], "cudart": self.cudart,
            "nccl": self.theirs, "ncu": self.ncu, "compute_sanitizer": self.sanitizer,
        }  # fmt: skip

    @staticmethod
    def _commit_of_checkout() -> str:
        try:
            return subprocess.run(
                ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=12"],
                capture_output=True, text=True, timeout=5,
            ).stdout.strip()  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ""
