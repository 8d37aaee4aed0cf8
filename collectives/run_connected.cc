// Collectives along connections: what a communicator lends to kernels/host/run_connected.
#include "kernels/host/run_connected.h"

#include <algorithm>

#include "collectives/communicator_state.h"
#include "collectives/fiber_group.h"
#include "kernels/host/announcer.h"

namespace rondo {

// Two texts of this rank at once: two fibers of this thread, inside those that already run on it.
void CommunicatorState::run_two(const std::function<void()>& first,
                                const std::function<void()>& second) {
  const Waiter::Supervisor before = host.waiter.supervisor();
  Waiter::Supervisor inside_group = before;
  inside_group.suspend = [](void* self, bool fresh) {
    static_cast<CommunicatorState*>(self)->suspend_rank(fresh);
  };
  host.waiter.set_supervisor(inside_group);
  two_parts = true;
  const FiberGroup::Task tasks[] = {{first, host.self().parked, host.self().bell},
                                    {second, host.self().parked, host.self().bell}};
  FiberGroup::run(tasks);
  two_parts = false;
  host.waiter.set_supervisor(before);
}

Done CommunicatorState::run_connected(const host::HostCall& call, const Plan& plan) {
  host::Announcer announcer(host, call.record);
  ++host.step;
  announcer.reserve_line();
  announcer.publish_line(0);
  if (announcer.failed()) return why_it_ended();
  const auto end_of = [this](Result<Connection*> made) -> Connection* {
    if (made.ok()) return *made;
    raise(make_fault(made.status(), rank, made.error().text));
    return nullptr;
  };
  host::ConnectedCall connected{host, call, rank, size, {}, {}, {}};
  connected.to = [&](int peer, int channel) { return end_of(connections->to(peer, channel)); };
  connected.from = [&](int peer, int channel) { return end_of(connections->from(peer, channel)); };
  connected.run_two = [this](const auto& first, const auto& second) { run_two(first, second); };
  connected.has_entered = [this, &announcer](int peer) {
    const int local = local_of(peer);
    return local < 0 || announcer.wait_line(local);
  };
  if (call.op == RedOp::kPreMulSum) {
    scratch.resize(facts.connection_slot_bytes);
    connected.scratch = scratch.data();
  }
  const auto position = std::find(ring_order.begin(), ring_order.end(), rank) - ring_order.begin();
  const RingView view{static_cast<int>(position), size, ring_order.data()};
  if (!host::run_connected(connected, plan.algorithm, view, plan.rounds)) return why_it_ended();
  return flush_links();
}

}  // namespace rondo
