# SPDX-License-Identifier: Apache-2.0
"""Set B, is it fast: the table of its stages. Each has the device to itself.

%roof is the share of what the devices' own copies reach, measured in the same run, inside a device
or to another one, whichever limits the call (bench/roofline.h).
"""

from predictions import predicted
from stage import Stage

# Stages in order of value: if time runs out, the last ones are skipped.
ORDER = ("micro", "ring", "copies", "nccl", "tune", "threads-small", "threads-graph", "gpus",
         "beside.2",
         "beside.1",
         "processes", "counters", "threads-large", "tree", "others")  # fmt: skip
BENCH = "{bin}/rondo bench"
ENDS = "--no-progress --json {json}"


def place(group: str) -> int:
    return ORDER.index(group)


def bench(name: str, collective: str, words: str, seconds: float = 20, **more) -> Stage:
    command = f"{BENCH} {collective} {words} {ENDS}"
    more |= {"priority": place(name.split(".")[0]), "log": "bench", "reads": "bench",
             "facts": {"predicted": predicted(name), **more.get("facts", {})}}  # fmt: skip
    return Stage(name, command, seconds, alone=True, **more)


def threads() -> list[Stage]:
    ranks = "-g 1 --ranks {0} --ranks-per-gpu {0} "
    return [
        bench(f"threads-{what}.{n}", "all_reduce", f"{ranks.format(n)}{{{what}}}", 30, needs="one")
        for what in ("small", "graph", "large")
        for n in (1, 2, 4, 8)
    ]  # fmt: skip


def processes() -> list[Stage]:
    plain = [bench(f"processes.{n}", "all_reduce", f"--ranks {n} {{mixed}}", 30) for n in (2, 4, 8)]
    registered = [
        bench(f"processes.{n}-registered", "all_reduce", f"--ranks {n} -R 2 {{mixed}}", 30)
        for n in (2, 8)
    ]
    others = [
        bench("processes.2-int8", "all_reduce", "--ranks 2 {mixed} -d int8", 30),
        bench("processes.2-graph", "all_reduce", "--ranks 2 {graph}"),
    ]
    return [*plain, *registered, *others]


def limited(algorithm: str, protocol: str, ctas: int) -> dict[str, dict]:
    """The settings of a stage that force this algorithm, protocol and number of CTAs a rank."""
    env = {"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol}
    env |= {"NCCL_MIN_CTAS": str(ctas), "NCCL_MAX_CTAS": str(ctas)}
    return {"env": env, "facts": {"ctas": ctas, "protocol": protocol}}


# Bytes that rings among ranks of one device read and write for every byte of bus bandwidth and
# rank: a slot, an operand or a result, and the next slot. Their roof is the device's memory.
THROUGH_MEMORY = 3


def forced(algorithm: str, protocol: str, ctas: int, buffer: str = "") -> Stage:
    """Rings and trees among 4 ranks on one device; copies are a ring's, without its sums."""
    kind, way = ("all_gather", "ring") if algorithm == "copies" else ("all_reduce", algorithm)
    how = limited(way, protocol, ctas)
    if buffer:
        how["env"]["NCCL_BUFFSIZE"] = buffer
    if way == "ring":
        how["facts"]["through_memory"] = THROUGH_MEMORY
    name = f"{algorithm}.{protocol}-{ctas}" + (f"-{buffer}" if buffer else "")
    return bench(name, kind, "-g 1 --ranks-per-gpu 4 {ring}", plan=way, needs="one", **how)


# One and 8 CTAs a rank: with 32, four ranks reach the memory's rate. NCCL_BUFFSIZE is the size of a
# connection's slots of Simple; those of the other protocols do not depend on it.
RINGS = [("ring", protocol, ctas) for protocol in ("Simple", "LL", "LL128") for ctas in (1, 8)]
RINGS += [("ring", "Simple", ctas, buffer) for buffer in ("1M", "4M") for ctas in (1, 8)]
COPIES = [("copies", "Simple", 1), ("copies", "LL", 1), ("copies", "LL128", 1),
          ("copies", "Simple", 1, "4M")]  # fmt: skip
TREES = [("tree", "Simple", 1), ("tree", "Simple", 16), ("tree", "LL", 16), ("tree", "LL128", 16)]

OTHERS = ("all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv", "gather",
          "scatter")  # fmt: skip


def others() -> list[Stage]:
    """The median call (-I 1): a pause of the host in one of ten calls spoils their mean."""
    return [bench(f"others.{kind}", kind, "-g 1 --ranks-per-gpu 4 {middle} -I 1", needs="one")
            for kind in OTHERS]  # fmt: skip


def beside() -> list[Stage]:
    """NVIDIA's library and ours in turns; one rank: launches, and whole calls on the device."""
    words = ("{python} {beside} --contestant {bin}/nccl_contestant --ours {lib}/libnccl.so.2 "
             "--theirs {theirs} --sizes {beside_sizes} --json {json} --limit 15 ")  # fmt: skip
    kinds = "--collectives all_reduce,all_gather,broadcast"
    return [
        Stage("beside.1", f"{words} --ranks 1 --rounds 3 --seconds 45 {kinds}", 60,
              place("beside.1"), "bench",
              "beside", alone=True, needs="theirs"),
        Stage("beside.2", f"{words} --ranks 2 --rounds 1 --seconds 45 --collectives all_reduce", 60,
              place("beside.2"), "bench", "beside", alone=True, needs="theirs"),
    ]  # fmt: skip


def nccl_alone() -> list[Stage]:
    """What a CTA of NCCL's rings reaches among ranks of one device, as threads of one process."""
    words = ("{bin}/nccl_contestant --library {several} --threads --ranks 4 --rounds 3 "
             "--collective all_reduce --sizes {nccl_sizes}")  # fmt: skip
    env = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_ALGO": "Ring", "NCCL_MIN_NCHANNELS": "1",
           "NCCL_MAX_NCHANNELS": "1"}  # fmt: skip
    return [
        Stage(f"nccl.{protocol}-1", words, 25, place("nccl"), "bench", "contestant",
              {**env, "NCCL_PROTO": protocol}, True, "several-nccl", facts={"ctas": 1})
        for protocol in ("Simple", "LL", "LL128")
    ]  # fmt: skip


SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "SchedulerStats", "WarpStateStats",
            "LaunchStats")  # fmt: skip
# A ring's kernel synchronises with its neighbours' counters, so ncu cannot replay the kernel; it
# reruns the program.
COUNTED = [
    ("direct-2", 2, {}, "kernel", 40),
    ("direct-8", 8, {}, "kernel", 40),
    ("ring-f32", 4, {"NCCL_ALGO": "ring", "NCCL_PROTO": "Simple"}, "application", 75),
]


def counters() -> list[Stage]:
    """What warps wait for, and how many bytes are under way. The clocks stay as they are."""
    sections = " ".join(f"--section {name}" for name in SECTIONS)
    ncu = ("{ncu} --clock-control none --target-processes all --csv --page raw --log-file {json} "
           f"--launch-skip 2 --launch-count 1 --kernel-name regex:run_ {sections} ")  # fmt: skip
    return [
        Stage(f"counters.{name}",
              f"{ncu} --replay-mode {replay} {BENCH} all_reduce -g 1 --ranks-per-gpu {ranks}"
              " -b {counted} -e {counted} -n 3 -w 2 -c 0 --no-progress",
              limit, place("counters"), "bench", "counters", env, True, "ncu")
        for name, ranks, env, replay, limit in COUNTED
    ]  # fmt: skip


def several() -> list[Stage]:
    """Between GPUs: processes with one each, as torchrun starts them, then one process."""
    far = [
        bench(f"gpus.processes-{algorithm or 'any'}", "all_reduce", "--ranks {gpus} {mixed}",
              env={"NCCL_ALGO": algorithm}, needs="several")
        for algorithm in ("", "ring", "tree")
    ]  # fmt: skip
    ways = ("ring:LL", "ring:LL128", "ring:Simple", "tree:LL", "tree:Simple", "oneshot:LL",
            "twoshot:Simple", "nvls:Simple")  # fmt: skip
    near = [
        bench("gpus." + way.replace(":", "-"), "all_reduce", "-g {gpus} {mixed}",
              env=dict(zip(("NCCL_ALGO", "NCCL_PROTO"), way.split(":"))), needs="several")
        for way in ways
    ]  # fmt: skip
    near.append(bench("gpus.nvls-Simple-1", "all_reduce", "-g {gpus} {mixed}", needs="several",
                      **limited("nvls", "Simple", 1)))  # fmt: skip
    others = [bench(f"gpus.processes-{kind}", kind, "--ranks {gpus} {mixed}", needs="several")
              for kind in OTHERS]  # fmt: skip
    registered = [
        bench(f"gpus.processes-registered-{how}", "all_reduce",
              f"--ranks {{gpus}} -R {how} {{mixed}}", needs="several")
        for how in (1, 2)
    ]  # fmt: skip
    return far + near + registered + others


def stages() -> list[Stage]:
    micro = Stage("micro", ("{bin}/micro_device", "{micro}"), 45, 0, "bench", "lines", alone=True,
                  needs="bin:micro_device")  # fmt: skip
    # For RONDO_TUNE_FILE on machines with such GPUs; written even if rates explain little.
    tune = Stage("tune", "{bin}/rondo tune --force --table {tune} {json}", 90, place("tune"),
                 "bench", "tune", alone=True)  # fmt: skip
    connected = [forced(*row) for row in RINGS + COPIES + TREES]
    return [micro, tune, *threads(), *processes(), *connected, *nccl_alone(), *others(), *beside(),
            *counters(), *several()]  # fmt: skip
