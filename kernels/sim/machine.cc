// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/machine.h"

#include <algorithm>

namespace rondo::sim {

Traffic::Passed Traffic::pass(int wire, double bytes, double at_ns) {
  Use& use = used_[static_cast<std::size_t>(wire)];
  const double takes = bytes / machine_.wire_gbs[static_cast<std::size_t>(wire)];
  const double begin = std::max(at_ns, use.free_ns);
  use.free_ns = begin + takes;
  use.busy_ns += takes;
  return {begin, begin + takes};
}

double Traffic::send(std::span<const int> wires, double bytes, double at_ns) {
  Passed passed{at_ns, at_ns};
  double end = at_ns;
  for (const int wire : wires) {
    passed = pass(wire, bytes, passed.begin_ns);
    end = std::max(end, passed.end_ns);
  }
  return end;
}

int Traffic::busiest() const {
  const auto maximum = std::max_element(
      used_.begin(), used_.end(), [](const Use& a, const Use& b) { return a.busy_ns < b.busy_ns; });
  return maximum == used_.end() || maximum->busy_ns == 0
             ? -1
             : static_cast<int>(maximum - used_.begin());
}

}  // namespace rondo::sim
