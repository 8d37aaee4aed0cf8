# SPDX-License-Identifier: Apache-2.0
"""Servers of vLLM whose ranks are on two hosts: network namespaces at 10 Gb/s."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
for folder in ("bench/compare", "tests/torch/programs"):
    sys.path.insert(0, str(HERE.parents[1] / folder))
import hosts  # noqa: E402
from with_vllm import LLAMA  # noqa: E402

DEADLINE_SECONDS = 1200  # for busy machines; a start takes 40 s on an idle one
GBIT = 10
HTTP_PORT, MEETING_PORT = 8000, 29600
MODEL = LLAMA | {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8,
    "num_attention_heads": 8, "vocab_size": 512, "max_position_embeddings": 512,
}  # fmt: skip
SETTINGS = {
    "NCCL_DEBUG": "VERSION", "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
    "GLOO_SOCKET_IFNAME": hosts.DEVICE, "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip
# A host's name and shared memory: by the latter vLLM finds out which ranks share a host.
OF_ITS_OWN = 'hostname "$0"; mount --bind "$1" /dev/shm; shift; exec "$@"'


def write_model(folder):
    (folder / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")


@contextlib.contextmanager
def namespaces(count):
    """Hosts; at the end, what runs there is killed. Also if this process is asked to end."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGTERM, before)
        try:
            made = stack.enter_context(hosts.Hosts(count, GBIT))
        except SystemExit as reason:
            pytest.skip(str(reason))
        for host in range(count):
            stack.callback(shutil.rmtree, f"/dev/shm/{made.names[host]}", ignore_errors=True)
            stack.callback(lambda host=host: kill_all(processes(made, host)))
        yield made


def processes(made, host):
    """The pids on a host."""
    done = subprocess.run(
        ["ip", "netns", "pids", made.names[host]], check=True, capture_output=True, text=True
    )
    return [int(pid) for pid in done.stdout.split()]


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def eventually(condition, what, page=lambda: "", every=0.05):
    end = time.monotonic() + DEADLINE_SECONDS
    while not (value := condition()):
        if time.monotonic() > end:
            pytest.fail(f"not after {DEADLINE_SECONDS} s: {what}\n{page()}", pytrace=False)
        time.sleep(every)
    return value


class Server:
    """`vllm serve` on the hosts numbered `first` and `first + 1`, with half of the ranks on each.
    Each rank is a node of vLLM's: on CPUs, vLLM 0.32.0 takes one rank a node."""

    def __init__(self, made, first, folder, name, ranks=2, options=(), **variables):
        self.hosts, self.folder, self.name, self.ranks = made, folder, name, ranks
        self.on = [first + rank * 2 // ranks for rank in range(ranks)]  # by rank
        self.url = f"http://{made.address(first)}:{HTTP_PORT}"
        write_model(folder)
        self.nodes = [self.start(node, options, variables) for node in range(ranks)]

    def start(self, node, options, variables):
        address, host = self.hosts.address, self.on[node]
        serve = [
            str(pathlib.Path(sys.executable).parent / "vllm"), "serve", str(self.folder),
            "--load-format", "dummy", "--skip-tokenizer-init", "--max-model-len", "256",
            "--enforce-eager", "--max-num-seqs", "4", "--seed", "1", *options,
            "--tensor-parallel-size", str(self.ranks), "--nnodes", str(self.ranks),
            "--node-rank", str(node),
            "--master-addr", address(self.on[0]), "--master-port", str(MEETING_PORT),
            *(["--headless"] if node else ["--port", str(HTTP_PORT)]),
        ]  # fmt: skip
        memory = pathlib.Path("/dev/shm", self.hosts.names[host])
        memory.mkdir(exist_ok=True)
        name = self.host_name(node)
        alone = ["unshare", "--uts", "--mount", "sh", "-euc", OF_ITS_OWN, name, str(memory)]
        with open(self.log(node), "w", encoding="utf-8") as log:
            return subprocess.Popen(
                self.hosts.on(host, *alone, *serve),
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ, **SETTINGS, "VLLM_HOST_IP": address(host), **variables
                },
            )  # fmt: skip

    def host_name(self, node):
        return f"host{self.on[node] - self.on[0] + 1}"

    def log(self, node):
        return self.folder / f"{self.name}-{node}.log"

    def printed(self, node):
        return self.log(node).read_text(encoding="utf-8", errors="replace")

    def page(self):
        return "\n".join(
            f"== {self.log(node)}\n{self.printed(node)[-6000:]}" for node in range(self.ranks)
        )

    def is_up(self):
        if any(node.poll() is not None for node in self.nodes):
            pytest.fail(f"{self.name} has ended\n{self.page()}", pytrace=False)
        ask = self.hosts.on(self.on[0], "curl", "-sf", "-m", "5", f"{self.url}/health")
        return subprocess.run(ask, capture_output=True, check=False).returncode == 0

    def wait(self):
        eventually(self.is_up, f"{self.name} answers", self.page, every=1)
        return self

    def begin(self, prompts, count):
        """A request; its first line of output comes with the first tokens."""
        program = [sys.executable, "-S", str(HERE / "programs" / "complete.py")]
        return subprocess.Popen(
            self.hosts.on(
                self.on[0], *program, self.url, str(self.folder), str(count), json.dumps(prompts)
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def complete(self, prompts, count):
        """The tokens that follow each prompt, and the seconds that it took."""
        asked = self.begin(prompts, count)
        output, errors = asked.communicate(timeout=DEADLINE_SECONDS)
        if asked.returncode:
            pytest.fail(f"{errors}\n{self.page()}", pytrace=False)
        reply = json.loads(output.splitlines()[-1])
        return reply["tokens"], reply["seconds"]

    def running(self):
        return [pid for host in set(self.on) for pid in processes(self.hosts, host)]

    def workers(self):
        """The pids of the ranks: vLLM gives them a title."""
        titles = {title_of(pid): pid for pid in self.running()}
        prefix = "VLLM::Worker_TP"
        return {int(t.removeprefix(prefix)): titles[t] for t in titles if t.startswith(prefix)}

    def stop(self):
        kill_all(self.running())
        for node in self.nodes:
            node.wait()


def title_of(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return text.split(b"\0")[0].decode(errors="replace").strip()
