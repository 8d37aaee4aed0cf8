# SPDX-License-Identifier: Apache-2.0
"""Running: one command in a process group of its own, which ends with all that it started.

Output goes to a file, so nobody waits for a pipe. Every process of the command carries a mark in
its environment; at the end, whatever still has it is killed, also where it left the process group.
A process that not even SIGKILL ends (it hangs in the driver) is left behind after 5 s, and said so.
"""

import os
import pathlib
import signal
import subprocess
import time

MARK = "RONDO_CHECK_MARK"
PATIENCE = 5.0  # seconds until a killed process has to be gone


class Running:
    def __init__(self, words: list[str], env: dict[str, str], seconds: float, output: str) -> None:
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.begin, self.seconds, self.hung = time.monotonic(), seconds, False
        self.output = pathlib.Path(output)
        self.notes: list[str] = []
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                env={**os.environ, **env, MARK: self.mark}, start_new_session=True,
            )  # fmt: skip

    def over(self) -> bool:
        """Kills it where its time is up; true once it is gone, its children too."""
        if self.process.poll() is None and self.age() > self.seconds:
            self.hung = True
            self.kill()
        if self.process.poll() is None and not self.hung:
            return False
        strays = self.strays()
        if strays and not self.hung:
            self.notes.append(f"it left {len(strays)} processes behind")
        self.end_all(strays)
        return True

    def age(self) -> float:
        return time.monotonic() - self.begin

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.end_all(self.strays())
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.notes.append(f"process {self.process.pid} outlives SIGKILL")

    def strays(self) -> list[int]:
        wanted, found = f"{MARK}={self.mark}".encode(), []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == self.process.pid:
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                pass  # gone, or of another user
        return found

    def end_all(self, pids: list[int]) -> None:
        deadline = time.monotonic() + PATIENCE
        while pids and time.monotonic() < deadline:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
            pids = self.strays()
        if pids:
            self.notes.append(f"processes outlive SIGKILL: {pids}")

    def text(self, limit: int = 400_000) -> str:
        """What it said; of very much the beginning and the end."""
        data = self.output.read_bytes()
        if len(data) > limit:
            cut = len(data) - limit
            gap = f"\n... {cut} bytes ...\n".encode()
            data = data[: limit // 4] + gap + data[-limit * 3 // 4 :]
        return data.decode(errors="replace").replace("\0", "")
