# SPDX-License-Identifier: Apache-2.0
"""docker_steps.py DOCKERFILE CONTEXT FOLDER [ARGUMENTS...]: runs the steps of a Dockerfile without
Docker, as root. Each stage is a root file system below FOLDER, made by debootstrap of the release
that FROM names; RUN is a chroot in namespaces of its own. Then the last stage's command runs as its
user, and after it with each of ARGUMENTS, a command line. Instructions that it knows: FROM,
COPY, WORKDIR, RUN, USER, ENTRYPOINT and CMD."""

import fnmatch
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

MAX_PROCESSES = 400
# A user's ranks, in namespaces that end with all their processes.
ISOLATED = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc"]


class Stage:
    def __init__(self, folder: pathlib.Path, image: str) -> None:
        self.root, self.workdir, self.user, self.entry, self.command = folder, "/", "root", [], []
        distribution, release = image.split(":")
        assert distribution == "debian", image
        base = folder.with_name(f"base-{release}")
        if not (base / "complete").exists():
            shutil.rmtree(base, ignore_errors=True)
            subprocess.run(
                ["debootstrap", "--variant=minbase", release.removesuffix("-slim"), base],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            (base / "complete").touch()
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["cp", "-a", base, folder], check=True)
        for name in ("apt/sources.list", "apt/sources.list.d", "apt/apt.conf.d", "resolv.conf"):
            source, to = pathlib.Path("/etc") / name, folder / "etc" / name
            if source.is_dir():
                shutil.copytree(source, to, dirs_exist_ok=True)
            elif source.exists():
                shutil.copy(source, to)

    def run(self, line: str, user: str = "root") -> None:
        within = f"cd {shlex.quote(self.workdir)} && {line}"
        limit = "" if user == "root" else f"ulimit -u {MAX_PROCESSES}; "
        inside = (
            f"mount --bind /dev {self.root}/dev; mount -t proc proc {self.root}/proc; {limit}"
            f"exec chroot --userspec={user} {self.root} bash -euc {shlex.quote(within)}"
        )
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                       "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}  # fmt: skip
        subprocess.run([*ISOLATED, inside], check=True, env=environment)


def is_ignored(name: str, rules: list) -> bool:
    ignored = False
    for rule in rules:
        pattern = rule.removeprefix("!")
        if fnmatch.fnmatch(name, pattern) or name.startswith(pattern + "/"):
            ignored = not rule.startswith("!")
    return ignored


def copy_context(context: pathlib.Path, to: pathlib.Path, rules: list) -> None:
    """The files that git would commit, less the ignored ones."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=context, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in listing.stdout.splitlines():
        if not is_ignored(name, rules) and (context / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(context / name, to / name)


def instructions(text: str) -> list:
    text = text.replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]


def build(dockerfile: pathlib.Path, context: pathlib.Path, folder: pathlib.Path) -> Stage:
    ignore = dockerfile.with_name(dockerfile.name + ".dockerignore").read_text().splitlines()
    rules = [rule for rule in ignore if rule and not rule.startswith("#")]
    stages, stage = {}, None
    for word, rest in instructions(dockerfile.read_text()):
        print(word, rest, flush=True)
        if word == "FROM":
            image, *name = rest.split(" AS ")
            stage = Stage(folder / (name[0] if name else "last"), image)
            stages[name[0] if name else ""] = stage
        elif word == "COPY" and rest.startswith("--from="):
            origin, source, to = rest.removeprefix("--from=").split()
            shutil.copytree(f"{stages[origin].root}{source}", f"{stage.root}{to}",
                            symlinks=True, dirs_exist_ok=True)  # fmt: skip
        elif word == "COPY":
            source, to = rest.split()
            assert source == ".", rest
            copy_context(context, pathlib.Path(f"{stage.root}{to}"), rules)
        elif word == "WORKDIR":
            stage.workdir = rest
        elif word == "RUN":
            stage.run(rest, stage.user)
        elif word == "USER":
            stage.user = rest
        elif word in ("ENTRYPOINT", "CMD"):
            setattr(stage, "entry" if word == "ENTRYPOINT" else "command", json.loads(rest))
        else:
            sys.exit(f"{dockerfile}: {word} is not known here")
    return stage


def size_of(root: pathlib.Path) -> int:
    listed = subprocess.run(["du", "-sbx", root], check=True, capture_output=True, text=True)
    return int(listed.stdout.split()[0])


def main() -> None:
    assert os.geteuid() == 0, "as root only"
    dockerfile, context, folder = (pathlib.Path(one).resolve() for one in sys.argv[1:4])
    folder.mkdir(parents=True, exist_ok=True)
    last = build(dockerfile, context, folder)
    added = size_of(last.root) - size_of(next(folder.glob("base-*")))
    print(f"the image adds {added / 1e6:.1f} MB to its base")
    last.workdir = "/tmp"
    # Findings of the doctor about this machine are no failure.
    last.run(f"{shlex.join(last.entry + last.command)} || [ $? = 1 ]", last.user)
    for line in sys.argv[4:]:
        last.run(f"{shlex.join(last.entry)} {line}", last.user)


if __name__ == "__main__":
    main()
