// The thread-local data that every API call reads, in one struct: one look-up per call.
//
// Not initial-exec: dlopen can fail for a library with static thread-local storage.
#pragma once

#include "api/thread_record.h"

namespace rondo::api {

struct ThreadWords {
  int group_depth = 0;
  ThreadRecord* record = nullptr;  // null before own_record()
};
extern constinit thread_local ThreadWords thread_words;

inline ThreadRecord& own_record() {
  ThreadRecord* const known = thread_words.record;
  return known != nullptr ? *known : *make_own_record();
}

inline void count_call(EntryPoint function) {
  auto& calls = own_record().calls[static_cast<std::size_t>(function)];
  calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace rondo::api
