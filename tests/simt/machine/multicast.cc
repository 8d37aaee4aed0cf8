// SPDX-License-Identifier: Apache-2.0
// What kernels do to multicast memory (kernels/cuda/simt_multicast_hooks.h).
#include "tests/simt/machine/multicast.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "kernels/cuda/simt_multicast_hooks.h"
#include "kernels/number.h"
#include "tests/simt/machine/address_space.h"
#include "tests/simt/machine/raw_access.h"
#include "tests/simt/machine/violation.h"
#include "tests/simt/machine/worker.h"

namespace rondo::simt {
namespace {

constexpr unsigned kUnit = 16;
std::atomic<std::uint64_t> accesses{0};
std::atomic<bool> sums_are_wrong{false};

Thread& self() { return *Worker::running(); }
Worker& worker() { return *self().cta.worker; }

// Addresses of the bytes in every device's memory, in random order.
std::vector<std::byte*> places(const void* pointer, const char* verb, unsigned bytes = kUnit) {
  accesses.fetch_add(1, std::memory_order_relaxed);
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const std::string access = fmt::format("{} {:#x} of multicast memory", verb, address);
  const Allocation* const found = worker().memory().find(address);
  if (found == nullptr || found->kind != MemoryKind::kMulticast)
    refuse(Violation::kBadAccess, fmt::format("{} {:#x}, no multicast memory", verb, address));
  if (found->freed.load(std::memory_order_relaxed))
    refuse(Violation::kUseAfterFree, access + ", which was unmapped");
  if (address % bytes != 0 || !found->holds(address, bytes))
    refuse(Violation::kBadAccess, access + ", which is not aligned, or outside");
  const MulticastObject& object = *found->multicast;
  const std::uint32_t added = object.added();
  const int device = self().cta.grid->device;
  if (((found->access & added) >> device & 1) == 0)
    refuse(Violation::kBadAccess,
           fmt::format("{}, to which device {} was not added", access, device));
  const std::uint64_t at = address - found->begin;
  std::vector<std::byte*> all;
  for (int d = 0; d < kMaxDevices; ++d) {
    if ((added >> d & 1) == 0) continue;
    std::byte* const place = object.place(worker().memory(), d, at, bytes);
    if (place == nullptr)
      refuse(Violation::kBadAccess, fmt::format("{}, where device {} has bound none", access, d));
    all.push_back(place);
  }
  for (std::size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[worker().random().below(i)]);
  return all;
}

template <class Act>
void in_words(Act&& act) {
  for (unsigned done = 0; done < kUnit; done += kWhole) act(done);
}

float widen(Summand type, std::uint16_t bits) {
  return type == Summand::kFloat16 ? number::Float16::widen(bits) : number::Bfloat16::widen(bits);
}
std::uint16_t narrow(Summand type, float value) {
  return static_cast<std::uint16_t>(type == Summand::kFloat16 ? number::Float16::narrow(value)
                                                              : number::Bfloat16::narrow(value));
}

}  // namespace

std::uint64_t multicast_accesses() { return accesses.load(std::memory_order_relaxed); }

void spoil_sums(bool wrong) { sums_are_wrong.store(wrong, std::memory_order_relaxed); }

void multicast_store(void* at, const void* from) {
  worker().give_way();
  const std::vector<std::byte*> all = places(at, "writes");
  if (all.size() > 1) check_domain(self(), reinterpret_cast<std::uint64_t>(at));
  for (std::byte* const place : all)
    in_words([&](unsigned word) {
      const std::byte* const value = static_cast<const std::byte*>(from) + word;
      if (WeakMemory* const weak = worker().weak()) {
        check_reads(self(), place + word, kWhole);
        check_way(self(), place + word, Proxy::kMultimem, true);
        weak->store(self().memory, place + word, kWhole, value);
      } else {
        raw_store(place + word, value, kWhole, Order::kRelaxed);
      }
    });
}

// The word is a counter that is polled, not data: what fence its readers need is not checked.
void multicast_add(void* at, std::uint32_t value, bool release) {
  worker().give_way();
  WeakMemory* const weak = worker().weak();
  if (weak != nullptr && release) weak->release(self().memory, Scope::kSystem);
  for (std::byte* const place : places(at, "adds to", sizeof value)) {
    if (weak != nullptr) check_reads(self(), place, sizeof value);
    if (weak != nullptr) weak->settle(self().memory, place, sizeof value);
    __atomic_fetch_add(reinterpret_cast<std::uint32_t*>(place), value, __ATOMIC_ACQ_REL);
  }
  if (weak != nullptr) self().memory.view.forget_seen();
}

void fence_alias() {
  worker().give_way();
  if (WeakMemory* const weak = worker().weak()) weak->proxies().fence_alias(self().memory.number);
}

void multicast_load_sum(void* to, const void* from, Summand type) {
  worker().give_way();
  std::array<float, kUnit / 2> sum{};
  bool first = true;
  for (const std::byte* const place : places(from, "reads")) {
    std::array<std::byte, kUnit> held;
    in_words([&](unsigned word) {
      if (WeakMemory* const weak = worker().weak()) {
        check_way(self(), place + word, Proxy::kMultimem, false);
        weak->load(self().memory, place + word, kWhole, held.data() + word);
      } else {
        raw_load(held.data() + word, place + word, kWhole, Order::kRelaxed);
      }
    });
    for (std::size_t i = 0; i < kUnit / (type == Summand::kFloat32 ? 4 : 2); ++i) {
      float value = 0;
      if (type == Summand::kFloat32) {
        std::memcpy(&value, held.data() + 4 * i, sizeof value);
      } else {
        std::uint16_t bits = 0;
        std::memcpy(&bits, held.data() + 2 * i, sizeof bits);
        value = widen(type, bits);
      }
      sum[i] = first ? value : sum[i] + value;
    }
    first = false;
  }
  if (sums_are_wrong.load(std::memory_order_relaxed)) sum.back() = sum.front() += 1;
  auto* const out = static_cast<std::byte*>(to);
  if (type == Summand::kFloat32) {
    std::memcpy(out, sum.data(), kUnit);
    return;
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const std::uint16_t bits = narrow(type, sum[i]);
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
}

}  // namespace rondo::simt
