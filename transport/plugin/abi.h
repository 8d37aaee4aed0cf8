// SPDX-License-Identifier: Apache-2.0
// The interface of NCCL's network plugins, versions 8 to 12: the part that Rondo calls.
//
// Source: NVIDIA's published headers for plugins, plugin/net/net_v8.h to net_v12.h of NCCL 2.19 to
// 2.32, and the page "NCCL Net Plugin Documentation". A plugin exports a struct of pointers named
// ncclNetPlugin_v<version>. Its entries have the same positions in all versions, and later versions
// append entries; so one struct serves for all. A function with different arguments in another
// version has a separate type here. Results are NCCL's ncclResult_t, as int.
//
//   auto* table = static_cast<const NetTable*>(dlsym(library, "ncclNetPlugin_v12"));
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/plugin/library.h"

namespace rondo::plugin::abi {

inline constexpr int kOldest = 8, kNewest = 12;
inline constexpr std::size_t kHandleBytes = 128;  // listen() fills it in for the peer
// Requests of one connection that a plugin must support in flight.
inline constexpr int kMaxRequests = 32;

// Kinds of memory; also the bit mask of kinds that a device supports.
enum MemoryKind : int { kHost = 1, kCuda = 2, kDmabuf = 4 };

using Profiler = int (*)(void** event, int type, void* parent, std::int64_t plugin, void* extra);

struct Config {
  int traffic_class;  // -1: the plugin's own choice
};

// Device properties begin the same way in all versions.
struct PropertiesHead {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int memory_kinds;
  int registration_is_global;
};
// Follows the flag force_flush (from version 9 on) or the head (version 8).
struct PropertiesPort {
  int speed;  // Mb/s
  int port;
  float latency;
  int max_connections;
  int max_receives;  // buffers per irecv()
  int offload_type;  // 0: none, the host moves all data
  int offload_version;
};
struct Properties8 {
  PropertiesHead head;
  PropertiesPort port;
};
template <int kDevices>
struct PropertiesSince9 {
  PropertiesHead head;
  int force_flush;
  PropertiesPort port;
  int device_count;
  int devices[kDevices];  // members of a virtual device
  std::size_t max_bytes;
  std::size_t max_collective_bytes;
  int max_multi_requests;    // from version 11 on
  std::int16_t rail, plane;  // from version 12 on
};
using Properties9 = PropertiesSince9<4>;  // and of versions 10 and 11
using Properties12 = PropertiesSince9<8>;
static_assert(sizeof(Properties8) == 64 && offsetof(Properties8, port.speed) == 32);
static_assert(offsetof(Properties9, port.speed) == 36 && offsetof(Properties9, max_bytes) == 88);
static_assert(offsetof(Properties12, max_bytes) == 104 && offsetof(Properties12, rail) == 124);

// Functions whose arguments depend on the version.
using Init8 = int (*)(Logger);  // and 9
using Init10 = int (*)(Logger, Profiler);
using Init11 = int (*)(void** context, std::uint64_t communicator, Config*, Logger, Profiler);
using Properties = int (*)(int device, void* properties);
using Listen8 = int (*)(int device, void* handle, void** listener);
using Listen11 = int (*)(void* context, int device, void* handle, void** listener);
using Connect8 = int (*)(int device, void* handle, void** connection, void** offload);
using Connect10 = int (*)(int device, Config*, void* handle, void** connection, void** offload);
using Connect11 = int (*)(void* context, int device, void* handle, void** connection,
                          void** offload);
using Send8 = int (*)(void* connection, void* data, int bytes, int tag, void* memory,
                      void** request);
using Send9 = int (*)(void* connection, void* data, std::size_t bytes, int tag, void* memory,
                      void** request);
using Send10 = int (*)(void* connection, void* data, std::size_t bytes, int tag, void* memory,
                       void* event, void** request);
using Receive8 = int (*)(void* connection, int count, void** data, int* bytes, int* tags,
                         void** memory, void** request);
using Receive9 = int (*)(void* connection, int count, void** data, std::size_t* bytes, int* tags,
                         void** memory, void** request);
using Receive10 = int (*)(void* connection, int count, void** data, std::size_t* bytes, int* tags,
                          void** memory, void** events, void** request);

using RegisterDmabuf = int (*)(void* connection, void* data, std::size_t bytes, int kind,
                               std::uint64_t offset, int file, void** memory);

using Any = void (*)();  // cast to one of the types above before the call

struct NetTable {
  const char* name;
  Any init;
  int (*devices)(int* count);
  Properties get_properties;
  Any listen;
  Any connect;  // null connection: call again; accept() too
  int (*accept)(void* listener, void** connection, void** offload);
  int (*register_memory)(void* connection, void* data, std::size_t bytes, int kind, void** memory);
  RegisterDmabuf register_dmabuf;  // may be null
  int (*deregister_memory)(void* connection, void* memory);
  Any send;  // null request: call again; receive too
  Any receive;
  int (*flush)(void* connection, int count, void** data, int* bytes, void** memory, void** request);
  int (*test)(void* request, int* done, int* bytes);
  int (*close_send)(void* connection);
  int (*close_receive)(void* connection);
  int (*close_listen)(void* listener);
  Any get_device_memory;  // for offload, like the next one
  Any receive_consumed;
  // From version 9 on.
  Any make_virtual_device;
  // From version 11 on.
  int (*finalize)(void* context);
  Any set_attributes;
};

}  // namespace rondo::plugin::abi
