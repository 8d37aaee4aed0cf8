// ThreadRecord: per-thread data that other threads read: the slot of a handle table that the thread
// uses (its hazard pointer), and how often it has called each function of nccl.h.
//
// A thread that uses an object only until its call returns stores the slot here: one plain store
// instead of two atomic additions. To free an object, a thread calls heavy_fence()
// (base/asymmetric_fence.h) and then checks all records. Call counts are plain stores too; a reader
// sums those of all threads. Records are never freed; a new thread reuses the record of an ended
// thread and keeps its counts.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "api/entry_points.h"

namespace rondo::api {

struct alignas(64) ThreadRecord {
  std::atomic<const void*> hazard{nullptr};
  std::atomic<bool> owned{true};
  ThreadRecord* next = nullptr;
  std::array<std::atomic<std::uint64_t>, kEntryPoints> calls{};  // written only by the owner
};

// Called once per thread by own_record() (thread_words.h).
ThreadRecord* make_own_record();

bool is_in_use(const void* slot);

// Sum over all threads. Includes all calls that happened before this one.
std::uint64_t count_of_calls(EntryPoint function);

}  // namespace rondo::api
