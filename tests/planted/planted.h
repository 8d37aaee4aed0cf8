// planted(): whether the bug of a patch of tests/planted is active.
//
//   if (!planted("no_release")) device::fence<Scope::kSystem>();
//
// Only the copy of the tree that tests/planted/run.py makes includes this. RONDO_PLANTED names the
// bugs of a process and of those that it starts, with commas between them. Cost: a load and a
// comparison where there are none, so that loops may ask; it works in host code and in kernels of
// the emulated GPU.
#pragma once

#include <cstdlib>
#include <string_view>

namespace rondo {

inline bool planted(std::string_view name) {
  static const std::string_view active = [] {
    const char* const said = std::getenv("RONDO_PLANTED");
    return std::string_view(said == nullptr ? "" : said);
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
