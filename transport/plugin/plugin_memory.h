// SPDX-License-Identifier: Apache-2.0
// PluginMemory: the memory of a rank's messages, by key, and the registrations of its links.
//
// Plugins register memory with a connection. A link registers a key at its first use. If the
// plugin's registrations are global, the first link registers for all, and its connection stays
// open until the memory is removed. Guarantees: remove() deregisters everywhere. Single-threaded.
// Cost: one map look-up per message.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>

#include "base/fd.h"
#include "transport/net/memory_table.h"
#include "transport/plugin/connection.h"

namespace rondo::plugin {

class PluginMemory {
 public:
  explicit PluginMemory(bool global) : global_(global) {}

  // Duplicates the descriptor of a dmabuf file; the caller keeps its own.
  Result<net::MemoryKey> add(const net::Memory& memory);
  void remove(net::MemoryKey key);
  // As MemoryTable::find().
  const net::Memory* find(net::MemoryKey key, std::span<const std::byte> bytes) const {
    return memory_.find(key, bytes);
  }

  // The registrations of one link for one direction.
  class OfLink {
   public:
    OfLink(PluginMemory& all, std::shared_ptr<Connection> connection);
    ~OfLink();
    OfLink(const OfLink&) = delete;
    OfLink& operator=(const OfLink&) = delete;

    // The plugin's handle of the memory; registers it if necessary. find() must know the key.
    Result<void*> named(net::MemoryKey key);

   private:
    friend class PluginMemory;
    PluginMemory& all_;
    const std::shared_ptr<Connection> connection_;
    std::map<net::MemoryKey, std::unique_ptr<Registration>> registered_;
  };

 private:
  const bool global_;
  net::MemoryTable memory_;
  std::map<net::MemoryKey, Fd> files_;  // of dmabuf memory
  std::map<net::MemoryKey, std::unique_ptr<Registration>> for_all_;
  std::set<OfLink*> links_;
};

}  // namespace rondo::plugin
