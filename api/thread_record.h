// ThreadRecord: what each thread shows to the others: which slot of a handle table it is just using
// (its hazard), and how often it has called each function of nccl.h.
//
// A thread that only uses an object until its call returns says so here instead of counting itself
// in the slot: a plain store instead of two atomic additions. Who frees an object asks whether any
// thread uses its slot, after heavy_fence() (base/asymmetric_fence.h). Calls are counted by plain
// stores too; who asks for a count adds those of all threads. A record is never freed, and a new
// thread takes over that of one that has ended, with its counts.
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
  std::array<std::atomic<std::uint64_t>, kEntryPoints> calls{};  // written by the owner alone
};

// Gives this thread a record; own_record() (thread_words.h) asks for it once.
ThreadRecord* make_own_record();

bool is_in_use(const void* slot);

// Calls of all threads so far; those of other threads as far as they happened before.
std::uint64_t count_of_calls(EntryPoint function);

}  // namespace rondo::api
