#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the output of `rondo topo` in the guest of guest.sh: check_guest.py RONDO FOLDER.

The last two digits of a card's address identify it (guest_machine). FOLDER has, from the guest:
`cards` (interface, address, PCI device), the output of `rondo topo` (`json`, `matrix`), the file
that it wrote (`nccl.xml`), and hwloc's view (`hwloc.xml`).
"""
import json
import subprocess
import sys

RONDO, FOLDER = sys.argv[1:]
CARDS = ["a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1", "b2", "b3"]
NODES = {"a": 0, "b": 1}
# For each switch: its cards, and its parent switch.
SWITCHES = {"outer": ({"a0", "a1"}, None), "inner": ({"a2", "a3"}, "outer"),
            "far": ({"b0", "b1", "b3"}, None)}
failures = []


def expect(text, found, wanted):
    if found != wanted:
        failures.append(text)
        print(f"FAILED: {text}\n  found  {found}\n  wanted {wanted}")


def read(name):
    with open(f"{FOLDER}/{name}") as file:
        return file.read()


def rondo(*arguments):
    return subprocess.run([RONDO, "topo", *arguments], check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def above(card):
    """The switches above a card, the nearest first."""
    at = next((name for name, (cards, _) in SWITCHES.items() if card in cards), None)
    way = []
    while at:
        way.append(at)
        at = SWITCHES[at][1]
    return way


def path_class(one, other):
    if one == other:
        return "X"
    if one[0] != other[0]:
        return "SYS"
    if not set(above(one)) & set(above(other)):
        return "PHB"
    return "PIX" if above(one)[0] == above(other)[0] else "PXB"


WANTED = {(one, other): path_class(one, other) for one in CARDS for other in CARDS}


class Picture:
    """A graph from JSON, its ports by card."""

    def __init__(self, graph, card_of):
        self.graph, nodes = graph, graph["nodes"]
        up = {link["from"]: link for link in graph["links"] if link["kind"] == "PCI"}
        self.label, self.way, self.node = {}, {}, {}
        for index, node in enumerate(nodes):
            if node["kind"] != "NIC port":
                continue
            card, at, way = card_of[node["bus_id"]], index, []
            while nodes[at]["kind"] != "NUMA node":
                at = up[at]["to"]
                way.append(nodes[at].get("bus_id"))
            self.label[card], self.way[card] = node["label"], way[:-1]
            self.node[card] = nodes[at]["number"]

    def check(self, name):
        if sorted(self.label) != CARDS:
            sys.exit(f"FAILED: {name}: the cards are {sorted(self.label)}")
        expect(f"{name}: cards are at their nodes", self.node,
               {card: NODES[card[0]] for card in self.label})
        expect(f"{name}: as many switches above each card", {c: len(self.way[c]) for c in self.way},
               {card: len(above(card)) for card in self.way})
        expect(f"{name}: cards are behind their switches", self.shared(),
               {pair for pair, kind in WANTED.items() if kind in ("PIX", "PXB", "X")
                and above(pair[0])})

    def shared(self):
        """Pairs of cards with a common switch."""
        return {(one, other) for one in self.way for other in self.way
                if set(self.way[one]) & set(self.way[other])}


def matrix(text, picture):
    """Path classes by card."""
    card_of = {label: card for card, label in picture.label.items()}
    lines = text.split("\n\n")[0].splitlines()
    heads = lines[0].split()[:-2]  # without NUMA, cores
    cells = {}
    for line in lines[1:]:
        label, *row = line.split()
        for head, cell in zip(heads, row):
            cells[card_of[label], card_of[head]] = cell
    return cells


def main():
    rows = [line.split() for line in read("cards").splitlines()]
    card_of = {device: address[-2:] for _, address, device in rows}
    name_of = {address[-2:]: name for name, address, _ in rows}
    host = json.loads(read("json"))
    found = Picture(host["graph"], card_of)
    found.check("/sys")
    expect("/sys: ports have their interfaces' names, or that of soft-RoCE over one", found.label,
           {card: "rxe_a2" if card == "a2" else name_of[card] for card in CARDS})
    expect("--matrix", matrix(read("matrix"), found), WANTED)
    nodes = {one["name"]: one["numa"] for one in host["network"]}
    expect("interfaces are at their nodes", {card: nodes[name_of[card]] for card in CARDS},
           {card: NODES[card[0]] for card in CARDS})
    expect("cores of the nodes", [node["cpus"] for node in host["graph"]["nodes"]
                                  if node["kind"] == "NUMA node"], ["0", "1"])

    again = json.loads(rondo("--nccl-xml", f"{FOLDER}/nccl.xml", "--json"))
    Picture(again, card_of).check("what was written")
    expect("what was written is read as it was", again["digest"], host["graph"]["digest"])
    rondo("--nccl-xml", f"{FOLDER}/nccl.xml", "--write-xml", f"{FOLDER}/again.xml")
    expect("written again it is the same", read("again.xml"), read("nccl.xml"))

    hwloc = f"{FOLDER}/hwloc.xml"
    theirs = Picture(json.loads(rondo("--xml", hwloc, "--json"))["graph"], card_of)
    theirs.check("hwloc")
    expect("hwloc's bridges are ours", theirs.way, found.way)
    expect("hwloc's matrix", matrix(rondo("--xml", hwloc, "--matrix"), theirs), WANTED)
    if failures:
        sys.exit(f"{len(failures)} differ")
    print(f"rondo topo shows the guest's machine as it is: {len(CARDS)} cards, 3 switches")


if __name__ == "__main__":
    main()
