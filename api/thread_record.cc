// SPDX-License-Identifier: Apache-2.0
#include "api/thread_record.h"

#include <utility>

namespace rondo::api {
namespace {

std::atomic<ThreadRecord*> newest{nullptr};

ThreadRecord* adopt_or_make() {
  for (auto* each = newest.load(std::memory_order_acquire); each != nullptr; each = each->next)
    if (!each->owned.load(std::memory_order_relaxed) &&
        !each->owned.exchange(true, std::memory_order_acq_rel))
      return each;
  auto* made = new ThreadRecord;
  made->next = newest.load(std::memory_order_relaxed);
  while (!newest.compare_exchange_weak(made->next, made, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  return made;
}

// Releases the record when the thread ends. A call after that takes a record that is not released.
struct Owner {
  ~Owner() {
    ThreadRecord* const record = std::exchange(thread_words.record, nullptr);
    if (record == nullptr) return;
    record->hazard.store(nullptr, std::memory_order_release);
    record->owned.store(false, std::memory_order_release);
  }
};

}  // namespace

__thread ThreadWords thread_words;

ThreadRecord* make_own_record() {
  thread_local Owner owner;
  return thread_words.record = adopt_or_make();
}

bool is_in_use(const void* slot) {
  for (const auto* each = newest.load(std::memory_order_acquire); each != nullptr;
       each = each->next)
    if (each->hazard.load(std::memory_order_seq_cst) == slot) return true;
  return false;
}

std::uint64_t count_of_calls(EntryPoint function) {
  std::uint64_t sum = 0;
  for (const auto* each = newest.load(std::memory_order_acquire); each != nullptr;
       each = each->next)
    sum += each->calls[static_cast<std::size_t>(function)].load(std::memory_order_relaxed);
  return sum;
}

}  // namespace rondo::api
