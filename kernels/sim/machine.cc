// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/machine.h"

#include <algorithm>

namespace rondo::sim {

double Traffic::send(std::span<const int> wires, double bytes, double at_ns) {
  double begin = at_ns, end = at_ns;
  for (const int number : wires) {
    Use& wire = used_[static_cast<std::size_t>(number)];
    const double takes = bytes / machine_.wire_gbs[static_cast<std::size_t>(number)];
    begin = std::max(begin, wire.free_ns);
    end = std::max(end, begin + takes);
    wire.free_ns = begin + takes;
    wire.busy_ns += takes;
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
