// SPDX-License-Identifier: Apache-2.0
// SharedByKey: objects that several parts of a process share, found by a key. The first caller
// creates the object. It lives while a shared_ptr to it exists.
//
// Thread-safe; at most one thread at a time creates an object. Never destroy a static SharedByKey:
// the program may exit while threads still hold objects. Cost: a mutex and a search over all
// objects.
//
//   static auto& all = *new SharedByKey<ProcessId, Neighbour>;
//   return all.get(process, [&] { return open(process); });
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/result.h"

namespace rondo {

template <class Key, class T>
class SharedByKey {
 public:
  // make() returns a Result<std::shared_ptr<T>>.
  template <class Make>
  Result<std::shared_ptr<T>> get(const Key& key, Make&& make) {
    std::lock_guard lock(mutex_);
    if (auto known = held(key)) return known;
    RONDO_TRY(std::shared_ptr<T> made, make());
    held_[key] = made;
    return made;
  }

 private:
  std::shared_ptr<T> held(const Key& key) {
    std::erase_if(held_, [](const auto& entry) { return entry.second.expired(); });
    const auto found = held_.find(key);
    return found == held_.end() ? nullptr : found->second.lock();
  }

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<T>> held_;
};

}  // namespace rondo
