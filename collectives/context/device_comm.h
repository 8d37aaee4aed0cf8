// SPDX-License-Identifier: Apache-2.0
// What kernels of NCCL's device API read of a communicator, in device memory, and what the api
// layer needs to describe it to them (api/device_layouts.h). Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::gpu {

// A window for kernels; an ncclWindow_t is its address. The fields up to gin_windows are those of
// NCCL's ncclWindow_vidmem of every version, the rest those of 2.32. Address of byte `offset` of
// the window of rank r of the Lsa team: flat_base + r * stride_4g * 4 GiB + offset.
struct WindowRecord {
  void* on_host = nullptr;
  std::byte* flat_base = nullptr;  // null: kernels cannot use the window
  int lsa_rank = 0, world_rank = 0;
  std::uint32_t stride_4g = 0;     // in 4 GiB
  std::uint32_t multicast_4k = 0;  // from the multicast base of the communicator, in 4 KiB
  std::uint32_t gin_4k = 0, flags = 0;
  void* gin_windows[4] = {};
  void* segments = nullptr;
  int segment_count = 0, cft_rank = 0;
  std::uint32_t cft_endpoint = ~0u;
  std::uint32_t unused[9] = {};
};
static_assert(sizeof(WindowRecord) == 128 && offsetof(WindowRecord, gin_windows) == 40);

// NCCL's ncclDevCommWindowTable: the windows of this rank by the program's addresses.
struct WindowTable {
  static constexpr int kEntries = 32;
  struct Entry {
    std::uint64_t begin = 0, bytes = 0;
    void* record = nullptr;
  } entries[kEntries];
  void* next = nullptr;
};
static_assert(sizeof(WindowTable) == 776);

struct DeviceCommRequest {
  std::uint64_t buffer_bytes = 0;  // of each rank, zeroed: barriers and what the program asks for
  std::uint64_t digest = 0;        // of what is where in them; equal on all ranks
  bool multicast = false;
  bool reads_abort = true;  // the program's kernels read the abort word
};

struct DeviceComm {
  int lsa_rank = 0, lsa_size = 1;
  void* window_table = nullptr;         // a WindowTable
  void* resource_window = nullptr;      // a WindowRecord
  WindowRecord resource;                // its content
  std::byte* multicast_base = nullptr;  // null: none
  std::uint32_t* abort_word = nullptr;  // not 0: waits of kernels end
};

}  // namespace rondo::gpu
