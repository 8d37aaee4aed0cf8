// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>

#include "base/log.h"
#include "base/printable.h"
#include "transport/plugin/library.h"

namespace rondo::plugin {
namespace {

// Not null: plugins may call it without a check.
int no_profiler(void** event, int, void*, std::int64_t, void*) {
  if (event != nullptr) *event = nullptr;
  return 0;
}

abi::Config* usual_config() {
  static abi::Config config{-1};
  return &config;
}

template <class Function>
Function as(abi::Any any) {
  return reinterpret_cast<Function>(any);
}

// The first missing function that Rondo needs; null: none.
const char* missing_of(const abi::NetTable& table) {
  if (table.name == nullptr || *table.name == '\0') return "name";
  if (table.init == nullptr) return "init";
  if (table.devices == nullptr) return "devices";
  if (table.get_properties == nullptr) return "getProperties";
  if (table.listen == nullptr) return "listen";
  if (table.connect == nullptr) return "connect";
  if (table.accept == nullptr) return "accept";
  if (table.register_memory == nullptr) return "regMr";
  if (table.deregister_memory == nullptr) return "deregMr";
  if (table.send == nullptr) return "isend";
  if (table.receive == nullptr) return "irecv";
  if (table.test == nullptr) return "test";
  if (table.close_send == nullptr) return "closeSend";
  if (table.close_receive == nullptr) return "closeRecv";
  if (table.close_listen == nullptr) return "closeListen";
  return nullptr;
}

Result<std::unique_ptr<const Plugin>> read_library(void* library, const std::string& file) {
  RONDO_TRY(const Symbol found, newest_symbol(kNetwork, library, file, abi::kOldest, abi::kNewest));
  const auto& table = *static_cast<const abi::NetTable*>(found.address);
  if (const char* const missing = missing_of(table))
    return fail(StatusCode::kInvalidUsage, "ncclNetPlugin_v{} of the network plugin {} has no {}",
                found.version, printable(file), missing);
  return std::make_unique<const Plugin>(table, found.version, file);
}

}  // namespace

Plugin::Plugin(const abi::NetTable& table, int version, const std::string& file)
    : table_(table),
      version_(version),
      name_(printable(table.name).substr(0, 64)),
      text_(fmt::format("plugin '{}' ({}, ncclNetPlugin_v{})", name_, printable(file), version)) {}

Result<const Plugin*> Plugin::load(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const Plugin>> loaded;
  std::lock_guard lock(mutex);
  auto& plugin = loaded[file];
  if (plugin) return plugin.get();
  RONDO_TRY(void* const library, open_library(kNetwork, file));
  auto read = read_library(library, file);
  if (!read.ok()) {
    dlclose(library);
    return read.error();
  }
  plugin = std::move(read).value();
  RONDO_INFO(kNet, "loaded the network {}", plugin->text());
  return plugin.get();
}

Error Plugin::failure(const char* function, int result) const {
  return fail(StatusCode::kSystemError, "{}: {}() gave {} ({})", text_, function,
              name_of_result(result), result);
}

Result<void*> Plugin::init(std::uint64_t communicator) const {
  std::lock_guard lock(mutex_);
  void* context = nullptr;
  int result = 0;
  if (version_ >= 11) {
    result =
        as<abi::Init11>(table_.init)(&context, communicator, usual_config(), kLogger, no_profiler);
  } else if (!initialized_) {
    result = version_ == 10 ? as<abi::Init10>(table_.init)(kLogger, no_profiler)
                            : as<abi::Init8>(table_.init)(kLogger);
    initialized_ = result == 0;
  }
  if (result == 0) return context;
  Error error = failure("init", result);
  error.text +=
      "; NCCL_DEBUG=INFO shows what it logs. Without it: NCCL_NET_PLUGIN=none, or NCCL_NET=Socket";
  return error;
}

void Plugin::finalize(void* context) const {
  if (version_ < 11 || table_.finalize == nullptr) return;
  std::lock_guard lock(mutex_);
  if (const int result = table_.finalize(context); result != 0)
    RONDO_INFO(kNet, "{}", failure("finalize", result).text);
}

Result<std::vector<Device>> Plugin::devices() const {
  std::lock_guard lock(mutex_);
  int count = 0;
  if (const int result = table_.devices(&count); result != 0) return failure("devices", result);
  if (count <= 0)
    return fail(StatusCode::kSystemError,
                "{}: it has {} devices; look at its own settings, or leave it out by "
                "NCCL_NET_PLUGIN=none",
                text_, count);
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) {
    // Larger than the properties of any version.
    alignas(std::max_align_t) std::array<std::byte, 512> properties{};
    if (const int result = table_.get_properties(i, properties.data()); result != 0)
      return failure("getProperties", result);
    devices.push_back(read_device(i, version_, properties.data()));
  }
  return devices;
}

