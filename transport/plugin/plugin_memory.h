// PluginMemory: the memory that a rank's messages lie in, by key, and what its links have
// registered of it.
//
// Plugins register memory with a connection. A link does so when it first uses a key; where the
// plugin says that registrations are global, the first link does it for all, and its connection
// stays open until the memory is taken back. Guarantees: remove() takes all registrations back.
// One thread. Cost: a look-up in a map a message.
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

  // A dmabuf file is the caller's: links get a descriptor of this one's.
  Result<net::MemoryKey> add(const net::Memory& memory);
  void remove(net::MemoryKey key);
  // The memory of the key, if the bytes lie in it.
  const net::Memory* find(net::MemoryKey key, std::span<const std::byte> bytes) const {
    return memory_.find(key, bytes);
  }

  // What one link has registered for one direction.
  class OfLink {
   public:
    OfLink(PluginMemory& all, std::shared_ptr<Connection> connection);
    ~OfLink();
    OfLink(const OfLink&) = delete;
    OfLink& operator=(const OfLink&) = delete;

    // As the plugin names it. The key is one of find().
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
