#include "transport/plugin/plugin_memory.h"

namespace rondo::plugin {

void PluginMemory::remove(net::MemoryKey key) {
  for (OfLink* const link : links_) link->registered_.erase(key);
  for_all_.erase(key);
  memory_.remove(key);
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
