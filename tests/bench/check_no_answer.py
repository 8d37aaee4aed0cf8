# SPDX-License-Identifier: Apache-2.0
"""bench/compare.sh: a contestant that hangs is detected, named and leaves no process behind."""
import os
import sys
import time

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import groups  # noqa: E402

# Two ranks report that they are ready; the second one never answers a request for a number.
SCRIPT = """
for r in 0 1; do echo ready > "$0/out.$r"; done
read line < "$0/in.0"
echo "ok 0.5" > "$0/out.0"
sleep 600 & wait
"""


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().split()[2] != "Z"
    except OSError:
        return False


def main():
    groups.command_of = lambda name, ranks, folder, *_: ["sh", "-c", SCRIPT, folder]
    group = groups.Group("sleeper", 2, "build")
    group.patience = 1.0
    try:
        group.measure("all_reduce", 4, 0.01)
        raise SystemExit("the hanging contestant was not noticed")
    except groups.NoAnswer as failure:
        assert str(failure).startswith("sleeper on 2 ranks: no answer in 1 s."), failure
    for _ in range(3000):  # the shell and its sleep
        pids = group.pids()
        if len(pids) >= 2:
            break
        time.sleep(0.1)
    assert len(pids) >= 2, pids
    group.close(hangs=True)
    for _ in range(3000):
        left = [pid for pid in pids if runs(pid)]
        if not left:
            break
        time.sleep(0.1)
    assert not left and not os.path.exists(group.folder), left


main()
