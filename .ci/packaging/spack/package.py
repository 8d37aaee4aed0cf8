# SPDX-License-Identifier: Apache-2.0
"""Package of Spack: packages/rondo/package.py of a repository."""

from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Rondo(CMakePackage):
    """Collectives with NCCL's C API, on CPUs and GPUs: librondo.so.1, libnccl.so.2, the command
    rondo. Programs that use NCCL run on it unchanged, also without a GPU."""

    homepage = "https://pypi.org/project/rondo-ccl"
    pypi = "rondo-ccl/rondo_ccl-0.1.0.tar.gz"

    license("Apache-2.0")

    # .ci/release.sh prints the line of a release, with its sha256.
    version("0.1.0")

    variant("nccl", default=True, description="NCCL's names: libnccl.so.2 and nccl.h")
    variant("verbs", default=True, description="InfiniBand and RoCE")
    variant("ucx", default=False, description="UCX")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2:")
    depends_on("highway")
    depends_on("fmt@9:")
    depends_on("cli11")
    depends_on("pugixml")
    depends_on("nlohmann-json")
    depends_on("boost@1.74: +context")
    depends_on("openssl")
    depends_on("rdma-core", when="+verbs")
    depends_on("ucx", when="+ucx")

    conflicts("platform=darwin")
    conflicts("platform=windows")
    conflicts("%gcc@:10", msg="C++20 as of GCC 11 is needed")

    root_cmakelists_dir = "source"
    generator("ninja")

    def cmake_args(self):
        return [
            self.define("RONDO_GPU", "none"),
            self.define_from_variant("RONDO_INSTALL_NCCL", "nccl"),
            self.define_from_variant("RONDO_VERBS", "verbs"),
            self.define_from_variant("RONDO_UCX", "ucx"),
        ]

    def test_version(self):
        """the command runs"""
        which(join_path(self.prefix.bin, "rondo"))("--version")
