// SPDX-License-Identifier: Apache-2.0
// Layouts of hosts that NVLink joins: the clique of each process's GPUs, as the emulated machine
// and the environment state it.
//
//   in_cliques({{{0}, {1}, {2}}, {"a", "b", "c"}}, {1, 1, 2})   hosts a and b are joined
//   on_machines_with(layout, "mode=weak")                       the same on other machines
#pragma once

#include <string>
#include <vector>

#include "tests/support/layout.h"

namespace rondo::test {

// cliques: by process, from 1 on. simt: more of RONDO_SIMT, by process; empty: nothing.
inline Layout in_cliques(Layout layout, const std::vector<int>& cliques,
                         const std::vector<std::string>& simt = {}) {
  for (std::size_t p = 0; p < cliques.size(); ++p) {
    const std::string clique = std::to_string(cliques[p]);
    layout.of_process.push_back(
        {{"NCCL_MNNVL_ENABLE", "1"},
         {"NCCL_MNNVL_UUID", "171"},
         {"NCCL_MNNVL_CLIQUE_ID", clique},
         {"RONDO_SIMT", "fabric=" + clique + (simt.empty() ? "" : "," + simt[p])}});
  }
  return layout;
}

// The same layout with more of RONDO_SIMT in every process.
inline Layout on_machines_with(Layout layout, const std::string& simt) {
  for (Environment& own : layout.of_process)
    for (auto& [name, value] : own)
      if (std::string(name) == "RONDO_SIMT") value += "," + simt;
  return layout;
}

}  // namespace rondo::test
