// SPDX-License-Identifier: Apache-2.0
// ConnectedCalls: runs collectives along connections, within hosts and between them. It provides a
// rank's connections and scratch memory to kernels/host/host_executor.h. Cost:
// connections are made at first use.
#pragma once

#include <functional>
#include <vector>

#include "collectives/rank/rank_context.h"
#include "kernels/host/slot_primitives.h"

namespace rondo {

class ConnectedCalls : RankPart {
 public:
  explicit ConnectedCalls(RankContext& context) : RankPart(context) {}

  Status run_connected(const host::HostCall& call, const Plan& plan);
  Status run_hierarchical(const host::HostCall& call, const Plan& plan);

 private:
  host::ConnectedCall lend_connections(const host::HostCall& call);
  void run_two(const std::function<void()>& first, const std::function<void()>& second);

  std::vector<std::byte> scratch_;  // one slot, for PreMulSum along connections
};

}  // namespace rondo
