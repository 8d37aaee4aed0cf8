#include "transport/plugin/plugin_memory.h"

#include <fcntl.h>

#include <cerrno>

namespace rondo::plugin {

Result<net::MemoryKey> PluginMemory::add(const net::Memory& memory) {
  net::Memory kept = memory;
  Fd file;
  if (memory.kind == net::Memory::Kind::kDmabuf) {
    file.reset(::fcntl(memory.dmabuf, F_DUPFD_CLOEXEC, 0));
    if (!file) return fail_errno(errno, "no descriptor for a dmabuf file");
    kept.dmabuf = file.get();
  }
  memory_.emplace(++last_, std::move(kept));
  if (file) files_.emplace(last_, std::move(file));
  return last_;
}

void PluginMemory::remove(net::MemoryKey key) {
  for (OfLink* const link : links_) link->registered_.erase(key);
  for_all_.erase(key);
  memory_.erase(key);
  files_.erase(key);
}

const net::Memory* PluginMemory::find(net::MemoryKey key, std::span<const std::byte> bytes) const {
  const auto it = memory_.find(key);
  if (it == memory_.end()) return nullptr;
  const std::span<std::byte> all = it->second.bytes;
  const bool within =
      bytes.data() >= all.data() && bytes.data() + bytes.size() <= all.data() + all.size();
  return within ? &it->second : nullptr;
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
