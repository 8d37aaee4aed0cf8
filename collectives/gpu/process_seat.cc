// A rank's seat in the team of processes that share its device: what the team asks of it.
#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/process_hooks.h"
#include "collectives/watchdog/peer_words.h"

namespace rondo {
namespace {

class Seat final : public gpu::ProcessHooks {
 public:
  explicit Seat(CommunicatorState& state) : state_(state) { state_.team->processes()->join(this); }
  ~Seat() override { state_.team->processes()->leave(this); }

  Done standing() override { return state_.standing(); }
  void raise(Fault fault) override {
    fault.rank = state_.rank;
    state_.raise(std::move(fault));
  }
  double limit_seconds() override { return state_.timeout_seconds.load(std::memory_order_relaxed); }
  double device_seconds() override { return state_.options.kernel_seconds; }
  std::string name_of(int rank) override { return state_.rank_name(rank); }
  bool has_ended(int rank) override {
    const int local = state_.local_of(rank);
    return local >= 0 &&
           rondo::has_ended(state_.group->processes[state_.group->process_of_member[local]]);
  }

 private:
  CommunicatorState& state_;
};

}  // namespace

Done CommunicatorState::standing() {
  if (ended.load(std::memory_order_acquire) != kRunning) return why_it_ended();
  if (faulted.load(std::memory_order_acquire) || adopt_peer_fault()) return adopted_fault();
  return served_standing ? served_standing() : done();
}

void CommunicatorState::take_seat() { seat = std::make_unique<Seat>(*this); }

}  // namespace rondo
