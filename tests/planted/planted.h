// SPDX-License-Identifier: Apache-2.0
// planted(): whether the bug of a patch of tests/planted is active.
//
//   if (!planted("no_release")) device::fence<Scope::kSystem>();
//
// Only the copy of the tree that tests/planted/run.py makes includes this. RONDO_PLANTED lists the
// bugs of a process and its children, separated by commas. Cost without bugs: one load and one
// comparison, so it can be used in loops. It works in host code and in kernels of the emulated GPU.
#pragma once

#include <cstdlib>
#include <string_view>

namespace rondo {

inline bool planted(std::string_view name) {
  static const std::string_view active = [] {
    const char* const wanted = std::getenv("RONDO_PLANTED");
    return std::string_view(wanted == nullptr ? "" : wanted);
  }();
  for (std::string_view rest = active; !rest.empty();) {
    const std::size_t end = rest.find(',');
    if (rest.substr(0, end) == name) return true;
    if (end == rest.npos) return false;
    rest.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace rondo
