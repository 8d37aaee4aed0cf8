# SPDX-License-Identifier: Apache-2.0
"""check_recipes.py SDIST FOLDER: the recipes of .ci/packaging name this version, all that a build
needs (cmake/packages.txt) and options that CMake has, and build the source archive in FOLDER: that
of conda by its own script, that of Spack (configured only) by its arguments, beside this system's
packages in place of theirs. PyPI's py-rattler-build parses and renders the recipe of conda. Spack,
whose package is not on PyPI, is replaced by the functions that a package calls."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import types

from check_needs import ROWS, TOP, own_folder

PACKAGING = TOP / ".ci" / "packaging"
VERSION = re.search(r"project\(rondo VERSION ([\d.]+)", (TOP / "CMakeLists.txt").read_text())[1]
# Where a package has another name than in the first column of the table.
CONDA = {
    "CMake 3.22": "cmake", "Ninja": "ninja", "C++20 compiler": "", "pkg-config": "pkg-config",
    "hwloc": "libhwloc", "Highway": "libhwy", "CLI11": "cli11", "nlohmann-json": "nlohmann_json",
    "Boost.Context": "libboost-devel", "OpenSSL": "openssl", "libibverbs *": "rdma-core",
    "UCX *": "ucx",
}  # fmt: skip
SPACK = {
    **CONDA, "C++20 compiler": "cxx", "pkg-config": "pkgconfig", "hwloc": "hwloc",
    "Highway": "highway", "nlohmann-json": "nlohmann-json", "Boost.Context": "boost",
}  # fmt: skip


def check_needs(named: set, names: dict) -> None:
    for row in ROWS[1:]:
        name = names.get(row[0], row[0])
        assert not name or name in named, f"{row[0]}: {name} is not in {sorted(named)}"


def run(command: list, **options) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)  # fmt: skip
    assert done.returncode == 0, f"{command}:\n{done.stdout[-20000:]}"
    return done.stdout


# ---- conda ----


def rendered() -> dict:
    from rattler_build import Stage0Recipe, VariantConfig

    recipe = Stage0Recipe.from_file(PACKAGING / "recipe" / "recipe.yaml")
    # As conda-forge's own settings have them.
    pins = {"python": ["3.12.*"], "c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"]}
    (variant,) = recipe.render(VariantConfig(pins))
    return variant.recipe.to_dict()


def build_as_conda(recipe: dict, tree: pathlib.Path, prefix: pathlib.Path) -> None:
    """The recipe's script and tests, in an environment whose packages are this system's."""
    venv = prefix / "venv"
    run([sys.executable, "-m", "venv", venv])
    run([venv / "bin/pip", "install", "-q", "hatchling>=1.28"])
    variables = {
        **os.environ, "PYTHON": str(venv / "bin/python"),
        "PATH": f"{venv}/bin:{os.environ['PATH']}",
        "CMAKE_PREFIX_PATH": str(prefix), "LDFLAGS": f"-Wl,-rpath,{prefix}/lib",
        "CMAKE_ARGS": recipe["build"]["script"]["env"]["CMAKE_ARGS"],
        "RONDO_BUILD_DIR": str(prefix / "build"),
    }  # fmt: skip
    script = recipe["build"]["script"]["content"].replace("${{ PYTHON }}", variables["PYTHON"])
    run(["bash", "-euc", script], cwd=tree, env=variables)
    for test in recipe["tests"]:
        for module in test.get("python", {}).get("imports", []):
            run([venv / "bin/python", "-c", f"import {module}"], env=variables)
        for line in test.get("script", []):
            run(["bash", "-euc", f"ulimit -u 400; {line}"], env=variables)
    needed = run(["readelf", "-d", next(venv.rglob("librondo.so.1"))])
    assert "libhwloc.so" in needed and "libcrypto.so" in needed, needed


# ---- Spack ----


def spack_package() -> tuple:
    """The class of package.py, and the directives that it calls."""
    calls = []
    package = types.ModuleType("spack.package")
    for name in ("version", "variant", "depends_on", "conflicts", "license", "generator"):
        setattr(package, name, lambda *a, _name=name, **k: calls.append((_name, a, k)))
    package.which = package.join_path = None

    class CMakePackage:
        def define(self, option: str, value: object) -> str:
            return f"-D{option}={value}"

        def define_from_variant(self, option: str, variant: str) -> str:
            variants = {a[0]: k["default"] for what, a, k in calls if what == "variant"}
            value = variants[variant]
            return self.define(option, "ON" if value else "OFF")

    systems = types.ModuleType("spack_repo.builtin.build_systems.cmake")
    systems.CMakePackage = CMakePackage
    for module in (package, systems):
        parts = module.__name__.split(".")
        for end in range(1, len(parts)):
            sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        sys.modules[module.__name__] = module
    scope = {}
    exec((PACKAGING / "spack" / "package.py").read_text(), scope)
    return scope["Rondo"], calls


def check_spack(tree: pathlib.Path, prefix: pathlib.Path) -> None:
    package, calls = spack_package()
    assert ("version", (VERSION,)) in [(what, a) for what, a, _ in calls], calls
    needs = {re.split(r"[ @+]", a[0])[0] for what, a, _ in calls if what == "depends_on"}
    check_needs(needs, SPACK)
    arguments = package().cmake_args()
    sources = "".join(path.read_text() for path in [TOP / "CMakeLists.txt",
                                                    *TOP.glob("cmake/*.cmake")])  # fmt: skip
    for argument in arguments:
        option = re.match(r"-D(\w+)=", argument)[1]
        assert re.search(rf"(option|set)\({option}\b", sources), f"CMake has no {option}"
    run(["cmake", "-G", "Ninja", "-S", tree / package.root_cmakelists_dir, "-B", prefix / "spack",
         *arguments, f"-DCMAKE_PREFIX_PATH={prefix}"])  # fmt: skip


def main() -> None:
    sdist, place = sys.argv[1:]
    folder = pathlib.Path(place).resolve()  # always the same, so that ccache knows its objects
    shutil.rmtree(folder, ignore_errors=True)
    prefix = folder / "prefix"
    prefix.mkdir(parents=True)
    own_folder(prefix, shared=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.glob("rondo_ccl-*")
    assert tree.name == f"rondo_ccl-{VERSION}", tree
    check_spack(tree, prefix)
    print("Spack: configured by the arguments of package.py", flush=True)
    recipe = rendered()
    assert recipe["package"] == {"name": "rondo-ccl", "version": VERSION}, recipe["package"]
    requirements = recipe["requirements"]
    named = {str(one).split()[0] for one in requirements["build"] + requirements["host"]}
    check_needs(named, CONDA)
    build_as_conda(recipe, tree, prefix)
    print("conda: built and tested by the script of recipe.yaml")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    assert shutil.which("cmake") and shutil.which("ninja")
    main()
