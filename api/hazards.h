// Hazards: which slot of a handle table each thread is just using.
//
// A thread that only uses an object until its call returns says so here instead of counting itself
// in the slot: a plain store instead of two atomic additions. Who frees an object asks whether any
// thread uses its slot, after heavy_fence() (base/asymmetric_fence.h). A thread has one hazard; a
// record is never freed, and a new thread takes over that of one that has ended.
#pragma once

#include <atomic>

namespace rondo::api {

struct alignas(64) Hazard {
  std::atomic<const void*> slot{nullptr};
  std::atomic<bool> owned{true};
  Hazard* next = nullptr;
};

// This thread's.
Hazard& own_hazard();
bool is_in_use(const void* slot);

}  // namespace rondo::api
