#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the subjects of commits: at most 72 columns.

  .ci/subjects.py FILE     of a message that git is about to commit (.pre-commit-config.yaml)

.ci/lint.py checks all commits that were made after SINCE and that this clone has. Merges have the
subjects that git or a host of code gives them, and are not checked.
"""
import subprocess
import sys

MAX_COLUMNS = 72
SINCE = "2026-11-28T23:00:00Z"


def finding(subject):
    """What is wrong with a subject; None if nothing is."""
    if len(subject) <= MAX_COLUMNS:
        return None
    return f"a subject of {len(subject)} columns, at most {MAX_COLUMNS}: {subject}"


def subject_findings():
    """Yields (commit, text). Without a repository, as in a source archive, there is none."""
    log = subprocess.run(["git", "log", "--no-merges", f"--since={SINCE}", "--format=%h %s"],
                         check=False, capture_output=True, text=True)
    for commit, _, subject in (line.partition(" ") for line in log.stdout.splitlines()):
        if text := finding(subject):
            yield commit, f"{text}\n  git commit --amend or git rebase changes it"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        subject = file.readline().rstrip("\n")
    if text := finding(subject):
        print(text)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
