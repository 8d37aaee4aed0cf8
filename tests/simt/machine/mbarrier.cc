// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/mbarrier.h"

#include <fmt/core.h>

#include "kernels/cuda/simt_hooks.h"
#include "tests/simt/machine/violation.h"
#include "tests/simt/machine/worker.h"

namespace rondo::simt {
namespace {

Thread& arriving() { return *Worker::running(); }
Worker& its_worker() { return *arriving().cta.worker; }
Mbarriers& all_of_cta() { return arriving().cta.mbarriers; }

void see(const BarrierViews& views, Thread& thread) {
  if (its_worker().weak() != nullptr) views.join(thread.memory.view);
}

}  // namespace

void Mbarrier::settle() {
  if (missing > 0) return;
  missing = arrivals;
  ++phase;
  coming.close();
  over = std::move(coming);
  coming = {};
  for (Thread* const thread : waiting) {
    see(over, *thread);
    thread->cta.worker->wake(*thread);
  }
  waiting.clear();
}

Mbarrier& mbarrier_at(std::uint32_t at) {
  const auto found = all_of_cta().find(at);
  if (found == all_of_cta().end())
    refuse(Violation::kBarrier, fmt::format("uses no barrier at {} of shared memory", at));
  return found->second;
}

void mbarrier_init(std::uint32_t at, unsigned arrivals) {
  its_worker().plain_access();
  constexpr std::size_t kBytes = sizeof(std::uint64_t);
  if (at % kBytes != 0 || at + kBytes > arriving().cta.grid->shared_bytes)
    refuse(Violation::kBadAccess, fmt::format("makes a barrier at {} of shared memory", at));
  if (arrivals == 0)
    refuse(Violation::kBarrier, fmt::format("makes a barrier at {} for nobody", at));
  if (!all_of_cta().emplace(at, Mbarrier{arrivals, arrivals, 0, {}, {}, {}}).second)
    refuse(Violation::kBarrier, fmt::format("makes the barrier at {} a second time", at));
}
void mbarrier_end(std::uint32_t at) {
  its_worker().plain_access();
  if (!mbarrier_at(at).waiting.empty())
    refuse(Violation::kBarrier, fmt::format("ends the barrier at {} beside waits", at));
  all_of_cta().erase(at);
}
void mbarrier_arrive(std::uint32_t at) {
  its_worker().give_way();
  Mbarrier& barrier = mbarrier_at(at);
  if (barrier.missing == 0)
    refuse(Violation::kBarrier, fmt::format("is one too many at the barrier at {}", at));
  if (WeakMemory* const weak = its_worker().weak()) {
    weak->release(arriving().memory, Scope::kCta);
    barrier.coming.add(arriving().memory.view);
  }
  --barrier.missing;
  barrier.settle();
}
bool mbarrier_test(std::uint32_t at, unsigned parity) {
  its_worker().looks();
  const Mbarrier& barrier = mbarrier_at(at);
  if (!barrier.is_over(parity)) return false;
  see(barrier.over, arriving());
  return true;
}
void mbarrier_wait(std::uint32_t at, unsigned parity) {
  its_worker().give_way();
  Mbarrier& barrier = mbarrier_at(at);
  if (barrier.is_over(parity)) return see(barrier.over, arriving());
  barrier.waiting.push_back(&arriving());
  its_worker().block("a wait for an mbarrier");
}

}  // namespace rondo::simt
