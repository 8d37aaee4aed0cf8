// planted(): whether the bug of a patch of tests/planted is active.
//
//   if (!planted("no_release")) device::fence<Scope::kSystem>();
//
// Only the copy of the tree that tests/planted/run.py makes includes this. RONDO_PLANTED names the
// one bug of a process and of those that it starts. Cost: a load and a comparison, so that loops
// may ask; it works in host code and in kernels of the emulated GPU.
#pragma once

#include <cstdlib>
#include <string_view>

namespace rondo {

inline bool planted(std::string_view name) {
  static const std::string_view active = [] {
    const char* const said = std::getenv("RONDO_PLANTED");
    return std::string_view(said == nullptr ? "" : said);
  }();
  return active == name;
}

}  // namespace rondo
