#include "tests/simt/machine/bulk.h"

#include <fmt/core.h>

#include <cstring>

#include "kernels/cuda/simt_bulk_hooks.h"
#include "tests/simt/machine/address_space.h"
#include "tests/simt/machine/raw_access.h"
#include "tests/simt/machine/violation.h"
#include "tests/simt/machine/worker.h"

namespace rondo::simt {
namespace {

constexpr unsigned kUnit = 16;

Thread& self() { return *Worker::running(); }
Worker& worker() { return *self().cta.worker; }
BulkState& state() { return self().cta.bulk; }

std::byte* shared_at(std::uint32_t offset) {
  return reinterpret_cast<std::byte*>(self().cta.shared.data()) + offset;
}

// Checks both addresses of a copy, to the byte.
std::byte* checked(const void* global, std::uint32_t shared, unsigned bytes, const char* verb) {
  const auto address = reinterpret_cast<std::uint64_t>(global);
  const std::size_t size = self().cta.grid->shared_bytes;
  if (address % kUnit != 0 || shared % kUnit != 0 || bytes % kUnit != 0 || bytes == 0 ||
      shared > size || bytes > size - shared)
    refuse(Violation::kBadAccess,
           fmt::format("{} {} bytes in bulk at {:#x} and {} of {} bytes of shared memory", verb,
                       bytes, address, shared, size));
  std::byte* const at = worker().memory().for_device(self().cta.grid->device, address, bytes, verb,
                                                     [&] { return describe(self()); });
  if (at == nullptr) worker().give_up();
  return at;
}

template <class Part>
void for_parts(unsigned bytes, Part&& part) {
  for (unsigned done = 0; done < bytes; done += kWhole) part(done);
}

// Performs one step of a copy; returns true if it was the last.
bool go_on(BulkCopy& copy) {
  WeakMemory* const weak = worker().weak();
  if (copy.load) {
    for_parts(copy.bytes, [&](unsigned at) {
      std::byte value[kWhole];
      if (weak != nullptr) {
        weak->load(copy.thread->memory, copy.global + at, kWhole, value);
        note_read(*copy.thread, copy.global + at, kWhole);
        check_way(*copy.thread, copy.global + at, Proxy::kAsync, false);
        check_way(*copy.thread, shared_at(copy.shared + at), Proxy::kAsync, true);
      } else {
        raw_load(value, copy.global + at, kWhole, Order::kWeak);
      }
      std::memcpy(shared_at(copy.shared + at), value, kWhole);
    });
    Mbarriers& barriers = copy.thread->cta.mbarriers;
    const auto found = barriers.find(copy.mbarrier);
    if (found == barriers.end()) return true;
    found->second.bytes -= copy.bytes;
    found->second.settle();
    return true;
  }
  if (copy.read.empty()) {
    if (weak != nullptr)
      for_parts(copy.bytes, [&](unsigned at) {
        check_way(*copy.thread, shared_at(copy.shared + at), Proxy::kAsync, false);
      });
    copy.read.assign(shared_at(copy.shared), shared_at(copy.shared) + copy.bytes);
    return false;
  }
  for_parts(copy.bytes, [&](unsigned at) {
    if (weak != nullptr) {
      check_reads(*copy.thread, copy.global + at, kWhole);
      check_way(*copy.thread, copy.global + at, Proxy::kAsync, true);
      weak->store(copy.thread->memory, copy.global + at, kWhole, copy.read.data() + at);
    } else {
      raw_store(copy.global + at, copy.read.data() + at, kWhole, Order::kWeak);
    }
  });
  return true;
}

void advance(std::size_t index) {
  std::vector<BulkCopy>& all = state().under_way;
  if (!go_on(all[index])) return;
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(index));
}

}  // namespace

bool mbarrier_test(std::uint32_t at, unsigned parity) {
  worker().looks();
  std::vector<BulkCopy>& all = state().under_way;
  if (!all.empty() && worker().random().one_in(2)) advance(worker().random().below(all.size()));
  const Mbarrier& barrier = mbarrier_at(at);
  if (!barrier.is_over(parity)) return false;
  if (worker().weak() != nullptr) barrier.over.join(self().memory.view);
  return true;
}

void bulk_load(std::uint32_t to, const void* from, unsigned bytes, std::uint32_t mbarrier) {
  worker().plain_access();
  mbarrier_at(mbarrier);
  state().under_way.push_back(
      {true, &self(), checked(from, to, bytes, "reads"), to, bytes, mbarrier, 0, {}});
}
void bulk_store(void* to, std::uint32_t from, unsigned bytes) {
  worker().plain_access();
  check_domain(self(), reinterpret_cast<std::uint64_t>(to));
  state().under_way.push_back(
      {false, &self(), checked(to, from, bytes, "writes"), from, bytes, 0, 0, {}});
}
void fence_async() {
  worker().give_way();
  if (WeakMemory* const weak = worker().weak()) weak->proxies().fence_async(self().memory.number);
}
void bulk_commit() {
  ++state().groups;
  for (BulkCopy& copy : state().under_way)
    if (!copy.load && copy.thread == &self() && copy.group == 0) copy.group = state().groups;
}
void bulk_wait(unsigned groups_left, bool only_reads) {
  worker().give_way();
  const BulkState& bulk = state();
  for (std::size_t i = 0; i < bulk.under_way.size();) {
    const BulkCopy& copy = bulk.under_way[i];
    const bool awaited = !copy.load && copy.thread == &self() && copy.group != 0 &&
                         copy.group + groups_left <= bulk.groups &&
                         (copy.read.empty() || !only_reads);
    if (awaited) {
      advance(i);
    } else {
      ++i;
    }
  }
}

}  // namespace rondo::simt
