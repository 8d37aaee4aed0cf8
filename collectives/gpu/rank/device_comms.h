// SPDX-License-Identifier: Apache-2.0
// DeviceComms: what kernels of NCCL's device API use of a rank on a GPU: its windows at one stride,
// their records and tables in device memory, and memory for barriers.
//
// A window's handle is the address of its record, reserved with the first window. Nothing else is
// made before the first create(), so other programs pay for one range of addresses. Then all open
// windows are mapped at one stride, and so are later ones. Each has a range of its own,
// since NVIDIA's layout has a base and a stride for each window. Guarantees: create() succeeds on
// all ranks or on none, with the same rank and reason; where a window cannot be mapped on all
// ranks, none of them maps it, each logs who could not, and host functions use it as before; the
// ranks try a window once; after a fault or abort the abort word is set, and mappings stay for
// kOthersEnd, since kernels may still run, or as long as the process if a program's kernels do not
// read the word. Cost of create(): 2 MiB of device memory once, the buffers, four exchanges and a
// window, and two exchanges for every 32 windows that came before the first one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "collectives/context/device_comm.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/gpu/rank/device_windows.h"
#include "collectives/gpu/rank/strided_memory.h"
#include "transport/memory/own_memory.h"

namespace rondo {
class RankState;
}

namespace rondo::gpu {

class DeviceComms final : public DeviceApi {
 public:
  static constexpr int kMaxWindows = 8192;  // of a communicator, in its life
  static constexpr std::chrono::seconds kOthersEnd{2};

  // lsa_size: ranks of the team (reach_team.h).
  DeviceComms(RankState& state, DeviceWindows& windows, int lsa_size);
  ~DeviceComms() override;
  DeviceComms(const DeviceComms&) = delete;
  DeviceComms& operator=(const DeviceComms&) = delete;

  bool has_multicast() const override { return windows_.has_multicast(); }
  void* record_of(int window) override;
  // Collective, after a window was opened.
  Status window_opened(const Exchange& exchange, int window);
  // No kernel may use it any more.
  void window_closes(int window);

  Result<DeviceComm> create(const Exchange& exchange, const DeviceCommRequest& request) override;
  Status destroy(const void* resource_window) override;
  Result<std::byte*> address_of(int window, int lsa_rank, std::uint64_t offset) const override;

  // Any thread: ends waits of kernels.
  void stop() const;
  std::uint64_t device_bytes() const { return device_bytes_; }

 private:
  struct Mapped {
    std::unique_ptr<StridedMemory> memory;  // null: the rank is alone
    WindowRecord record;
  };
  struct Made {
    int window;
    OwnMemory buffers;
    std::uint64_t bytes;
  };
  int rank() const;
  int first_of_team() const;
  void* at_record(int window) const;
  Status agree(const Exchange& exchange, const Status& own) const;
  Status agree_on(const Exchange& exchange, const DeviceCommRequest& request) const;
  Status activate();
  Result<OwnMemory> zeroed(std::uint64_t bytes) const;
  Status write(void* at, const void* from, std::size_t bytes) const;
  Status write_entry(int window, const WindowTable::Entry& entry) const;
  Result<Mapped> map(int window) const;
  Status set_multicast(int window, bool must, WindowRecord* record);
  Status map_range(const Exchange& exchange, int first, int end, int by_multicast);
  Status map_up_to(const Exchange& exchange, int window, bool by_multicast);
  Status publish(int window, bool must_have_multicast);
  void keep_all();

  RankState& state_;
  DeviceWindows& windows_;
  const int lsa_size_;
  OwnMemory records_;    // addresses; null before the first window
  bool ready_ = false;   // they have memory
  bool active_ = false;  // so they have on all ranks: later windows are mapped, too
  mutable std::mutex mutex_;
  OwnMemory abort_word_;          // pinned; guarded by mutex_
  int settled_ = 0;               // windows that the ranks have tried to map
  std::map<int, Mapped> mapped_;  // by window
  bool waits_for_ever_ = false;   // kernels of a device communicator read no abort word
  std::optional<std::uint64_t> multicast_base_;  // empty: no window has multicast memory
  std::atomic<std::uint64_t> device_bytes_{0};
  std::vector<Made> made_;
};

}  // namespace rondo::gpu
