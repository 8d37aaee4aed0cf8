# SPDX-License-Identifier: Apache-2.0
"""A wire between two network namespaces in user space: a TUN device at each end, and a process
between them that can lose some packets, lose all, or let them pass one way only.

Needs only TUN from the kernel. Packets are forwarded at once; the ends are 10.77.0.1 and 10.77.0.2.
"""

import ctypes
import fcntl
import multiprocessing
import os
import random
import select
import struct
import subprocess

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI = 0x1001


def open_end(space, address):
    """Opens the TUN device `wire` in a network namespace and brings it up. Must run in a process
    that can leave its own namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{space}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {space}")
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", b"wire", IFF_TUN_NO_PI))
    subprocess.run(["ip", "address", "add", address, "dev", "wire"], check=True)
    subprocess.run(["ip", "link", "set", "wire", "mtu", "9000", "up"], check=True)
    return end


def carry(spaces, commands, seed):
    """Carries packets until the command None. Commands: (loss in 0..1 each way)."""
    ends = [open_end(space, f"10.77.0.{i + 1}/24") for i, space in enumerate(spaces)]
    dice = random.Random(seed)
    loss = (0.0, 0.0)
    commands.send("up")
    while True:
        for ready in select.select([*ends, commands], [], [])[0]:
            if ready is commands:
                loss = commands.recv()
                if loss is None:
                    return
                commands.send("set")
                continue
            way = ends.index(ready)
            for _ in range(64):
                try:
                    packet = os.read(ready, 65536)
                except BlockingIOError:
                    break
                if loss[way] and dice.random() < loss[way]:
                    continue
                try:
                    os.write(ends[1 - way], packet)
                except OSError:  # a full queue also loses packets
                    pass


class Wire:
    def __init__(self, spaces, seed):
        self.commands, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=carry, args=(spaces, theirs, seed))
        self.process.daemon = True
        self.process.start()
        if not self.commands.poll(10) or self.commands.recv() != "up":
            raise RuntimeError("the wire does not come up")

    def lose(self, there, back):
        """Sets the share of packets lost from the first end, and towards it."""
        self.commands.send((there, back))
        if not self.commands.poll(10):
            raise RuntimeError("the wire does not answer")
        self.commands.recv()

    def end(self):
        self.commands.send(None)
        self.process.join(5)
