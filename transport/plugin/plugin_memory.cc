// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/plugin_memory.h"

#include <cerrno>

namespace rondo::plugin {

Result<net::MemoryKey> PluginMemory::add(const net::Memory& memory) {
  net::Memory kept = memory;
  Fd file;
  if (memory.kind == net::Memory::Kind::kDmabuf) {
    file = Fd::duplicate_of(memory.dmabuf);
    if (!file) return fail_errno(errno, "no descriptor for a dmabuf file");
    kept.dmabuf = file.get();
  }
  const net::MemoryKey key = memory_.add(kept);
  if (file) files_.emplace(key, std::move(file));
  return key;
}

void PluginMemory::remove(net::MemoryKey key) {
  for (OfLink* const link : links_) link->registered_.erase(key);
  for_all_.erase(key);
  memory_.remove(key);
  files_.erase(key);
}

PluginMemory::OfLink::OfLink(PluginMemory& all, std::shared_ptr<Connection> connection)
    : all_(all), connection_(std::move(connection)) {
  all_.links_.insert(this);
}

PluginMemory::OfLink::~OfLink() { all_.links_.erase(this); }

Result<void*> PluginMemory::OfLink::named(net::MemoryKey key) {
  auto& registered = all_.global_ ? all_.for_all_ : registered_;
  auto it = registered.find(key);
  if (it == registered.end()) {
    RONDO_TRY(auto made, Registration::make(connection_, all_.memory_.at(key)));
    it = registered.emplace(key, std::move(made)).first;
  }
  return it->second->get();
}

}  // namespace rondo::plugin
