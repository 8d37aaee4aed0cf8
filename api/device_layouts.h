// SPDX-License-Identifier: Apache-2.0
// The structs of NCCL's device API as programs were compiled with them: requirements to read,
// device communicators to write.
//
// Programs inline NVIDIA's nccl_device.h of some version, so each version's layout is an interface.
// device_layout_table.h has a row for each layout. Guarantees: nothing is read or written beyond
// the size of the caller's version; an unknown version is an error with its number, and later patch
// releases of the newest one are known by their size. Cost: none worth naming.
//
//   RONDO_TRY(const DeviceRequirements wanted, read_requirements(reqs));
//   write_device_comm(made, wanted.layout, out);
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/device_layout_table.h"
#include "api/nccl_device.h"
#include "base/result.h"
#include "collectives/context/device_comm.h"

namespace rondo::api {

// What the program requires, whatever its version.
struct DeviceRequirements {
  const DeviceLayout* layout = nullptr;
  unsigned version = 0;  // to be written into the device communicator
  ncclDevResourceRequirements_t* resources = nullptr;
  ncclTeamRequirements_t* teams = nullptr;
  bool multicast = false;
  int barriers = 0, lsa_barriers = 0, rail_barriers = 0, world_barriers = 0;
  int gin_signals = 0, gin_counters = 0, gin_connections = 0, cft = 0;
  bool gin_forced = false;

  // Whether the kernels' barriers poll the abort word.
  bool reads_abort() const { return layout->abort_flag != DeviceLayout::kNone; }
};

Result<DeviceRequirements> read_requirements(const void* requirements);

// Where the barriers of the communicator are in its resources.
struct DeviceBarriers {
  ncclLsaBarrierHandle_t lsa{}, hybrid{};
};
struct DeviceRanks {
  int rank, size;
};
void write_device_comm(const gpu::DeviceComm& made, const DeviceRequirements& wanted,
                       const DeviceRanks& ranks, const DeviceBarriers& barriers, void* out);
// The resource window of a written device communicator.
void* resource_window_of(const void* device_comm);

}  // namespace rondo::api
