// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/connected_calls.h"

#include <algorithm>
#include <cassert>

#include "collectives/rank/fiber_group.h"
#include "collectives/watchdog/supervisor.h"
#include "kernels/host/announcer.h"
#include "kernels/host/host_executor.h"

namespace rondo {

// Runs two algorithms of this rank at once: two fibers of this thread, inside the fibers that
// already run on it.
void ConnectedCalls::run_two(const std::function<void()>& first,
                             const std::function<void()>& second) {
  assert(first && second && call_.waiting_parts == 1 && "one pair of parts at a time");
  const Waiter::Supervisor before = host_.waiter.supervisor();
  Waiter::Supervisor inside_group = before;
  inside_group.suspend = Supervisor::suspend;
  host_.waiter.set_supervisor(inside_group);
  call_.waiting_parts = 2;
  const auto part = [this](const std::function<void()>& text) {
    return [this, &text] {
      (void)faults_.or_fault([&] { return text(), ok_status(); }).ok();
      --call_.waiting_parts;
    };
  };
  const FiberGroup::Task tasks[] = {{part(first), host_.self().parked, host_.self().bell},
                                    {part(second), host_.self().parked, host_.self().bell}};
  FiberGroup::run(tasks);
  call_.waiting_parts = 1;
  host_.waiter.set_supervisor(before);
}

host::ConnectedCall ConnectedCalls::lend_connections(const host::HostCall& call) {
  const auto end_of = [this](Result<Connection*> made) -> Connection* {
    if (made.ok()) return *made;
    faults_.raise(faults_.make(made.code(), members_.rank, made.error().text));
    return nullptr;
  };
  host::ConnectedCall lent{host_, call, members_.rank, members_.size, {}, {}, {}};
  lent.to = [end_of, this](int peer, int channel) {
    return end_of(connections_->to(peer, channel));
  };
  lent.from = [end_of, this](int peer, int channel) {
    return end_of(connections_->from(peer, channel));
  };
  lent.run_two = [this](const auto& first, const auto& second) { run_two(first, second); };
  return lent;
}

Status ConnectedCalls::run_connected(const host::HostCall& call, const Plan& plan) {
  assert(plan.row != nullptr && plan.row->verbs == Verbs::kPrimitives);
  host::Announcer announcer(host_, call.announced());
  ++host_.step;
  announcer.reserve_line();
  announcer.publish_line(0);
  if (announcer.failed()) return faults_.why_it_ended();
  host::ConnectedCall connected = lend_connections(call);
  connected.has_entered = [this, &announcer](int peer) {
    const int local = members_.local_of(peer);
    return local < 0 || announcer.wait_line(local);
  };
  if (call.op == RedOp::kPreMulSum) {
    scratch_.resize(facts_.connection_slot_bytes);
    connected.scratch = scratch_.data();
  }
  const std::vector<int>& ring = members_.shape.ranks;
  const auto position = std::find(ring.begin(), ring.end(), members_.rank) - ring.begin();
  assert(position < members_.size && "this rank is in its ring");
  const RingView view{static_cast<int>(position), members_.size, {ring.data()}};
  if (!host::run_connected(connected, plan.algorithm, view, plan.rounds))
    return faults_.why_it_ended();
  return remote_.flush();
}

// With PreMulSum, inputs are already scaled inside the host, so hosts exchange plain sums.
Status ConnectedCalls::run_hierarchical(const host::HostCall& call, const Plan& plan) {
  assert(members_.shape.hosts() > 1 && plan.row != nullptr && plan.row->verbs == Verbs::kViews);
  host::HostCall between = call;
  if (between.op == RedOp::kPreMulSum) between.op = RedOp::kSum;
  host::ConnectedCall connected = lend_connections(between);
  const HostMap map{members_.shape.hosts(), members_.shape.host_of(members_.rank),
                    members_.shape.rails, members_.shape.first.data(), members_.shape.ranks.data()};
  if (!host::run_hierarchical(host_, call, connected, between, map, plan.rounds,
                              facts_.link_slot_bytes / size_of(call.type)))
    return faults_.why_it_ended();
  return remote_.flush();
}

}  // namespace rondo
