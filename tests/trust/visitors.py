# SPDX-License-Identifier: Apache-2.0
"""Strangers: processes that connect to every listener of a job, over TCP and abstract Unix sockets.

A visitor knows what any user of the machine and any listener on the network can know: the listening
ports, the names in /proc/net/unix, and, if it replays, every byte that honest ranks have sent over
TCP. It never knows a secret. It looks up listeners repeatedly, because jobs open new ones.
"""

import array
import os
import random
import select
import socket
import struct
import time
from collections import defaultdict

HELD_S = 2.0  # how long a silent visitor stays if it is not sent away
MAX_AT_ONCE = 200


def tcp_doors():
    """(family, address) of every listening TCP socket of this network namespace."""
    doors = []
    for path, family in (("/proc/net/tcp", socket.AF_INET), ("/proc/net/tcp6", socket.AF_INET6)):
        try:
            lines = open(path).read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] != "0A":
                continue
            host, port = fields[1].split(":")
            if family == socket.AF_INET:
                text = socket.inet_ntoa(struct.pack("<I", int(host, 16)))
                text = "127.0.0.1" if text == "0.0.0.0" else text
            else:
                words = [int(host[i : i + 8], 16) for i in range(0, 32, 8)]
                text = socket.inet_ntop(family, struct.pack("<4I", *words))
                text = "::1" if text == "::" else text
            doors.append((family, (text, int(port, 16))))
    return doors


def unix_doors():
    """Every abstract Unix socket of the library that listens here."""
    doors = []
    for line in open("/proc/net/unix").read().splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 8 and fields[7].startswith("@rondo") and fields[3] == "00010000":
            kind = socket.SOCK_SEQPACKET if fields[4] == "0005" else socket.SOCK_STREAM
            doors.append((kind, "\0" + fields[7][1:]))
    return doors


class Recorder:
    """Listens on the loopback device. Returns what each connector sent, one list of parts per
    connection."""

    def __init__(self):
        self.packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.ntohs(3))
        self.packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.packets.bind(("lo", 0))
        self.packets.setblocking(False)
        self.sent = defaultdict(list)
        self.servers = set()

    def listen(self):
        for _ in range(2000):
            try:
                data, where = self.packets.recvfrom(65535)
            except BlockingIOError:
                return
            if where[2] == socket.PACKET_OUTGOING:  # loopback shows every packet twice
                continue
            if data[0] >> 4 == 4 and data[9] == 6:
                head = (data[0] & 15) * 4
            elif data[0] >> 4 == 6 and data[6] == 6:
                head = 40
            else:
                continue
            source, target = struct.unpack("!HH", data[head : head + 4])
            payload = data[head + (data[head + 12] >> 4) * 4 :]
            if data[head + 13] & 0x12 == 0x12:  # SYN and ACK: the sender is a server
                self.servers.add(source)
            if payload and target in self.servers and len(self.sent) < 500:
                self.sent[source, target].append(bytes(payload))

    def speeches(self):
        return [parts for parts in self.sent.values() if parts]


class Visit:
    """One connection, and the visitor's steps on it, one at a time."""

    def __init__(self, kind, door, speech):
        self.kind, self.speech, self.at, self.last = kind, list(speech), 0, 0.0
        self.born = time.monotonic()
        self.received = self.descriptors = 0
        if isinstance(door[1], str):
            self.socket = socket.socket(socket.AF_UNIX, door[0])
        else:
            self.socket = socket.socket(door[0], socket.SOCK_STREAM)
        self.unix = isinstance(door[1], str)
        self.socket.setblocking(False)
        try:
            self.socket.connect(door[1])
        except BlockingIOError:
            if self.unix:  # a full backlog: try again
                self.socket.close()
                raise

    def receive(self):
        """False if the listener has closed the connection."""
        try:
            if self.unix:
                room = socket.CMSG_SPACE(32 * 4)
                data, passed, _, _ = self.socket.recvmsg(65536, room)
                for _, what, content in passed:
                    if what == socket.SCM_RIGHTS:
                        fds = array.array("i")
                        fds.frombytes(content[: len(content) - len(content) % 4])
                        self.descriptors += len(fds)
                        for fd in fds:
                            os.close(fd)
            else:
                data = self.socket.recv(65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.received += len(data)
        if self.kind == "thief" and data and self.at == 1:
            self.at, self.last = 2, 0.0  # the listener has answered; the forged proof is next
        return bool(data)

    def send(self, now):
        """False if the visitor is done with this listener."""
        if now - self.born > HELD_S:
            return False
        try:
            if self.kind == "garbage" and now - self.last > 0.1:
                self.last = now
                self.socket.send(random.randbytes(random.choice((1, 8, 40, 1000, 70000))))
            elif self.kind == "slow" and now - self.last > 0.2:
                self.last = now
                whole = b"".join(self.speech) or random.randbytes(200)
                self.socket.send(whole[self.at : self.at + 1])
                self.at += 1
            elif self.kind == "replay" and self.at < len(self.speech) and now - self.last > 0.02:
                self.last = now
                self.socket.send(self.speech[self.at])
                self.at += 1
            elif self.kind == "flood":  # gone as soon as it has come
                return False
            elif self.kind == "thief" and now - self.last > 0.02:
                if self.at == 0 and self.speech:  # an honest Hello, which proves nothing
                    self.socket.send(self.speech[0])
                    self.at, self.last = 1, now + HELD_S
                elif self.at == 2 and len(self.speech) > 1:  # a forged proof of the right length
                    self.socket.send(random.randbytes(len(self.speech[1])))
                    self.at, self.last = 3, now + HELD_S
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


def visit(kind, where, visits, seconds, results, only_port=None):
    """Visits until the count or the time is reached; sends the results to `results`, a pipe."""
    recorder = Recorder() if kind in ("replay", "thief", "slow") and where == "tcp" else None
    if os.environ.get("TRUST_VISITOR_UID"):
        uid = int(os.environ["TRUST_VISITOR_UID"])
        os.setgid(uid)
        os.setuid(uid)
    end = time.monotonic() + seconds
    live, done, received, max_received, descriptors = [], 0, 0, 0, 0
    while done < visits and time.monotonic() < end:
        if recorder:
            recorder.listen()
        speeches = recorder.speeches() if recorder else []
        doors = tcp_doors() if where == "tcp" else unix_doors()
        if only_port:
            doors = [(socket.AF_INET, ("127.0.0.1", only_port))]
        elif doors:
            random.shuffle(doors)
        if kind in ("replay", "thief") and recorder and not speeches:
            doors = []
        for door in doors[:8]:
            if len(live) >= MAX_AT_ONCE or done + len(live) >= visits:
                break
            try:
                live.append(Visit(kind, door, random.choice(speeches) if speeches else []))
            except OSError:
                continue
        ready, _, _ = select.select([v.socket for v in live], [], [], 0.002) if live else ([], 0, 0)
        if not live:
            time.sleep(0.002)
        readable, now, left = set(ready), time.monotonic(), []
        for one in live:
            open_still = one.receive() if one.socket in readable else True
            if open_still and one.send(now):
                left.append(one)
                continue
            one.socket.close()
            done += 1
            received += one.received
            max_received = max(max_received, one.received)
            descriptors += one.descriptors
        live = left
    for one in live:
        one.socket.close()
    results.send(
        {
            "visits": done + len(live),
            "bytes": received,
            "max_bytes": max_received,
            "descriptors": descriptors,
        }
    )
