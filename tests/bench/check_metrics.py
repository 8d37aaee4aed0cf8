#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Prometheus scrapes a job's metrics, and every expression of the dashboard has an answer.

  tests/bench/check_metrics.py BIN     BIN: the folder of the program rondo

Installs Prometheus where it is missing.
"""
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

DASHBOARD = "docs/operate/grafana.json"
# Answers only where something goes wrong, or on hosts with RDMA.
MAY_BE_EMPTY = ("rondo_faults_total > 0", "rondo_rail_busy_seconds_total",
                "rondo_blamed_elsewhere_seconds")


def free_ports(count):
    """Outside the kernel's ephemeral range: no other connection can take them before their use."""
    found, port = [], 15000 + os.getpid() * 37 % 15000
    while len(found) < count:
        port += 1
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            found.append(port)
    return found


def fetched(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def expressions():
    with open(DASHBOARD, encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert len(found) > 5, found
    return [text.replace("$__rate_interval", "10s").replace('{communicator=~"$communicator"}', "")
            for text in found]


def until(what, holds, seconds=300):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if (found := holds()):
                return found
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        time.sleep(0.2)
    sys.exit(f"{what}: not within {seconds} s")


def query(port, expression):
    words = urllib.parse.urlencode({"query": expression})
    try:
        answer = json.loads(fetched(f"http://127.0.0.1:{port}/api/v1/query?{words}"))
    except urllib.error.HTTPError as error:
        sys.exit(f"{expression}: {error.read().decode()}")
    assert answer["status"] == "success", answer
    return answer["data"]["result"]


def check(program, folder):
    metrics, web = free_ports(2)
    with open(f"{folder}/prometheus.yml", "w", encoding="utf-8") as file:
        file.write("global: {scrape_interval: 1s}\nscrape_configs:\n"
                   "- job_name: rondo\n  static_configs:\n"
                   f"  - targets: ['127.0.0.1:{metrics}']\n")
    # Two pretended hosts of two ranks; the first one that comes has the port.
    job = subprocess.Popen(
        [program, "run", "-n", "4", "--", "bash", "-c",
         f"NCCL_HOSTID=host$((RANK / 2)) exec {program} bench all_reduce -b 4 -e 1M -f 16 -N 0 "
         "--no-progress"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "RONDO_METRICS": str(metrics)})
    with open(f"{folder}/log", "w", encoding="utf-8") as log:
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{web}"],
            stdout=log, stderr=log)
    try:
        text = until("the job's metrics", lambda: fetched(f"http://127.0.0.1:{metrics}/metrics"))
        lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                              text=True)
        if lint.returncode != 0:
            sys.exit(f"promtool check metrics: {lint.stdout}{lint.stderr}")
        until("a scrape by Prometheus", lambda: query(web, "rondo_calls_total > 0"))
        until("a scrape that is not late", lambda: query(web, 'up{job="rondo"} == 1'))
        for expression in expressions():
            if any(name in expression for name in MAY_BE_EMPTY):
                until(f"no error of {expression}", lambda e=expression: [query(web, e)])
            else:
                until(f"an answer to {expression}", lambda e=expression: query(web, e))
            print(f"Prometheus answers {expression}")
    finally:
        for process in (prometheus, job):
            process.terminate()
            process.wait(300)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    subprocess.run([".ci/install.sh", "--metrics"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        check(f"{sys.argv[1]}/rondo", folder)


if __name__ == "__main__":
    main()
