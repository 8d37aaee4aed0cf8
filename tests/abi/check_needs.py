# SPDX-License-Identifier: Apache-2.0
"""check_needs.py: what .ci/install.sh and CMake say and do about packages that a build needs, on
systems with other package managers (programs of this test that only write down what is asked of
them), without any, without root, and with a user's own folders. CMake runs with the network cut off
where that is permitted."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
TABLE = TOP / "cmake" / "packages.txt"
TOOLS = "awk bash cat dirname env grep head mktemp python3 rm sed tail".split()
ROWS = [re.split(r" *\| *", line) for line in TABLE.read_text().splitlines() if "|" in line]
MANAGERS = ROWS[0][1:]
OPTIONAL = " *"
# Answers whether a package is installed, by the lines of the file "installed".
ASKS = {"dnf": "rpm", "zypper": "rpm", "pacman": "pacman", "apt-get": "dpkg-query"}


def column(manager: str) -> list:
    return [row[ROWS[0].index(manager)] for row in ROWS[1:]]


class System:
    """Folder of programs that is all of PATH."""

    def __init__(self, manager: str, *, root: bool = True, sudo: bool = False) -> None:
        self.manager = manager
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.program("id", f"echo {0 if root else 1000}")
        if sudo:
            self.program("sudo", 'echo sudo >>"$LOG"; exec "$@"')
        asks = 'for name in "$@"; do last=$name; done; grep -qxF -- "$last" "$INSTALLED" || exit 1'
        if manager == "apt-get":
            self.program("dpkg-query", asks + "; echo 'install ok installed'")
        if manager in ("dnf", "zypper"):
            self.program("rpm", asks)
        install = """echo "$0 $*" >>"$LOG"; cat "$ANSWER"; exit "$STATUS\""""
        if manager == "pacman":
            install = f'if [ "$1" = -T ]; then {asks}; exit; fi; {install}'
        if manager:
            self.program(manager, install)

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def install(self, *options: str, installed=(), answer="", **variables: str):
        for name, text in (("installed", "\n".join(installed)), ("answer", answer), ("log", "")):
            (self.folder / name).write_text(text)
        environment = {
            "PATH": str(self.bin), "LOG": str(self.folder / "log"), "TMPDIR": str(self.folder),
            "INSTALLED": str(self.folder / "installed"), "ANSWER": str(self.folder / "answer"),
            "STATUS": "1" if answer else "0", **variables,
        }  # fmt: skip
        done = subprocess.run(
            [TOP / ".ci" / "install.sh", *options], env=environment, capture_output=True, text=True
        )
        self.asked = [
            line.replace(str(self.bin) + "/", "")
            for line in (self.folder / "log").read_text().splitlines()
        ]
        return done


def each_manager_installs_what_is_missing() -> None:
    for manager in MANAGERS:
        names = column(manager)
        assert len(set(names)) == len(names) >= 14 and all(names), manager
        system = System(manager)
        done = system.install(installed=names[1:])
        assert done.returncode == 0 and done.stderr == "", (manager, done)
        assert done.stdout == f"installing: {names[0]}\n", done
        assert system.asked[-1].split()[0] == manager, system.asked
        assert system.asked[-1].split()[-1] == names[0], system.asked
        assert "install" in system.asked[-1] or "-S" in system.asked[-1], system.asked
        assert system.install(installed=names).stdout == "" and system.asked == [], system.asked
        done = system.install()
        assert system.asked[-1].endswith(" ".join(names)), system.asked


def users_use_sudo_or_are_refused() -> None:
    for manager in MANAGERS:
        names = column(manager)
        system = System(manager, root=False, sudo=True)
        assert system.install(installed=names[2:]).returncode == 0
        assert system.asked[-2] == "sudo", system.asked
        system = System(manager, root=False)
        done = system.install(installed=names[2:])
        assert done.returncode == 2 and system.asked == [], done
        assert done.stderr.count("\n") == 1 and " ".join(names[:2]) + ";" in done.stderr, done
        assert "CMAKE_PREFIX_PATH" in done.stderr, done
        done = system.install(installed=names[2:], CMAKE_PREFIX_PATH="/home/me/own")
        assert done.returncode == 0 and done.stderr.count("\n") == 1, done
        assert " ".join(names[:2]) in done.stderr and "/home/me/own" in done.stderr, done


