#include "api/hazards.h"

#include <utility>

#include "api/thread_words.h"

namespace rondo::api {
namespace {

std::atomic<Hazard*> newest{nullptr};

Hazard* adopt_or_make() {
  for (Hazard* each = newest.load(std::memory_order_acquire); each != nullptr; each = each->next)
    if (!each->owned.load(std::memory_order_relaxed) &&
        !each->owned.exchange(true, std::memory_order_acq_rel))
      return each;
  auto* made = new Hazard;
  made->next = newest.load(std::memory_order_relaxed);
  while (!newest.compare_exchange_weak(made->next, made, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  return made;
}

// Gives the record back when the thread ends; calls after that keep one for good.
struct Owner {
  ~Owner() {
    Hazard* const hazard = std::exchange(thread_words.hazard, nullptr);
    if (hazard == nullptr) return;
    hazard->slot.store(nullptr, std::memory_order_release);
    hazard->owned.store(false, std::memory_order_release);
  }
};

Hazard* make_own() {
  thread_local Owner owner;
  return thread_words.hazard = adopt_or_make();
}

}  // namespace

constinit thread_local ThreadWords thread_words;

Hazard& own_hazard() {
  Hazard* const known = thread_words.hazard;
  return known != nullptr ? *known : *make_own();
}

bool is_in_use(const void* slot) {
  for (const Hazard* each = newest.load(std::memory_order_acquire); each != nullptr;
       each = each->next)
    if (each->slot.load(std::memory_order_seq_cst) == slot) return true;
  return false;
}

}  // namespace rondo::api
