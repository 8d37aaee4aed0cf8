// Collectives along connections, within hosts and between them: what a communicator lends to
// kernels/host/run_connected and run_hierarchical.
#include "kernels/host/run_connected.h"

#include <algorithm>

#include "collectives/communicator/communicator_state.h"
#include "collectives/host/fiber_group.h"
#include "kernels/host/announcer.h"
#include "kernels/host/run_hierarchical.h"

namespace rondo {

// Two texts of this rank at once: two fibers of this thread, inside those that already run on it.
void CommunicatorState::run_two(const std::function<void()>& first,
                                const std::function<void()>& second) {
  const Waiter::Supervisor before = host.waiter.supervisor();
  Waiter::Supervisor inside_group = before;
  inside_group.suspend = [](void* self, bool fresh) {
    auto& state = *static_cast<CommunicatorState*>(self);
    (void)state.or_fault([&] { return state.suspend_rank(fresh), done(); }).ok();
  };
  host.waiter.set_supervisor(inside_group);
  waiting_parts = 2;
  const auto part = [this](const std::function<void()>& text) {
    return [this, &text] {
      (void)or_fault([&] { return text(), done(); }).ok();
      --waiting_parts;
    };
  };
  const FiberGroup::Task tasks[] = {{part(first), host.self().parked, host.self().bell},
                                    {part(second), host.self().parked, host.self().bell}};
  FiberGroup::run(tasks);
  waiting_parts = 1;
  host.waiter.set_supervisor(before);
}

host::ConnectedCall CommunicatorState::lend_connections(const host::HostCall& call) {
  const auto end_of = [this](Result<Connection*> made) -> Connection* {
    if (made.ok()) return *made;
    raise(make_fault(made.status(), rank, made.error().text));
    return nullptr;
  };
  host::ConnectedCall lent{host, call, rank, size, {}, {}, {}};
  lent.to = [end_of, this](int peer, int channel) {
    return end_of(connections->to(peer, channel));
  };
  lent.from = [end_of, this](int peer, int channel) {
    return end_of(connections->from(peer, channel));
  };
  lent.run_two = [this](const auto& first, const auto& second) { run_two(first, second); };
  return lent;
}

Done CommunicatorState::run_connected(const host::HostCall& call, const Plan& plan) {
  host::Announcer announcer(host, call.record);
  ++host.step;
  announcer.reserve_line();
  announcer.publish_line(0);
  if (announcer.failed()) return why_it_ended();
  host::ConnectedCall connected = lend_connections(call);
  connected.has_entered = [this, &announcer](int peer) {
    const int local = local_of(peer);
    return local < 0 || announcer.wait_line(local);
  };
  if (call.op == RedOp::kPreMulSum) {
    scratch.resize(facts.connection_slot_bytes);
    connected.scratch = scratch.data();
  }
  const std::vector<int>& ring = shape.ranks;
  const auto position = std::find(ring.begin(), ring.end(), rank) - ring.begin();
  const RingView view{static_cast<int>(position), size, ring.data()};
  if (!host::run_connected(connected, plan.algorithm, view, plan.rounds)) return why_it_ended();
  return flush_links();
}

// Inputs are scaled inside the host already where the operation is PreMulSum.
Done CommunicatorState::run_hierarchical(const host::HostCall& call, const Plan& plan) {
  host::HostCall between = call;
  if (between.op == RedOp::kPreMulSum) between.op = RedOp::kSum;
  host::ConnectedCall connected = lend_connections(between);
  const HostMap map{shape.hosts(), shape.host_of(rank), shape.rails, shape.first.data(),
                    shape.ranks.data()};
  if (!host::run_hierarchical(host, call, connected, between, map, plan.rounds,
                              facts.link_slot_bytes / size_of(call.type)))
    return why_it_ended();
  return flush_links();
}

}  // namespace rondo
