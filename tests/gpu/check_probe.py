# SPDX-License-Identifier: Apache-2.0
"""check_probe.py PROBE: what gpu_probe says where there is no device, and of probes that hang,
abort or are interrupted: JSON that names every one, and exit statuses that tell them apart."""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

LONGEST_WAIT = 300  # seconds; a wait lasts this long only if something is wrong
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
probe = sys.argv[1]
failures = []


def expect(true, text):
    if not true:
        failures.append(text)


def ask(*arguments):
    done = subprocess.run([probe, *arguments], capture_output=True, text=True, timeout=LONGEST_WAIT)
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError as error:
        sys.exit(f"probe: {arguments} printed no JSON: {error}\n{done.stdout}\n{done.stderr}")


def is_alive(pid):
    """A zombie that nobody has waited for is dead."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children_of(pid):
    """Processes whose parent this is."""
    children = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            children.append(int(path.split("/")[2]))
    return children


def statuses(document):
    return {name: one["status"] for name, one in document["probes"].items()}


# Without a device.
listed = subprocess.run([probe, "--list"], capture_output=True, text=True, check=True).stdout
names = [line.split()[0] for line in listed.splitlines()]
code, document = ask()
expect(code == 77, f"without a device it ended with {code}, not 77")
expect(document["device"] is None and document["reason"], "it does not say why there is no device")
expect(len(names) > 20 and list(document["probes"]) == names, "probes and --list differ")
for name, status in statuses(document).items():
    expect(status == ("ok" if name == "tools" else "unsupported"), f"{name} was {status}")
expect(len(document["assumptions"]) > 30, "hardly any assumption is listed")
for one in document["assumptions"]:
    expect(one["holds"] is None, f"nobody can know whether {one['assumption']}")
for one in [*document["assumptions"], *document["probes"].values()]:
    path = one["relied_on_by"]
    expect(os.path.exists(os.path.join(ROOT, path)), f"{path}, which relies on it, does not exist")

# Failing probes are named, leave nothing behind, and the next one runs.
with tempfile.TemporaryDirectory() as folder:
    copy = os.path.join(folder, "probe.json")
    code, document = ask("planted_hang", "planted_abort", "planted_end", "--json", copy)
    with open(copy, encoding="utf-8") as file:
        expect(json.load(file) == document, "--json wrote something else")
    expect(os.listdir(folder) == ["probe.json"], f"it left {os.listdir(folder)}")
wanted = {"planted_hang": "hung", "planted_abort": "failed", "planted_end": "ok"}
expect(statuses(document) == wanted, f"planted probes were {statuses(document)}")
expect(code == 1, f"after probes that went wrong it ended with {code}, not 1")
expect(not is_alive(document["probes"]["planted_hang"]["values"]["child"]), "a grandchild lives")
expect("signal 6" in document["probes"]["planted_abort"]["reason"], "no word of the signal")
expect(document["probes"]["planted_abort"]["values"] == {"before": 1}, "what was said is lost")
end = document["probes"]["planted_end"]["values"]
expect(end["value"] == {"value": 42, "unit": "units"}, f"the value is {end['value']}")
expect(end["text"] == 'quotes " and \\ and a line\nbreak', f"the text is {end['text']}")
expect(
    [(one["holds"], one["seen"]) for one in document["assumptions"]] == [(False, "as planted")],
    "an assumption that did not hold once holds",
)

# Interrupted: keeps the output so far, and no process continues.
running = subprocess.Popen(
    [probe, "planted_end", "planted_hang", "tools"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
)
running.stderr.readline()
while b"planted_end" not in running.stderr.readline():
    pass
# planted_hang is the only one of these that has a child.
end = time.monotonic() + LONGEST_WAIT
while not any(children_of(child) for child in children_of(running.pid)):
    if time.monotonic() > end:
        sys.exit("probe: planted_hang does not begin")
    time.sleep(0.01)
running.send_signal(signal.SIGTERM)
document = json.loads(running.communicate(timeout=LONGEST_WAIT)[0])
wanted = {"planted_end": "ok", "planted_hang": "failed", "tools": "not run"}
expect(statuses(document) == wanted, f"after SIGTERM probes were {statuses(document)}")
expect(running.returncode == 1, f"after SIGTERM it ended with {running.returncode}, not 1")

code, document = ask("planted_hang", "tools", "--seconds", "1.5")
wanted = {"planted_hang": "hung", "tools": "not run"}
expect(statuses(document) == wanted, f"with 1.5 s in all probes were {statuses(document)}")

for bad in (["no_such_probe"], ["--seconds", "0"], ["--json"]):
    status = subprocess.run([probe, *bad], capture_output=True, timeout=LONGEST_WAIT).returncode
    expect(status == 2, f"{bad} ended with {status}, not 2")

for failure in failures:
    print(f"probe: {failure}")
print("probe: all is as it should be" if not failures else f"probe: {len(failures)} failures")
sys.exit(1 if failures else 0)
