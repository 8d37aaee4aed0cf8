#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs in a system of tests/abi/systems.sh with the wheel in /tmp: installs and uses it.
set -euo pipefail
. /etc/os-release
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
printf '%s, %s, Python %s: ' "$PRETTY_NAME" "$(ldd --version | head -n 1 | grep -o '[0-9.]*$')" \
  "$python"
rm -rf /tmp/tried
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
  python3 -m venv /tmp/tried
  /tmp/tried/bin/pip install -q --no-index /tmp/rondo_ccl-*.whl
  rondo=/tmp/tried/bin/rondo
  /tmp/tried/bin/python -W error -c 'import rondo; assert rondo.__version__'
else
  unzip -q /tmp/rondo_ccl-*.whl -d /tmp/tried
  rondo=/tmp/tried/rondo/bin/rondo
  chmod +x "$rondo"
fi
"$rondo" --version >/dev/null
"$rondo" doctor >/tmp/doctor.txt || [ $? = 1 ]  # findings about the machine
grep -q . /tmp/doctor.txt
"$rondo" bench all_reduce --ranks 4 -b 4 -e 1M -f 64 -n 5 --no-progress >/tmp/bench.txt
grep 'Out of bounds values : 0 OK' /tmp/bench.txt >/dev/null
echo "the wheel runs"