int Plugin::listen(void* context, int device, void* handle, void** listener) const {
  if (version_ >= 11) return as<abi::Listen11>(table_.listen)(context, device, handle, listener);
  return as<abi::Listen8>(table_.listen)(device, handle, listener);
}

int Plugin::connect(void* context, int device, void* handle, void** connection,
                    void** offload) const {
  if (version_ >= 11)
    return as<abi::Connect11>(table_.connect)(context, device, handle, connection, offload);
  if (version_ == 10)
    return as<abi::Connect10>(table_.connect)(device, usual_config(), handle, connection, offload);
  return as<abi::Connect8>(table_.connect)(device, handle, connection, offload);
}

int Plugin::isend(void* connection, std::span<const std::byte> body, void* memory,
                  void** request) const {
  void* const data = const_cast<std::byte*>(body.data());
  if (version_ >= 10)
    return as<abi::Send10>(table_.send)(connection, data, body.size(), 0, memory, nullptr, request);
  if (version_ == 9)
    return as<abi::Send9>(table_.send)(connection, data, body.size(), 0, memory, request);
  return as<abi::Send8>(table_.send)(connection, data, static_cast<int>(body.size()), 0, memory,
                                     request);
}

int Plugin::irecv(void* connection, std::span<std::byte> room, void* memory, void** request) const {
  void* data = room.data();
  std::size_t bytes = room.size();
  int tag = 0;
  void* event = nullptr;
  if (version_ >= 10)
    return as<abi::Receive10>(table_.receive)(connection, 1, &data, &bytes, &tag, &memory, &event,
                                              request);
  if (version_ == 9)
    return as<abi::Receive9>(table_.receive)(connection, 1, &data, &bytes, &tag, &memory, request);
  int few = static_cast<int>(bytes);
  return as<abi::Receive8>(table_.receive)(connection, 1, &data, &few, &tag, &memory, request);
}

int Plugin::iflush(void* connection, std::span<std::byte> body, void* memory,
                   void** request) const {
  void* data = body.data();
  int bytes = static_cast<int>(body.size());
  return table_.flush(connection, 1, &data, &bytes, &memory, request);
}

std::optional<Found> find(const std::string& value) {
  const std::string file = file_of(kNetwork, value);
  if (file.empty()) return std::nullopt;
  Found found{!value.empty(), Plugin::load(file)};
  if (found.asked || found.plugin.ok()) return found;
  RONDO_INFO(kNet, "no network plugin: {}", found.plugin.error().text);
  return std::nullopt;
}

namespace {

// test() returns the size in an int.
constexpr std::uint64_t kMax = std::numeric_limits<int>::max();

std::string text_of(const char* from_plugin) {
  return from_plugin == nullptr ? "" : printable(from_plugin);
}

Device device_of(int number, const abi::PropertiesHead& head, const abi::PropertiesPort& port,
                 std::uint64_t max_bytes) {
  return {number,
          text_of(head.name),
          head.pci_path == nullptr ? "" : head.pci_path,
          head.memory_kinds,
          head.registration_is_global != 0,
          port.offload_type != 0,
          max_bytes == 0 ? kMax : std::min(max_bytes, kMax)};
}

template <class Since9>
Device device_since_9(int number, const void* properties) {
  const auto& read = *static_cast<const Since9*>(properties);
  return device_of(number, read.head, read.port, read.max_bytes);
}

}  // namespace

bool Device::takes(net::Memory::Kind kind) const {
  switch (kind) {
    case net::Memory::Kind::kHost:
      return (memory_kinds & abi::kHost) != 0;
    case net::Memory::Kind::kDevice:
      return (memory_kinds & abi::kCuda) != 0;
    case net::Memory::Kind::kDmabuf:
      return (memory_kinds & abi::kDmabuf) != 0;
  }
  return false;
}

Device read_device(int number, int version, const void* properties) {
  if (version >= 12) return device_since_9<abi::Properties12>(number, properties);
  if (version >= 9) return device_since_9<abi::Properties9>(number, properties);
  const auto& read = *static_cast<const abi::Properties8*>(properties);
  return device_of(number, read.head, read.port, kMax);
}

topology::NicName nic_of(const Device& device) {
  const std::string address = device.pci_path.substr(device.pci_path.rfind('/') + 1);
  return {.device = device.name, .bus_id = topology::normal_bus_id(address)};
}

const Device* choose_device(std::span<const Device> devices, const topology::NearNics& near) {
  std::vector<const Device*> usable;
  for (const Device& device : devices)
    if (!device.offloads && device.takes(net::Memory::Kind::kHost)) usable.push_back(&device);
  if (usable.empty()) return nullptr;
  const auto is_port = [](const Device* device, const topology::NicName& nic) {
    return topology::is_same(nic_of(*device), nic);
  };
  return topology::nearest_of(usable, near, is_port).front();
}

}  // namespace rondo::plugin
