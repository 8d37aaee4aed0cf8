#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `rondo topo` on a machine with a real PCI tree: a guest of two NUMA nodes with switches and
# network cards (guest_machine). check_guest.py checks its output.
#
#   guest.sh FOLDER_OF_PROGRAMS FOLDER     what the guest says is left in FOLDER
#
# One boot. Exits 77 with the reason, as tests/rdma/guest.sh does, if no guest is possible.
set -euo pipefail
bin=$1 said=$2
here=$(dirname "$(readlink -f "$0")")
rm -rf "$said"
mkdir -p "$said"
"$here/../rdma/guest.sh" --wires 0 --machine "$here/guest_machine" --limit 600 --share "$said" -- \
  bash "$here/in_guest.sh" "$(readlink -f "$bin")" "$(readlink -f "$said")"
python3 "$here/check_guest.py" "$bin/rondo" "$said"
