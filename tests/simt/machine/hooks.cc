// SPDX-License-Identifier: Apache-2.0
// The functions that kernels call (kernels/cuda/simt_hooks.h), for the GPU thread that runs.
#include <fmt/core.h>

#include <chrono>

#include "kernels/cuda/simt_hooks.h"
#include "tests/simt/machine/address_space.h"
#include "tests/simt/machine/raw_access.h"
#include "tests/simt/machine/violation.h"
#include "tests/simt/machine/worker.h"

namespace rondo::simt {
namespace {

constexpr unsigned kPair = sizeof(LinePart::value);  // unit that carries data and its flags

Thread& self() { return *Worker::running(); }
Worker& worker() { return *self().cta.worker; }

// Real address of an access; ends the kernel if the access is not allowed.
std::byte* place(const void* pointer, unsigned bytes, const char* verb) {
  Thread& thread = self();
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  if (address % bytes != 0) {
    report(Violation::kBadAccess, fmt::format("{} {} {} bytes at {:#x}, which is not aligned",
                                              describe(thread), verb, bytes, address));
    worker().give_up();
  }
  std::byte* const at = worker().memory().for_device(thread.cta.grid->device, address, bytes, verb,
                                                     [&] { return describe(thread); });
  if (at == nullptr) worker().give_up();
  return at;
}

std::byte* place_to_write(const void* pointer, unsigned bytes, const char* verb) {
  std::byte* const at = place(pointer, bytes, verb);
  check_domain(self(), reinterpret_cast<std::uint64_t>(pointer));
  return at;
}

template <class Access>
void in_whole_parts(unsigned bytes, Access&& access) {
  for (unsigned done = 0; done < bytes; done += kWhole)
    access(done, bytes < kWhole ? bytes : kWhole);
}

std::byte* shared_place(std::uint32_t offset, unsigned bytes) {
  Cta& cta = self().cta;
  const std::size_t size = cta.grid->shared_bytes;
  if (offset % bytes == 0 && offset <= size && bytes <= size - offset)
    return reinterpret_cast<std::byte*>(cta.shared.data()) + offset;
  report(Violation::kBadAccess,
         fmt::format("{} touches {} bytes at {} of {} bytes of shared memory", describe(self()),
                     bytes, offset, size));
  worker().give_up();
}

Warp& warp_of(Thread& thread) { return thread.cta.warps[thread.index / kWarpLanes]; }

// A lane may read what another lane of its warp has written only after sync_warp or a barrier:
// votes, shuffles and divergence order no accesses to memory. (Other warps are not checked: they
// wait at mbarriers.)
void check_lanes(Thread& thread, std::uint32_t offset) {
  const SharedWriter& by = thread.cta.writers[offset / kWhole];
  if (by.thread == SharedWriter::kNobody || by.thread == thread.index ||
      by.thread / kWarpLanes != thread.index / kWarpLanes || by.ordered != warp_of(thread).ordered)
    return;
  refuse(Violation::kLaneRace,
         fmt::format("reads {} of shared memory, which thread {} of its warp has written, and no "
                     "sync_warp orders the two",
                     offset, by.thread));
}

// Arrives at the barrier; the last thread releases the others. Returns true for the last one.
bool arrive(Barrier& barrier) {
  Thread& thread = self();
  if (WeakMemory* const weak = worker().weak()) {
    weak->release(thread.memory, Scope::kCta);
    barrier.views.add(thread.memory.view);
  }
  if (++barrier.arrived < thread.cta.threads.size()) return false;
  barrier.views.close();
  for (Thread* const waiting : barrier.waiting) {
    barrier.views.raise(waiting->memory.view);
    worker().wake(*waiting);
  }
  barrier.views.raise(thread.memory.view);
  barrier = {};
  for (Warp& warp : thread.cta.warps) ++warp.ordered;
  return true;
}

// Contributes a value to the warp's meeting; afterwards warp.taken has those of all lanes.
Warp& meet(const char* what, std::uint64_t value, bool orders_memory) {
  Thread& thread = self();
  Warp& warp = warp_of(thread);
  if (warp.arrived > 0 && warp.what != what)
    refuse(Violation::kBarrier,
           fmt::format("comes to {} while its warp is at {}", what, warp.what));
  warp.what = what;
  warp.brought[thread.index % kWarpLanes] = value;
  if (WeakMemory* const weak = worker().weak(); weak != nullptr && orders_memory) {
    weak->release(thread.memory, Scope::kCta);
    warp.views.add(thread.memory.view);
  }
  if (++warp.arrived < warp.lanes) {
    warp.waiting.push_back(&thread);
    worker().block(what);
    return warp;
  }
  warp.taken = warp.brought;
  warp.views.close();
  for (Thread* const waiting : warp.waiting) {
    if (orders_memory) warp.views.raise(waiting->memory.view);
    worker().wake(*waiting);
  }
  if (orders_memory) warp.views.raise(thread.memory.view), ++warp.ordered;
  warp.views = {};
  warp.waiting.clear();
  warp.arrived = 0;
  worker().give_way();
  return warp;
}

bool acquires(Order order) { return order == Order::kAcquire || order == Order::kAcquireRelease; }
bool releases(Order order) { return order == Order::kRelease || order == Order::kAcquireRelease; }

template <class T>
std::uint64_t change(Atomic what, std::byte* at, std::uint64_t value) {
  T* const word = reinterpret_cast<T*>(at);
  const T operand = static_cast<T>(value);
  switch (what) {
    case Atomic::kAdd:
      return __atomic_fetch_add(word, operand, __ATOMIC_ACQ_REL);
    case Atomic::kExchange:
      return __atomic_exchange_n(word, operand, __ATOMIC_ACQ_REL);
    case Atomic::kOr:
      return __atomic_fetch_or(word, operand, __ATOMIC_ACQ_REL);
    case Atomic::kAnd:
      return __atomic_fetch_and(word, operand, __ATOMIC_ACQ_REL);
    case Atomic::kMax:
      break;
  }
  T old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  while (old < operand && !__atomic_compare_exchange_n(word, &old, operand, false, __ATOMIC_ACQ_REL,
                                                       __ATOMIC_ACQUIRE)) {
  }
  return old;
}

template <class T>
std::uint64_t swap_if(std::byte* at, std::uint64_t expected, std::uint64_t desired) {
  T seen = static_cast<T>(expected);
  __atomic_compare_exchange_n(reinterpret_cast<T*>(at), &seen, static_cast<T>(desired), false,
                              __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return seen;
}

template <class Act>
std::uint64_t atomically(void* at, unsigned bytes, Order order, Scope scope, Act&& act) {
  worker().give_way();
  std::byte* const where = place_to_write(at, bytes, "changes");
  WeakMemory* const weak = worker().weak();
  if (weak != nullptr && releases(order)) weak->release(self().memory, scope);
  if (weak != nullptr) check_reads(self(), where, bytes);
  if (weak != nullptr) check_way(self(), where, Proxy::kGeneric, true);
  if (weak != nullptr) weak->settle(self().memory, where, bytes);
  const std::uint64_t old = act(where);
  if (weak != nullptr) self().memory.view.forget_seen();
  if (weak != nullptr && acquires(order)) weak->acquire(self().memory, scope);
  return old;
}

void store_parts(const Warp& warp) {
  if (WeakMemory* const weak = worker().weak()) {
    for (const LinePart& part : warp.parts)
      for (unsigned done = 0; part.at != nullptr && done < sizeof(part.value); done += kWhole) {
        check_reads(self(), part.at + done, kWhole);
        check_way(self(), part.at + done, Proxy::kGeneric, true);
      }
    for (unsigned lane = 0; lane < kWarpLanes; lane += kLineParts)
      weak->store_line({warp.parts.data() + lane, kLineParts});
    return;
  }
  for (const LinePart& part : warp.parts)
    for (unsigned done = 0; part.at != nullptr && done < sizeof(part.value); done += kWhole)
      raw_store(part.at + done, part.value.data() + done, kWhole, Order::kRelaxed);
}

}  // namespace

unsigned thread_index() { return self().index; }
unsigned thread_count() { return self().cta.grid->threads; }
unsigned cta_index() { return self().cta.index; }
unsigned cta_count() { return self().cta.grid->ctas; }

void load(void* to, const void* from, unsigned bytes, Order order, Scope scope) {
  if (order == Order::kWeak) {
    worker().plain_access();
  } else {
    worker().looks();
  }
  const std::byte* const at = place(from, bytes, "reads");
  WeakMemory* const weak = worker().weak();
  in_whole_parts(bytes, [&](unsigned part, unsigned size) {
    std::byte* const into = static_cast<std::byte*>(to) + part;
    if (weak != nullptr) {
      weak->load(self().memory, at + part, size, into);
      check_way(self(), at + part, Proxy::kGeneric, false);
      if (order == Order::kWeak) note_read(self(), at + part, size);
    } else {
      raw_load(into, at + part, size, order);
    }
  });
  if (weak != nullptr && acquires(order)) weak->acquire(self().memory, scope);
}

void store(void* at, const void* from, unsigned bytes, Order order, Scope scope) {
  if (order == Order::kWeak) {
    worker().plain_access();
  } else {
    worker().give_way();
  }
  std::byte* const to = place_to_write(at, bytes, "writes");
  WeakMemory* const weak = worker().weak();
  if (weak != nullptr && releases(order)) weak->release(self().memory, scope);
  if (weak != nullptr && order == Order::kRelaxed && bytes == kPair)
    weak->reads().close(self().memory.stores);
  in_whole_parts(bytes, [&](unsigned part, unsigned size) {
    const std::byte* const value = static_cast<const std::byte*>(from) + part;
    if (weak != nullptr) {
      check_reads(self(), to + part, size);
      check_way(self(), to + part, Proxy::kGeneric, true);
      weak->store(self().memory, to + part, size, value);
    } else {
      raw_store(to + part, value, size, order);
    }
  });
}

// The last lane stores the line for all, unless the path may tear lines: then each its part.
void store_line(void* at, const void* from) {
  constexpr unsigned kPart = sizeof(LinePart::value);
  Thread& thread = self();
  const unsigned lane = thread.index % kWarpLanes;
  Warp& warp = warp_of(thread);
  const auto address = reinterpret_cast<std::uint64_t>(at);
  if (at != nullptr && address / kPart % kLineParts != lane % kLineParts)
    refuse(Violation::kBarrier,
           fmt::format("writes {:#x} as part {} of a line", address, lane % kLineParts));
  const bool whole = at != nullptr && worker().keeps_lines_whole(address);
  LinePart& part = warp.parts[lane];
  part.at = whole ? place_to_write(at, kPart, "writes") : nullptr;
  std::memcpy(part.value.data(), from, kPart);
  if (WeakMemory* const weak = worker().weak()) weak->reads().close(thread.memory.stores);
  if (warp.arrived + 1 == warp.lanes) store_parts(warp);
  meet("store_line", 0, false);
  if (at != nullptr && !whole) store(at, from, kPart, Order::kRelaxed, Scope::kSystem);
}

void load_shared(void* to, std::uint32_t offset, unsigned bytes, bool late) {
  worker().plain_access();
  const std::byte* const at = shared_place(offset, bytes);
  if (worker().weak() != nullptr && !late) check_lanes(self(), offset);
  std::memcpy(to, at, bytes);
}
void store_shared(std::uint32_t offset, const void* from, unsigned bytes) {
  worker().plain_access();
  std::byte* const at = shared_place(offset, bytes);
  if (worker().weak() != nullptr) {
    check_way(self(), at, Proxy::kGeneric, true);
    self().cta.writers[offset / kWhole] = {self().index, warp_of(self()).ordered};
  }
  std::memcpy(at, from, bytes);
}

std::uint64_t atomic(Atomic what, void* at, std::uint64_t value, unsigned bytes, Order order,
                     Scope scope) {
  return atomically(at, bytes, order, scope, [&](std::byte* where) {
    return bytes == 4 ? change<std::uint32_t>(what, where, value)
                      : change<std::uint64_t>(what, where, value);
  });
}
std::uint64_t compare_exchange(void* at, std::uint64_t expected, std::uint64_t desired,
                               unsigned bytes, Order order, Scope scope) {
  return atomically(at, bytes, order, scope, [&](std::byte* where) {
    return bytes == 4 ? swap_if<std::uint32_t>(where, expected, desired)
                      : swap_if<std::uint64_t>(where, expected, desired);
  });
}

void fence(Scope scope) {
  worker().give_way();
  if (WeakMemory* const weak = worker().weak()) {
    weak->release(self().memory, scope);
    weak->acquire(self().memory, scope);
  } else {
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
  }
}

void barrier() {
  Barrier& barrier = self().cta.barrier;
  if (arrive(barrier)) return worker().give_way();
  barrier.waiting.push_back(&self());
  worker().block("barrier");
}

void sync_warp() { meet("sync_warp", 0, true); }
std::uint64_t shuffle(std::uint64_t value, unsigned from_lane) {
  return meet("shuffle", value, false).taken[from_lane % kWarpLanes];
}
std::uint32_t ballot(bool condition) {
  const Warp& warp = meet("ballot", condition ? 1 : 0, false);
  std::uint32_t votes = 0;
  for (unsigned lane = 0; lane < warp.lanes; ++lane)
    votes |= static_cast<std::uint32_t>(warp.taken[lane]) << lane;
  return votes;
}

// Real time, so that deadlines of kernels and host agree.
std::uint64_t timer_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
void nap(unsigned /*nanoseconds*/) { worker().look_again(); }
void spin() { worker().look_again(); }

}  // namespace rondo::simt