def failures_have_a_remedy() -> None:
    for manager, answer, remedy in (
        ("dnf", "No match for argument: fmt-devel\nError: Unable to find a match", "EPEL"),
        ("pacman", "error: target not found: openucx", "pacman -Syu"),
        ("zypper", "Problem retrieving files. Could not resolve host", "network"),
        ("apt-get", "E: Failed to fetch http://x  Could not connect", "network"),
        ("zypper", "System management is locked by the application with pid 7", "other zypper"),
        ("dnf", "Error: No space left on device", "free some space"),
    ):
        done = System(manager).install(answer=answer)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done
        assert remedy in done.stderr and done.stderr.startswith("install.sh: cannot "), done


def others_get_the_table() -> None:
    done = System("").install()
    assert done.returncode == 2, done
    lines = done.stderr.splitlines()
    assert lines[:-1] == [line for line in TABLE.read_text().splitlines() if "|" in line], lines
    assert "no apt-get, dnf, zypper or pacman" in lines[-1], lines
    done = System("").install(CMAKE_PREFIX_PATH="/home/me/own")
    assert done.returncode == 0 and done.stderr.count("\n") == 1, done


def what_debian_alone_has_is_refused_elsewhere() -> None:
    for manager in ("dnf", "zypper", "pacman"):
        done = System(manager).install("--tests", installed=column(manager))
        assert done.returncode == 2 and "only on Debian" in done.stderr, done
        assert System(manager).install("--torch", installed=column(manager)).returncode in (0, 2)
    system = System("apt-get")
    system.install("--deb", installed=column("apt-get"))
    assert system.asked[-1].endswith("ccache dpkg-dev debootstrap file"), system.asked


# ---- CMake ----

SEARCH_NOTHING = ["CMAKE_SYSTEM_PATH", "SYSTEM_ENVIRONMENT_PATH", "PACKAGE_REGISTRY"]


def configure(*options: str, prefix: str = "") -> tuple:
    """In a new folder: without the system's own prefixes, and without a network."""
    folder = tempfile.mkdtemp()
    without = [f"-DCMAKE_FIND_USE_{one}=OFF" for one in SEARCH_NOTHING]
    command = ["cmake", "-G", "Ninja", "-S", str(TOP), "-B", folder, *without, *options]
    tools = {"MAKE_PROGRAM": "ninja", "C_COMPILER": "cc", "CXX_COMPILER": "c++"}
    for variable, tool in tools.items():
        command.append(f"-DCMAKE_{variable}={shutil.which(tool)}")
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0:
        command = ["unshare", "-rn", *command]
    variables = {
        **os.environ, "CMAKE_PREFIX_PATH": prefix, "PKG_CONFIG_LIBDIR": "/nowhere",
        "PKG_CONFIG_PATH": "",
    }  # fmt: skip
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    return done, pathlib.Path(folder)


def all_that_is_missing_is_named_at_once() -> None:
    done, folder = configure()
    assert done.returncode != 0
    libraries = [row for row in ROWS[5:] if not row[0].endswith(OPTIONAL)]
    assert len(libraries) == 8, libraries
    names = re.search(r"not found: (.*)", done.stderr)[1].split(", ")
    assert sorted(names) == sorted(row[0] for row in libraries), names
    lines = [line.strip() for line in done.stderr.splitlines() if "|" in line]
    assert [re.split(r" *\| *", line) for line in lines] == [ROWS[0], *libraries], lines
    assert "Nothing was fetched" in done.stderr and "CMAKE_PREFIX_PATH" in done.stderr
    assert not (folder / "_deps").exists()


