# SPDX-License-Identifier: Apache-2.0
"""JAX with several processes on one GPU: the collectives of shard_map, and a training step in jit.

  LD_PRELOAD=.../libnccl.so.2 python3 with_jax.py cuda RANKS
  python3 with_jax.py cpu RANKS          the same program on JAX's own collectives

Ends with 77 and the reason where JAX or its devices are not there.
"""

import os
import sys

from common import calls_of, free_port, run_ranks


def start_jax(rank: int, ranks: int, platform: str, board):
    os.environ.setdefault("JAX_PLATFORMS", platform)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    jax.distributed.initialize(
        board.read("address").decode(), num_processes=ranks, process_id=rank,
        local_device_ids=None if platform == "cpu" else [0],
    )  # fmt: skip
    assert jax.process_count() == ranks and len(jax.devices()) == ranks, jax.devices()
    return jax


def be_a_rank(rank: int, ranks: int, platform: str, board) -> None:
    jax = start_jax(rank, ranks, platform, board)
    import numpy as np
    from jax import numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    by_rank, alike = PartitionSpec("ranks"), PartitionSpec()
    everything = np.arange(ranks * ranks * 4, dtype=np.float32).reshape(ranks * ranks, 4)
    rows = jax.make_array_from_callback(
        everything.shape, NamedSharding(mesh, by_rank), lambda index: everything[index]
    )  # each rank has `ranks` rows

    def run(body, to):
        mapped = jax.shard_map(body, mesh=mesh, in_specs=by_rank, out_specs=to, check_vma=False)
        return np.asarray(jax.jit(mapped)(rows).addressable_data(0))

    blocks = everything.reshape(ranks, ranks, 4)
    total = blocks.sum(axis=0)
    lax, name = jax.lax, "ranks"
    assert (run(lambda x: lax.psum(x, name), alike) == total).all()
    assert (run(lambda x: lax.pmax(x, name), alike) == blocks.max(axis=0)).all()
    gathered = run(lambda x: lax.all_gather(x, name, tiled=True), alike)
    assert (gathered == everything).all()
    scattered = run(lambda x: lax.psum_scatter(x, name, tiled=True), by_rank)
    assert (scattered == total[rank]).all()
    exchanged = run(lambda x: lax.all_to_all(x, name, 0, 0, tiled=True), by_rank)
    assert (exchanged == blocks[:, rank]).all()
    cycle = [(r, (r + 1) % ranks) for r in range(ranks)]
    assert (run(lambda x: lax.ppermute(x, name, cycle), by_rank) == blocks[rank - 1]).all()

    train(jax, jnp, np, mesh, NamedSharding(mesh, by_rank), NamedSharding(mesh, alike), ranks)
    if platform == "cuda":
        for function in ("ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclSend"):
            assert calls_of(function) > 0, f"{function} was not called: another library is in use"
    jax.distributed.shutdown()


def train(jax, jnp, np, mesh, by_rank, alike, ranks: int) -> None:
    """The losses of a sharded batch are those of the whole batch in this process alone."""
    random = np.random.default_rng(1)
    inputs = random.standard_normal((8 * ranks, 16)).astype(np.float32)
    weights = random.standard_normal((16, 4)).astype(np.float32)

    def step(w, x):
        loss, gradient = jax.value_and_grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w)
        return w - 0.1 * gradient, loss

    def losses(w, x):
        found = []
        for _ in range(4):
            w, loss = jax.jit(step)(w, x)
            found.append(float(np.asarray(loss.addressable_data(0))))
        return found

    def place(array, sharding):
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    own = jax.local_devices()[0]
    wanted = losses(jax.device_put(weights, own), jax.device_put(inputs, own))
    np.testing.assert_allclose(
        losses(place(weights, alike), place(inputs, by_rank)), wanted, rtol=1e-5
    )


def post_address(board) -> None:
    board.post("address", f"127.0.0.1:{free_port()}".encode())


def reason_to_skip(platform: str) -> str | None:
    """Asked in a process of its own: this one is to hold no device."""
    import subprocess

    probe = f"import jax; assert jax.devices({platform!r})"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True,
        env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    )  # fmt: skip
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


if __name__ == "__main__":
    if "CLIENT_RANK" not in os.environ:
        reason = reason_to_skip(sys.argv[1])
        if reason:
            print(f"skipped: {reason}")
            sys.exit(77)
    sys.exit(run_ranks(be_a_rank, prepare=post_address))
