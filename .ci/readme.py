#!/usr/bin/env python3
"""Runs every ```bash block of a page, in order, each in a shell of its own at the top folder.

  .ci/readme.py [PAGE] [--skip COMMAND ...]   PAGE: README.md; blocks with a skipped command are
                                              left out
"""
import argparse
import re
import subprocess
import sys

LIMIT_SECONDS = 900


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", nargs="?", default="README.md")
    parser.add_argument("--skip", nargs="*", default=[])
    options = parser.parse_args()
    with open(options.page, encoding="utf-8") as file:
        blocks = re.findall(r"^```bash\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    ran = 0
    for block in blocks:
        if any(command in block for command in options.skip):
            continue
        print(f"--- {options.page}: {block.strip()}", flush=True)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], timeout=LIMIT_SECONDS)
        if done.returncode != 0:
            print(f"{options.page}: a block failed with status {done.returncode}:\n{block}")
            return 1
        ran += 1
    print(f"{options.page}: {ran} blocks ran")
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
