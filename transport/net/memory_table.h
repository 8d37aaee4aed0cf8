// SPDX-License-Identifier: Apache-2.0
// MemoryTable: the memory of a rank's message bodies, by key. For networks that register memory
// after register_memory(): at first use, or internally.
//
// Guarantees: keys begin at 1 and are never reused. Single-threaded. Cost: one map look-up per
// message.
//
//   const MemoryKey key = table.add({.bytes = ring});
//   if (const Memory* memory = table.find(key, body)) ...
#pragma once

#include <map>

#include "transport/net/net.h"

namespace rondo::net {

class MemoryTable {
 public:
  MemoryKey add(const Memory& memory) {
    memory_.emplace(++last_, memory);
    return last_;
  }
  void remove(MemoryKey key) { memory_.erase(key); }
  // The key must be present.
  const Memory& at(MemoryKey key) const { return memory_.at(key); }
  // The memory of the key if it contains all of `bytes`; else null.
  const Memory* find(MemoryKey key, std::span<const std::byte> bytes) const {
    const auto it = memory_.find(key);
    if (it == memory_.end()) return nullptr;
    const std::span<std::byte> all = it->second.bytes;
    const bool within =
        bytes.data() >= all.data() && bytes.data() + bytes.size() <= all.data() + all.size();
    return within ? &it->second : nullptr;
  }

 private:
  MemoryKey last_ = 0;
  std::map<MemoryKey, Memory> memory_;
};

}  // namespace rondo::net