def no_file_of_the_build_fetches() -> None:
    fetches = re.compile(r"FetchContent|ExternalProject|file\(\s*DOWNLOAD|CPM|curl |wget |git ")
    for path in [*TOP.glob("CMakeLists.txt"), *TOP.glob("*/**/CMakeLists.txt"),
                 *TOP.glob("cmake/*.cmake")]:  # fmt: skip
        if "build" not in path.relative_to(TOP).parts:
            assert not fetches.search(path.read_text()), path


def own_folder(folder: pathlib.Path, *, shared: bool) -> None:
    """A prefix with the packages of this system, as a user's own builds of them would be; shared:
    as conda and Fedora have them."""
    machine = subprocess.run(["cc", "-print-multiarch"], capture_output=True, text=True)
    include, lib = folder / "include", folder / "lib" / machine.stdout.strip()
    include.mkdir()
    (lib / "cmake").mkdir(parents=True)
    system = pathlib.Path("/usr/lib") / machine.stdout.strip()
    for name in ("hwloc.h", "hwloc", "hwy", "fmt", "CLI", "pugixml.hpp", "pugiconfig.hpp",
                 "nlohmann", "boost", "openssl"):  # fmt: skip
        (include / name).symlink_to(pathlib.Path("/usr/include") / name)
    for library in ("hwloc", "crypto"):
        (lib / f"lib{library}.so").symlink_to(system / f"lib{library}.so")
    ending = "so" if shared else "a"
    (lib / f"libpugixml.{ending}").symlink_to(system / f"libpugixml.{ending}")
    for library in system.glob(f"libboost_context.{ending}*"):
        (lib / library.name).symlink_to(library)
    config = lib / "cmake" / "pugixml"
    config.mkdir()
    target = "pugixml::pugixml" if shared else "pugixml::static"
    (config / "pugixml-config.cmake").write_text(
        f"add_library({target} {'SHARED' if shared else 'STATIC'} IMPORTED)\n"
        f"set_target_properties({target} PROPERTIES IMPORTED_LOCATION {lib}/libpugixml.{ending}\n"
        f"  INTERFACE_INCLUDE_DIRECTORIES {include})\n"
    )
    for found in system.glob("cmake/[Bb]oost*"):
        if found.name.startswith(("Boost-", "BoostDetect", "boost_headers-", "boost_context-")):
            copy_config(found, lib / "cmake" / found.name, "static" if shared else "shared")


def copy_config(found: pathlib.Path, to: pathlib.Path, left_out: str) -> None:
    """Paths in these files are relative to them."""
    if found.is_file():
        shutil.copy(found, to)
        return
    to.mkdir()
    for file in found.glob("*.cmake"):
        if left_out not in file.name:
            shutil.copy(file, to)


def a_users_own_folder_is_searched() -> None:
    for shared in (False, True):
        with tempfile.TemporaryDirectory() as prefix:
            own_folder(pathlib.Path(prefix), shared=shared)
            done, folder = configure(prefix=prefix)
            assert done.returncode == 0, done.stderr
            ninja = (folder / "build.ninja").read_text()
            assert f"-isystem {prefix}/include" in ninja
            for name in ("hwloc.so", "crypto.so", "pugixml.", "boost_context."):
                assert re.search(rf"{prefix}/lib/\S*lib{name}", ninja), name
            assert not re.search(r"/usr/lib\S*/lib(hwloc|crypto|pugixml|boost_context)\.", ninja)


def main() -> None:
    tempfile.tempdir = tempfile.mkdtemp()
    try:
        for check in CHECKS:
            check()
            print(check.__name__.replace("_", " "))
    finally:
        shutil.rmtree(tempfile.tempdir)


CHECKS = (
    each_manager_installs_what_is_missing,
    users_use_sudo_or_are_refused,
    failures_have_a_remedy,
    others_get_the_table,
    what_debian_alone_has_is_refused_elsewhere,
    all_that_is_missing_is_named_at_once,
    no_file_of_the_build_fetches,
    a_users_own_folder_is_searched,
)

if __name__ == "__main__":
    sys.exit(main())
