# SPDX-License-Identifier: Apache-2.0
"""Set A, is it right: the table of its stages, but for the suites of gtest's (suites.py)."""

from stage import Stage
from suites import RACES, sanitized

BENCH = "{bin}/rondo bench all_reduce"
ONCE = "{way} -n 2 -w 1 -c 1 -T 8 --no-progress --json {json}"
RANKS = "-g 1 --ranks-per-gpu 4"


def forced(algorithm: str, protocol: str) -> dict[str, str]:
    return {"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol}


# One checked all-reduce per algorithm: name, what its plan must contain, environment, ranks.
WAYS = [
    ("ring-simple", "ring", forced("ring", "Simple"), RANKS),
    ("ring-ll", "ring", forced("ring", "LL"), RANKS),
    ("tree", "tree", forced("tree", "Simple"), RANKS),
    ("tree-ll", "tree", forced("tree", "LL"), RANKS),
    # Nothing guarantees that lines of 128 bytes stay whole: a failure here is also a result.
    ("ring-ll128", "ring", forced("ring", "LL128"), RANKS),
    ("ring-graph", "ring", forced("ring", "Simple"), f"{RANKS} -G 2"),
    ("threads", "", {}, RANKS),
    ("threads-graph", "", {}, f"{RANKS} -G 2"),
    ("processes-staged", "", {}, "--ranks 2"),
    ("processes-registered", "", {}, "--ranks 2 -R 2"),
    ("processes-graph", "", {}, "--ranks 2 -G 2"),
]
# Messages among threads and among processes of one GPU, which rings and staging do not use.
MESSAGES = [("threads", RANKS), ("threads-graph", f"{RANKS} -G 2"), ("processes", "--ranks 2")]

# The same tests with blocking launches, or with streams that share one hardware queue.
SETTINGS = [
    ("blocking-launches", "CUDA_LAUNCH_BLOCKING", "gpu_tests",
     "*/1:Graphs.*:*Meet*_devices:*CopyEngines*"),
    ("one-connection", "CUDA_DEVICE_MAX_CONNECTIONS", "gpu_tests",
     "*/1:Graphs.*:*Meet*_devices:*CopyEngines*"),
    ("processes-one-connection", "CUDA_DEVICE_MAX_CONNECTIONS", "gpu_process_tests", "SharedGpu*"),
]  # fmt: skip

# The timeout is below a stage's limit, so that a wait in which a stage hangs is named.
PRELOADED = {"LD_PRELOAD": "{lib}/libnccl.so.2", "RONDO_TIMEOUT": "25"}
TORCH = [("1", "--ranks 1"), ("2-graphs", "--ranks 2 --only graphs"), ("2", "--ranks 2"),
         ("2-kill", "--ranks 2 --kill"), ("symmetric-1", "--ranks 1 --only symmetric"),
         ("symmetric-2", "--ranks 2 --only symmetric"),
         ("symmetric-sums-2", "--ranks 2 --only symmetric_sums")]  # fmt: skip
CLIENTS = [
    ("vllm-calls", "as_vllm.py {cudart} 2", "cudart"),
    ("cupy-calls", "as_cupy.py {cudart} 2", "cudart"),
    ("cupy", "with_cupy.py cuda 2", ""),
    ("jax", "with_jax.py cuda 2", ""),
]

# Kernels of NCCL's device API: Rondo's header and NVIDIA's, on one GPU, then on all GPUs.
DEVICE_API = [
    ("device-api", "device_api_check", " 4"),
    ("device-api.theirs-2.28.9", "device_api_check_2.28.9", " 4"),
    ("device-api.theirs-2.32.3", "device_api_check_2.32.3", " 4"),
    ("device-api.counts", "moe_check", " 4"),
    ("gpus.device-api", "device_api_check", " {gpus} {gpus}"),
    ("gpus.device-api-multicast", "device_api_check", " {gpus} {gpus} multicast"),
]

# Races and barriers in the kernels of rings and lines.
RACED = [
    ("ring", "Settings/Connected.GoRoundManyTimesMoreThanThereAreSlots/ring_simple_one"),
    ("ll", "Settings/Connected.GoRoundManyTimesMoreThanThereAreSlots/ring_ll_one"),
    (
        "ll_push",
        "Settings/Connected.GoRoundManyTimesMoreThanThereAreSlots/allreduce_oneshot_ll_devices",
    ),
]


def ways() -> list[Stage]:
    return [
        Stage(f"ways.{name}", f"{BENCH} {ranks} {ONCE}", 15, 100 + i, reads="bench", env=env,
              alone=True, plan=plan)
        for i, (name, plan, env, ranks) in enumerate(WAYS)
    ] + [
        Stage(f"ways.messages-{name}", f"{{bin}}/rondo bench sendrecv {ranks} {ONCE}", 15,
              100 + len(WAYS) + i, reads="bench", alone=True)
        for i, (name, ranks) in enumerate(MESSAGES)
    ]  # fmt: skip


def settings() -> list[Stage]:
    return [
        Stage(f"settings.{name}", ("{bin}/" + program, f"--gtest_filter={tests}"), 60, 400,
              reads="gtest", env={variable: "1"}, program="", needs=f"bin:{program}")
        for name, variable, program, tests in SETTINGS
    ]  # fmt: skip


def programs() -> list[Stage]:
    torch = [
        Stage(f"torch.{name}", "{python} {here}/torch_check.py " + options, 60, 200 + i, "programs",
              env=PRELOADED, needs="torch")
        for i, (name, options) in enumerate(TORCH)
    ]  # fmt: skip
    clients = [
        Stage(f"clients.{name}", "{python} {here}/clients/" + words, 60, 210 + i, "programs",
              env=PRELOADED, needs=need)
        for i, (name, words, need) in enumerate(CLIENTS)
    ]  # fmt: skip
    words = "{python} {here}/watch_check.py {bin} {lib} "
    watched = [
        Stage("watch.theirs-1", f"{words} {{theirs}} 1 known", 60, 206, "programs", alone=True,
              needs="theirs"),
        Stage("watch.theirs-2", f"{words} {{several}} 2 ended", 60, 207, "programs", alone=True,
              env={"NCCL_MULTI_RANK_GPU_ENABLE": "1"}, needs="several-nccl"),
        Stage("watch.ours-2", f"{words} {{lib}}/libnccl.so.2 2 entered", 60, 208, "programs",
              needs="bin:nccl_contestant"),
    ]  # fmt: skip
    device_api = [
        Stage(name, "{bin}/" + program + options, 30, at, "programs", alone=True,
              env={"NCCL_NVLS_ENABLE": "1"} if "multicast" in options else {},
              needs=f"bin:{program}" if "{gpus}" not in options else "several")
        for at, (name, program, options) in enumerate(DEVICE_API, 205)
    ]  # fmt: skip
    return [*torch, *clients, *watched, *device_api]


def races() -> list[Stage]:
    return [
        sanitized(tool, name, "gpu_tests", [test], RACES + i)
        for tool in ("synccheck", "racecheck")
        for i, (name, test) in enumerate(RACED)
    ]


def stages() -> list[Stage]:
    probe = Stage("probe", "{bin}/gpu_probe --seconds 110 --json {json}", 130, 0, reads="probe",
                  alone=True, needs="bin:gpu_probe")  # fmt: skip
    return [probe, *ways(), *programs(), *settings(), *races()]
