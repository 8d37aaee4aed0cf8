// Plugin: a library with NCCL's plugin interface, called the same whatever its version is.
//
// Guarantees: the newest version that the library exports is used, from 12 down to 8. A library is
// loaded once a process and stays; what happens once (init() of versions before 11) happens once.
// Errors name the plugin, its file, the function and the result. Functions of connections are as
// thread-safe as the plugin makes them: each connection is used by one thread; those of the whole
// plugin are called by one thread at a time. Cost: an indirect call.
//
//   if (const auto found = plugin::find(env::get_string("NCCL_NET_PLUGIN"))) {
//     RONDO_TRY(const Plugin* const plugin, found->plugin);
//     RONDO_TRY(void* const context, plugin->init(0));
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/plugin/abi.h"
#include "transport/plugin/device.h"

namespace rondo::plugin {

class Plugin {
 public:
  // The file: a path, or a name for the loader's search.
  static Result<const Plugin*> load(const std::string& file);

  const std::string& name() const { return name_; }
  int version() const { return version_; }
  // "plugin 'X' (libnccl-net-x.so, ncclNetPlugin_v12)"
  const std::string& text() const { return text_; }
  Error failure(const char* function, int result) const;

  // The context of a communicator; before version 11, of the process.
  Result<void*> init(std::uint64_t communicator) const;
  void finalize(void* context) const;
  // Those that can be used, by number. An error: there is none, or one says what cannot be.
  Result<std::vector<Device>> devices() const;

  // The rest as in the interface: 0, or a result for failure().
  int listen(void* context, int device, void* handle, void** listener) const;
  int connect(void* context, int device, void* handle, void** connection, void** offload) const;
  int isend(void* connection, std::span<const std::byte> body, void* memory, void** request) const;
  int irecv(void* connection, std::span<std::byte> room, void* memory, void** request) const;
  int iflush(void* connection, std::span<std::byte> body, void* memory, void** request) const;
  const abi::NetTable& table() const { return table_; }

  Plugin(const abi::NetTable& table, int version, const std::string& file);

 private:
  const abi::NetTable& table_;
  const int version_;
  const std::string name_, text_;
  mutable std::mutex mutex_;
  mutable bool initialized_ = false;  // before version 11
};

struct Found {
  bool asked = false;  // by a value; else it was just there
  Result<const Plugin*> plugin;
};
// By a value of NCCL_NET_PLUGIN (library.h). Nothing: none is asked for, and no libnccl-net.so is
// there.
std::optional<Found> find(const std::string& value);

}  // namespace rondo::plugin
