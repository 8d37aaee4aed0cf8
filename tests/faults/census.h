// What a process holds: descriptors, mappings of shared memory and of its own, threads.
#pragma once

#include <string>
#include <vector>

namespace rondo::test {

struct Census {
  static Census now();
  // Until it is the same as `before`, for a moment: threads end and sockets close by themselves.
  // What there is more than before; empty: nothing.
  static std::string growth_since(const Census& before);

  std::vector<std::string> descriptors;  // what each is, sorted
  int shared_mappings = 0;
  long own_mappings = 0;
  int threads = 0;
};

}  // namespace rondo::test
