# SPDX-License-Identifier: Apache-2.0
"""vLLM's own server with ranks on two hosts: on Rondo it generates the tokens that it generates on
gloo, and a killed rank ends the others by name."""

import importlib.util
import json
import os
import signal
import statistics
import time

import pytest
from servers import Server, eventually, namespaces

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed", allow_module_level=True)
GLOO = {"VLLM_PLUGINS": ""}
PROMPTS = [[3], [3, 4, 5, 6, 7], [(7 * i) % 509 for i in range(90)], [500, 2, 311]]
ROUNDS = int(os.environ.get("RONDO_SERVING_ROUNDS", "5"))


@pytest.fixture(scope="class")
def both(tmp_path_factory):
    """Rondo's server and gloo's, each on two hosts of its own."""
    with namespaces(4) as made:
        yield [
            server.wait()
            for server in [
                Server(made, 0, tmp_path_factory.mktemp("rondo"), "rondo"),
                Server(made, 2, tmp_path_factory.mktemp("gloo"), "gloo", **GLOO),
            ]
        ]


def line_of(ranks):
    return f"rondo 0.1.0: {ranks} ranks on 2 hosts"


def ended_by_the_death_of(rank, server):
    """Kills a rank in the middle of a request. Returns the time until all others had printed its
    name, until no rank was left, and until all of vLLM's processes had ended. Not the first rank:
    vLLM's engine ends with it, and gives no order that the others could fail in."""
    asked = server.begin(PROMPTS[:1], 200)
    assert asked.stdout.readline() == "begun\n", asked.communicate()[1] + server.page()
    pid = server.workers()[rank]
    named = f"rank {rank} (pid {pid} on {server.host_name(rank)})"
    others = [node for node in range(server.ranks) if node != rank]
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    steps = [
        (lambda: all(named in server.printed(n) for n in others), f"the others print: {named}"),
        (lambda: not server.workers(), "the other ranks end"),
        (lambda: not server.running(), "all processes of the server end"),
    ]
    seconds = []
    for condition, what in steps:
        eventually(condition, what, server.page)
        seconds.append(time.monotonic() - killed)
    assert asked.wait() != 0, "the request is not reported as failed"
    return "named after {:.1f} s, no rank left after {:.1f} s, no process after {:.1f} s".format(
        *seconds
    )


class TestARankOnEachHost:
    def test_tokens_are_those_of_gloo(self, both):
        rondo, gloo = both
        assert line_of(2) in rondo.printed(0)
        assert "rondo" not in gloo.printed(0).replace(str(gloo.folder), "")
        assert rondo.complete(PROMPTS, 24)[0] == gloo.complete(PROMPTS, 24)[0]

    def test_tokens_per_second_beside_gloo(self, both):
        """In turns, with no limit on the ratio; build/serving.json keeps the medians."""
        for server in both:
            server.complete(PROMPTS[:1], 8)
        rates = {}
        for prompts in (PROMPTS[:1], PROMPTS):
            rounds = {server.name: [] for server in both}
            for _ in range(ROUNDS):
                came = []
                for server in both:
                    tokens, seconds = server.complete(prompts, 32)
                    came.append(tokens)
                    rounds[server.name].append(len(prompts) * 32 / seconds)
                assert came[0] == came[1]
            name = f"{len(prompts)} at a time"
            rates[name] = {key: statistics.median(values) for key, values in rounds.items()}
            rates[name]["ratio"] = statistics.median(
                ours / theirs for ours, theirs in zip(rounds["rondo"], rounds["gloo"])
            )
        print(json.dumps(rates))
        with open("build/serving.json", "w", encoding="utf-8") as file:
            json.dump(rates, file, indent=1)

    def test_a_killed_rank_ends_the_others(self, both):
        print(f"2 ranks: {ended_by_the_death_of(1, both[0])}")


def test_two_hosts_of_two_ranks(tmp_path_factory):
    """In float32: between four ranks the order of the sums is a library's own."""
    options = ["--dtype", "float32"]
    tokens = {}
    with namespaces(2) as made:
        for name, variables in (("gloo", GLOO), ("rondo", {})):
            folder = tmp_path_factory.mktemp(name)
            server = Server(made, 0, folder, name, 4, options, **variables).wait()
            tokens[name] = server.complete(PROMPTS, 24)[0]
            if name == "rondo":
                assert line_of(4) in server.printed(0)
                print(f"4 ranks: {ended_by_the_death_of(3, server)}")
            server.stop()
    assert tokens["rondo"] == tokens["gloo"]
