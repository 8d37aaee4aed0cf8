// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/worker.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "tests/simt/machine/address_space.h"
#include "tests/simt/machine/violation.h"

namespace rondo::simt {
namespace {

thread_local Thread* running_thread = nullptr;

void run_body(void* argument) {
  const Thread& thread = *static_cast<const Thread*>(argument);
  const Grid& grid = *thread.cta.grid;
  grid.body(grid.argument());
}

constexpr std::uint64_t kFruitlessTurns = 4;  // turns without progress per ready thread until idle
constexpr std::uint64_t kJumpEvery = 64;      // average number of plain accesses between switches

}  // namespace

Thread::Thread(Cta& of, unsigned number) : cta(of), index(number), fiber(&run_body, this) {
  memory.stores.next = &of.stores;
}

Cta::Cta(std::shared_ptr<Grid> of, unsigned number, StoreBuffer* device_stores)
    : grid(std::move(of)), index(number), shared((grid->shared_bytes + 7) / 8) {
  static std::atomic<int> made{0};
  stores.next = device_stores;
  stores.owner = made.fetch_add(1, std::memory_order_relaxed);
  const unsigned count = grid->threads;
  warps.resize((count + kWarpLanes - 1) / kWarpLanes);
  for (unsigned w = 0; w < warps.size(); ++w)
    warps[w].lanes = std::min(kWarpLanes, count - w * kWarpLanes);
  threads.reserve(count);
  for (unsigned t = 0; t < count; ++t) threads.push_back(std::make_unique<Thread>(*this, t));
  threads_left = count;
}

std::string describe(const Thread& thread) {
  return fmt::format("kernel {}, device {}, CTA {} of {}, thread {} of {},", thread.cta.grid->name,
                     thread.cta.grid->device, thread.cta.index, thread.cta.grid->ctas, thread.index,
                     thread.cta.grid->threads);
}

void note_read(Thread& thread, const std::byte* at, unsigned bytes) {
  thread.cta.worker->weak()->reads().note(
      thread.memory.stores, {nullptr, thread.cta.grid->device, thread.cta.index, thread.index}, at,
      bytes);
}

void check_reads(Thread& thread, const std::byte* at, unsigned bytes) {
  const OpenReads::Batch* const reader =
      thread.cta.worker->weak()->reads().racing(thread.memory.stores, at, bytes);
  if (reader == nullptr) return;
  report(Violation::kOpenRead,
         fmt::format("{} writes {} bytes that thread {} of CTA {} of device {} has read, which "
                     "nothing orders ahead",
                     describe(thread), bytes, reader->thread, reader->cta, reader->device));
  thread.cta.worker->give_up();
}

void check_way(Thread& thread, const std::byte* at, Proxy way, bool writes) {
  Proxies& proxies = thread.cta.worker->weak()->proxies();
  Proxy by = way;
  if (!proxies.may_touch(thread.memory.number, at, way, &by)) {
    report(Violation::kProxy, fmt::format("{} comes by {} to what was written by {}, and neither "
                                          "side has made a proxy fence between",
                                          describe(thread), name(way), name(by)));
    thread.cta.worker->give_up();
  }
  if (writes) proxies.wrote(thread.memory.number, at, way);
}

void check_domain(Thread& thread, std::uint64_t address) {
  const Grid& grid = *thread.cta.grid;
  if (grid.remote_domain) return;
  const Allocation* const to = thread.cta.worker->memory().find(address);
  if (to == nullptr || to->device == grid.device) return;
  if (to->kind != MemoryKind::kDevice && to->kind != MemoryKind::kMulticast) return;
  report(Violation::kDomain,
         fmt::format("{} writes to memory of other devices, and was not launched in the remote "
                     "memory-sync domain: fences of all kernels of its device wait for that",
                     describe(thread)));
  thread.cta.worker->give_up();
}

Worker::Worker(AddressSpace& memory, const Options& options)
    : memory_(memory), options_(options), random_(options.seed), weak_(random_) {
  for (int d = 0; d < kMaxDevices; ++d) devices_[d].stores.owner = d;
}

Worker::~Worker() = default;

Thread* Worker::running() { return running_thread; }

bool Worker::keeps_lines_whole(std::uint64_t address) const {
  const Allocation* const found = memory_.find(address);
  return options_.whole_lines && found != nullptr && found->kind == MemoryKind::kDevice;
}

void Worker::add(std::unique_ptr<Cta> cta) {
  cta->worker = this;
  for (std::uint64_t& word : cta->shared) word = random_.next();
  if (options_.weak_memory) cta->writers.resize(cta->shared.size());
  for (const auto& thread : cta->threads) {
    weak_.begin(thread->memory);
    make_ready(*thread);
  }
  resident_.push_back(std::move(cta));
  spins_ = 0;
}

void Worker::make_ready(Thread& thread) {
  std::vector<Thread*>& ready = part(thread).ready;
  ready.push_back(&thread);
  thread.ready_at = ready.size();
  ++thread.cta.threads_ready;
}

void Worker::make_unready(Thread& thread) {
  if (thread.ready_at == 0) return;
  set_spinning(thread, false);
  std::vector<Thread*>& ready = part(thread).ready;
  ready.back()->ready_at = thread.ready_at;
  ready[thread.ready_at - 1] = ready.back();
  ready.pop_back();
  thread.ready_at = 0;
  --thread.cta.threads_ready;
}

void Worker::set_spinning(Thread& thread, bool spinning) {
  if (thread.spinning == spinning) return;
  thread.spinning = spinning;
  part(thread).spinning += spinning ? 1 : std::size_t(-1);
}

Worker::Turn Worker::turn(std::uint32_t allowed) {
  // If all threads wait, the store that they wait for is probably still buffered.
  if (options_.weak_memory && (spins_ > 0 || random_.one_in(4))) weak_.drain_one();
  std::size_t ready = 0, spinning = 0;
  for (int d = 0; d < kMaxDevices; ++d) {
    if ((allowed >> d & 1) == 0) continue;
    ready += devices_[d].ready.size();
    spinning += devices_[d].spinning;
  }
  if (ready == 0) {
    for (int d = 0; options_.weak_memory && d < kMaxDevices; ++d)
      weak_.drain_all(devices_[d].stores);
    return Turn::kIdle;
  }
  std::size_t chosen = random_.below(ready);
  DevicePart* from = nullptr;
  for (int d = 0; from == nullptr; ++d) {
    if ((allowed >> d & 1) == 0) continue;
    if (chosen < devices_[d].ready.size()) {
      from = &devices_[d];
    } else {
      chosen -= devices_[d].ready.size();
    }
  }
  Thread& thread = *from->ready[chosen];
  running_thread = &thread;
  thread.fiber.resume();
  running_thread = nullptr;
  const bool looked = thread.spinning;
  after(thread);
  if (!looked || spinning < ready) {
    spins_ = 0;
    return Turn::kMoved;
  }
  return ++spins_ > kFruitlessTurns * ready && weak_.empty() ? Turn::kSpun : Turn::kMoved;
}

void Worker::after(Thread& thread) {
  Cta& cta = thread.cta;
  if (cta.grid->given_up.load(std::memory_order_relaxed)) return drop(*cta.grid);
  if (!thread.fiber.ended()) {
    if (thread.ready_at == 0) check_stuck(cta);
    return;
  }
  make_unready(thread);
  if (options_.weak_memory) weak_.release(thread.memory, Scope::kCta);
  if (--cta.threads_left == 0) return retire(cta);
  check_stuck(cta);
}

// Threads that all wait for each other, or for one that has ended, are deadlocked.
void Worker::check_stuck(Cta& cta) {
  if (cta.threads_ready > 0) return;
  std::string waiting;
  for (const auto& thread : cta.threads) {
    if (thread->fiber.ended()) continue;
    if (waiting.size() < 200) waiting += fmt::format(" {}: {};", thread->index, thread->blocked_in);
  }
  report(
      Violation::kBarrier,
      fmt::format("kernel {}, CTA {}: {} of {} threads have ended and the others are deadlocked:{}",
                  cta.grid->name, cta.index, cta.threads.size() - cta.threads_left,
                  cta.threads.size(), waiting));
  cta.grid->given_up = true;
  drop(*cta.grid);
}

void Worker::retire(Cta& cta) {
  if (options_.weak_memory) weak_.drain_all(cta.stores);
  const auto at = std::find_if(resident_.begin(), resident_.end(),
                               [&](const auto& one) { return one.get() == &cta; });
  const std::shared_ptr<Grid> grid = cta.grid;
  ended_.push_back(std::move(*at));
  *at = std::move(resident_.back());
  resident_.pop_back();
  if (resident_.empty()) weak_.forget_past();
  if (grid->ctas_left.fetch_sub(1) == 1) grid->when_over(*grid);
}

void Worker::drop(Grid& grid) {
  std::vector<Cta*> dropped;
  for (const auto& cta : resident_)
    if (cta->grid.get() == &grid) dropped.push_back(cta.get());
  for (Cta* cta : dropped) {
    for (const auto& thread : cta->threads) {
      make_unready(*thread);
      if (options_.weak_memory) weak_.drain_all(thread->memory.stores);
    }
    retire(*cta);
  }
}

void Worker::drop_device(int device) {
  for (;;) {
    const auto of_device = std::find_if(resident_.begin(), resident_.end(), [&](const auto& cta) {
      return cta->grid->device == device;
    });
    if (of_device == resident_.end()) return;
    const std::shared_ptr<Grid> grid = (*of_device)->grid;
    grid->given_up = true;
    drop(*grid);
  }
}

void Worker::give_way() {
  Thread& thread = *running_thread;
  set_spinning(thread, false);
  thread.fiber.suspend();
}

void Worker::looks() { running_thread->fiber.suspend(); }

void Worker::look_again() {
  Thread& thread = *running_thread;
  thread.cta.grid->spun.store(true, std::memory_order_relaxed);
  set_spinning(thread, true);
  thread.fiber.suspend();
}

void Worker::plain_access() {
  set_spinning(*running_thread, false);
  if (!options_.jumpy || --until_jump_ != 0) return;
  until_jump_ = 1 + static_cast<unsigned>(random_.below(2 * kJumpEvery));
  running_thread->fiber.suspend();
}

void Worker::block(const char* in_what) {
  Thread& thread = *running_thread;
  thread.blocked_in = in_what;
  make_unready(thread);
  thread.fiber.suspend();
}

void Worker::wake(Thread& thread) { make_ready(thread); }

void Worker::give_up() {
  Thread& thread = *running_thread;
  thread.cta.grid->given_up = true;
  thread.fiber.suspend();
  std::abort();  // a dropped thread was resumed
}

void refuse(Violation kind, const std::string& what) {
  report(kind, describe(*running_thread) + " " + what);
  running_thread->cta.worker->give_up();
}

}  // namespace rondo::simt
