#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs in a system of tests/abi/systems.sh with the wheel in /tmp: installs and uses it.
set -euo pipefail
. /etc/os-release
export HOME=/tmp/tried OMP_NUM_THREADS=1
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
printf '%s, glibc %s, Python %s: ' "$PRETTY_NAME" \
  "$(ldd --version | head -n 1 | grep -o '[0-9.]*$')" "$python"
rm -rf $HOME
mkdir $HOME
cd $HOME

# LINE COMMAND...: fails, and the last line on stderr holds LINE.
fails_with() {
  local line=$1
  shift
  ! "$@" >/dev/null 2>said.txt || { echo "it ran: $*"; exit 1; }
  tail -n 1 said.txt | grep -q "$line" || { cat said.txt; exit 1; }
}
if python3 -c 'import struct, sys; sys.exit(struct.calcsize("P") != 4)'; then
  python3 -m venv venv
  ! venv/bin/pip install -q --no-index /tmp/rondo_ccl-*.whl >pip.txt 2>&1
  grep -q 'not a supported wheel' pip.txt
  unzip -q /tmp/rondo_ccl-*.whl -d unpacked
  export PYTHONPATH=unpacked
  fails_with 'Rondo needs a 64-bit Python; this one has 32 bits' python3 -c 'import rondo.library'
  chmod +x unpacked/rondo/bin/rondo
  fails_with 'Rondo needs a 64-bit Python; this one has 32 bits' python3 -m rondo doctor
  echo "32 bits: pip refuses the wheel, the first import says why"
  exit 0
fi

torch=
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
  python3 -m venv venv
  venv/bin/pip install -q --no-index /tmp/rondo_ccl-*.whl
  rondo=venv/bin/rondo
  venv/bin/python -W error -c 'import rondo; assert rondo.__version__'
  [ ! -e /opt/torch/torch ] || torch=yes
else
  unzip -q /tmp/rondo_ccl-*.whl -d unpacked
  rondo=unpacked/rondo/bin/rondo
  chmod +x $rondo
fi
$rondo --version >/dev/null
$rondo doctor >doctor.txt || [ $? = 1 ]  # findings about the machine
grep -q . doctor.txt
$rondo bench all_reduce --ranks 4 -b 4 -e 1M -f 64 -n 5 --no-progress >bench.txt
grep -q 'Out of bounds values : 0 OK' bench.txt
if [ -n "$torch" ]; then
  cat >sum.py <<'PYTHON'
import torch
import torch.distributed as dist
import rondo.torch

dist.init_process_group("rondo")
numbers = torch.full((1000,), float(dist.get_rank() + 1))
dist.all_reduce(numbers)
assert dist.get_world_size() == 2 and torch.all(numbers == 3), numbers
dist.destroy_process_group()
PYTHON
  PYTHONPATH=/opt/torch $rondo run -n 2 -- venv/bin/python sum.py >torch.txt 2>&1 ||
    { tail -n 20 torch.txt; exit 1; }
fi
echo "doctor, 4 ranks${torch:+, torch with 2 ranks}"
