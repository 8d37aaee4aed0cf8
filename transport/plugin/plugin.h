// SPDX-License-Identifier: Apache-2.0
// Plugin: a library with NCCL's plugin interface; the calls are the same for all versions.
//
// Guarantees: uses the newest version that the library exports, from 12 down to 8. A library is
// loaded once per process and stays loaded; init() of versions before 11 runs once. Errors name the
// plugin, its file, the function and the result. Thread safety of connection functions is the
// plugin's: each connection is used by one thread; functions of the whole plugin are called by one
// thread at a time. Cost: one indirect call.
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
#include "topology/graph/nearness.h"
#include "transport/net/net.h"
#include "transport/plugin/abi.h"

namespace rondo::plugin {

// The properties of a plugin's device.
struct Device {
  int number = 0;
  std::string name;
  std::string pci_path;  // in /sys; "": not a PCI device
  int memory_kinds = 0;  // abi::MemoryKind
  bool registration_is_global = false;
  bool offloads = false;        // requires its own kernels on the GPU
  std::uint64_t max_bytes = 0;  // max size of a message

  bool takes(net::Memory::Kind kind) const;
};

// The name of the device as a port in the host's graph.
topology::NicName nic_of(const Device& device);

// `properties`: in the layout of `version`.
Device read_device(int number, int version, const void* properties);
// The nearest device, by its PCI address or else by its name; equally near ones are distributed
// over the ranks. Null: all devices offload, or none supports host memory.
const Device* choose_device(std::span<const Device> devices, const topology::NearNics& near);

class Plugin {
 public:
  // file: a path, or a name for the search of the dynamic loader.
  static Result<const Plugin*> load(const std::string& file);

  const std::string& name() const { return name_; }
  int version() const { return version_; }
  // "plugin 'X' (libnccl-net-x.so, ncclNetPlugin_v12)"
  const std::string& text() const { return text_; }
  Error failure(const char* function, int result) const;

  // The context of a communicator; before version 11, of the process.
  Result<void*> init(std::uint64_t communicator) const;
  void finalize(void* context) const;
  // All devices, by number. Error: none, or the plugin returned an error.
  Result<std::vector<Device>> devices() const;

  // The other functions as in the interface. They return 0, or a result for failure().
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
  bool asked = false;  // by a value; false: libnccl-net.so was found
  Result<const Plugin*> plugin;
};
// Finds the plugin for a value of NCCL_NET_PLUGIN (library.h). Nullopt: "none", or no value and no
// usable libnccl-net.so.
std::optional<Found> find(const std::string& value);

}  // namespace rondo::plugin
