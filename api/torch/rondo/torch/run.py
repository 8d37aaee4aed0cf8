# SPDX-License-Identifier: Apache-2.0
"""python -m rondo.torch.run: runs a script that says "gloo", "nccl" or "mpi" on Rondo, unedited.

    python -m rondo.torch.run train.py --epochs 2
    torchrun --nproc-per-node 4 -m rondo.torch.run train.py
    srun python -m rondo.torch.run train.py                      # or mpirun
    python -m rondo.torch.run --device cpu ddp_tutorial.py       # a GPU program without a GPU

Unless NCCL_DEBUG is set, one line on stderr names the version that serves the script. This only
sets variables and starts Python again: every process that the script starts reads them when it
imports torch (rondo/autoload.py).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys


def preload() -> None:
    """In front of what is preloaded already."""
    command = [sys.executable, "-m", "rondo", "preload"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    library = done.stdout.strip().removeprefix("LD_PRELOAD=")
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = f"{library}:{before}" if before else library


def find_ranks() -> None:
    """Started by mpirun or srun: the script finds torchrun's variables."""
    if "RANK" in os.environ:
        return
    try:
        from rondo.torch import launchers
    except ImportError:  # without the library; the script's first group says so
        return
    if launchers.launched().size > 1:
        launchers.set_variables(requires_master=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rondo.torch.run", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--device", metavar="cpu|cuda:0", help="device that replaces every GPU of the script"
    )
    parser.add_argument(
        "--devices", type=int, metavar="N", help="number of GPUs for the script (with --device)"
    )
    parser.add_argument(
        "--preload", action="store_true", help="also put Rondo in the place of NCCL (LD_PRELOAD)"
    )
    parser.add_argument("-m", action="store_true", dest="module", help="script is a module's name")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.device and options.device != "cpu" and not options.device.startswith("cuda:"):
        parser.error(f"--device {options.device}: cpu, or one GPU such as cuda:0")
    os.environ["RONDO_TORCH_RUN"] = "1"
    os.environ.setdefault("NCCL_DEBUG", "VERSION")
    if options.preload:
        preload()
    find_ranks()
    if options.device:
        os.environ["RONDO_TORCH_DEVICE"] = options.device
    if options.devices:
        os.environ["RONDO_TORCH_DEVICES"] = str(options.devices)
    script = ["-m", options.script] if options.module else [options.script]
    os.execv(sys.executable, [sys.executable, *script, *options.arguments])


if __name__ == "__main__":
    main()
