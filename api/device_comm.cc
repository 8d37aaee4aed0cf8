// SPDX-License-Identifier: Apache-2.0
// Device communicators, what they require, and addresses of windows for kernels of NCCL's device
// API. The layouts are in device_layouts.h, the memory in collectives/gpu/rank/device_comms.h.
// What needs GIN (transfers between hosts that kernels start) is refused.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "api/arguments.h"
#include "api/comm.h"
#include "api/device_layouts.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "api/nccl_device.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/gpu/rank/first_refusal.h"

using namespace rondo;
using namespace rondo::api;

namespace {

constexpr const char* kCreate = "DevCommCreate";
constexpr std::uint64_t kHandleUnit = 128;  // bytes; a resource's handle counts them

Result<gpu::DeviceApi*> device_api(const Comm& comm, const char* function) {
  gpu::GpuRank* const rank = gpu_rank_of(*comm.engine());
  gpu::DeviceApi* const found = rank == nullptr ? nullptr : rank->device_api();
  if (found != nullptr) return found;
  return fail(StatusCode::kInvalidUsage,
              "{} : the device API needs ranks on GPUs whose driver maps memory by address (CUDA "
              "11.3 or newer); use the host API where ncclCommProperties_t::deviceApiSupport is "
              "false",
              function);
}

// ---- Resources: places in one buffer of each rank --------------------------------------------

struct Resources {
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a of what was added: equal bytes may differ

  void note(std::uint64_t value) { digest = (digest ^ value) * 0x100000001b3; }
  Result<ncclDevResourceHandle_t> add(std::uint64_t size, std::uint64_t align) {
    note(size), note(align);
    if (align == 0) align = 1;
    if ((align & (align - 1)) != 0 || align > (1 << 21))
      return fail(StatusCode::kInvalidArgument,
                  "{} : bufferAlign {} is not a power of two up to 2 MiB", kCreate, align);
    const std::uint64_t unit = std::max(align, kHandleUnit);
    const std::uint64_t begin = (bytes + unit - 1) / unit * unit;
    if (size > kMaxBufferBytes || (begin + size) / kHandleUnit > 0xffffffffu)
      return fail(StatusCode::kInvalidArgument,
                  "{} : the resources take {} bytes and {} more, which handles cannot name",
                  kCreate, bytes, size);
    bytes = begin + size;
    return static_cast<ncclDevResourceHandle_t>(begin / kHandleUnit);
  }
  // 3n words of its own, and an inbox of each rank for each barrier.
  Result<ncclLsaBarrierHandle_t> add_barriers(int count, int ranks) {
    const auto n = static_cast<std::uint64_t>(count);
    note(n);
    if (count == 0) return ncclLsaBarrierHandle_t{};
    RONDO_TRY(const auto handle, add((3 * n + n * static_cast<std::uint64_t>(ranks)) * 4, 4));
    return ncclLsaBarrierHandle_t{handle, count};
  }
};

Status check_counts(const DeviceRequirements& wanted) {
  const std::pair<const char*, int> counts[] = {{"barrierCount", wanted.barriers},
                                                {"lsaBarrierCount", wanted.lsa_barriers},
                                                {"railGinBarrierCount", wanted.rail_barriers},
                                                {"worldGinBarrierCount", wanted.world_barriers},
                                                {"ginSignalCount", wanted.gin_signals},
                                                {"ginCounterCount", wanted.gin_counters}};
  for (const auto& [name, count] : counts)
    if (count < 0 || count > (1 << 24))
      return fail(StatusCode::kInvalidArgument, "{} : {} is {}, outside of 0..{}", kCreate, name,
                  count, 1 << 24);
  return ok_status();
}

Status refuse_gin(const DeviceRequirements& wanted, bool one_team) {
  const std::pair<const char*, bool> asks[] = {
      {"ginForceEnable", wanted.gin_forced},
      {"ginConnectionType", wanted.gin_connections != NCCL_GIN_CONNECTION_NONE},
      {"ginSignalCount", wanted.gin_signals > 0},
      {"ginCounterCount", wanted.gin_counters > 0},
      {"cftCaps", wanted.cft != 0},
      {"barrierCount", !one_team && wanted.barriers > 0},
      {"railGinBarrierCount", !one_team && wanted.rail_barriers > 0},
      {"worldGinBarrierCount", !one_team && wanted.world_barriers > 0}};
  for (const auto& [name, asked] : asks)
    if (asked)
      return fail(
          StatusCode::kInvalidUsage,
          "{} : {} asks for GIN or CFT, which Rondo does not have: ncclCommProperties_t says "
          "so; use barriers of the Lsa team only (lsaBarrierCount)",
          kCreate, name);
  return ok_status();
}

// What a created device communicator is written to, beside the struct.
struct Plan {
  DeviceRequirements wanted;
  Resources resources;
  DeviceBarriers barriers;
  std::vector<std::pair<ncclDevResourceHandle_t*, ncclDevResourceHandle_t>> handles;
  std::vector<ncclMultimemHandle_t*> multimem;
};

Status add_lists(const Comm& comm, int lsa_size, Plan* plan) {
  for (auto* one = plan->wanted.resources; one != nullptr; one = one->next) {
    if (one->ginSignalCount > 0 || one->ginCounterCount > 0)
      return fail(
          StatusCode::kInvalidUsage,
          "{} : a resource asks for {} signals and {} counters of GIN, which Rondo does not "
          "have",
          kCreate, one->ginSignalCount, one->ginCounterCount);
    RONDO_TRY(const auto handle, plan->resources.add(one->bufferSize, one->bufferAlign));
    if (one->outBufferHandle != nullptr) plan->handles.emplace_back(one->outBufferHandle, handle);
  }
  for (auto* one = plan->wanted.teams; one != nullptr; one = one->next) {
    if (!one->multimem) continue;
    if (one->team.nRanks != lsa_size || one->team.stride != 1)
      return fail(
          StatusCode::kInvalidUsage,
          "{} : multicast memory of a team of {} ranks, stride {}: Rondo has it for the Lsa "
          "team of {} ranks only",
          kCreate, one->team.nRanks, one->team.stride, lsa_size);
    plan->wanted.multicast = true;
    if (one->outMultimemHandle != nullptr) plan->multimem.push_back(one->outMultimemHandle);
  }
  if (plan->wanted.multicast && lsa_size != comm.size)
    return fail(StatusCode::kInvalidUsage,
                "{} : multicast memory was asked for, which Rondo has only where the {} ranks are "
                "one Lsa team (of {})",
                kCreate, comm.size, lsa_size);
  return ok_status();
}

Result<Plan> make_plan(const Comm& comm, const void* requirements, const void* out) {
  Plan plan;
  RONDO_CHECK_OK(not_null(requirements, kCreate, "reqs"));
  RONDO_CHECK_OK(not_null(out, kCreate, "outDevComm"));
  RONDO_TRY(plan.wanted, read_requirements(requirements));
  const int lsa_size = reach_team_of(*comm.engine());
  RONDO_CHECK_OK(check_counts(plan.wanted));
  RONDO_CHECK_OK(refuse_gin(plan.wanted, lsa_size == comm.size));
  const int lsa = std::max(plan.wanted.lsa_barriers, plan.wanted.barriers);
  RONDO_TRY(plan.barriers.lsa, plan.resources.add_barriers(lsa, lsa_size));
  RONDO_TRY(plan.barriers.hybrid, plan.resources.add_barriers(plan.wanted.barriers, lsa_size));
  RONDO_CHECK_OK(add_lists(comm, lsa_size, &plan));
  return plan;
}

// What one rank alone gets wrong is an error of all ranks, at once: it meets the others, too.
Status create_device_comm(const Comm& comm, const Result<Plan>& planned, void* out) {
  RONDO_TRY(gpu::DeviceApi* const kernels, device_api(comm, kCreate));
  const auto exchange = [&comm](std::span<const std::byte> mine) {
    return comm.engine()->exchange(kCreate, mine);
  };
  RONDO_TRY(const auto refusal,
            gpu::first_refusal(exchange, planned.ok() ? ok_status() : Status(planned.error())));
  if (refusal) return fail(refusal->code, "rank {}: {}", refusal->rank, refusal->text);
  const Plan& plan = *planned;
  RONDO_TRY(const gpu::DeviceComm made,
            kernels->create(exchange, {plan.resources.bytes, plan.resources.digest,
                                       plan.wanted.multicast, plan.wanted.reads_abort()}));
  for (const auto& [handle, value] : plan.handles) *handle = value;
  for (ncclMultimemHandle_t* handle : plan.multimem) handle->mcBasePtr = made.multicast_base;
  write_device_comm(made, plan.wanted, {comm.rank, comm.size}, plan.barriers, out);
  return ok_status();
}

// What is wrong on all ranks alike, or leaves no ranks to meet.
Result<CommPin> check_create(ncclComm_t comm) {
  RONDO_TRY(CommPin pin, find_usable_comm(comm, kCreate));
  if (const auto kernels = device_api(*pin, kCreate); !kernels.ok()) return kernels.error();
  return pin;
}

Status destroy_device_comm(ncclComm_t comm, const void* device_comm) {
  constexpr const char* kFunction = "DevCommDestroy";
  RONDO_TRY(const CommPin pin, find_made_comm(comm, kFunction));
  RONDO_CHECK_OK(not_null(device_comm, kFunction, "devComm"));
  RONDO_TRY(gpu::DeviceApi* const kernels, device_api(*pin, kFunction));
  Turn turn;
  if (!in_group()) {
    turn = Turn(pin->order);
    turn.wait();
  }
  return kernels->destroy(resource_window_of(device_comm));
}

// ---- Addresses ---------------------------------------------------------------------------------

// peer: of the Lsa team, or in it by the rank of the communicator; kMulticast: of all.
struct Peer {
  enum Kind { kLsa, kWorld, kMulticast } kind;
  int rank = 0;
};

Status device_address(ncclWindow_t window, std::size_t offset, Peer peer, void** out,
                      const char* function) {
  RONDO_CHECK_OK(not_null(out, function, "outPtr"));
  *out = nullptr;
  RONDO_TRY(const auto found, find_any_window(window, function));
  RONDO_TRY(const CommPin comm, find_made_comm(found->comm, function));
  RONDO_TRY(const gpu::DeviceApi* const kernels, device_api(*comm, function));
  const int ranks = reach_team_of(*comm->engine()), first = comm->rank / ranks * ranks;
  int in_team = peer.kind == Peer::kWorld ? peer.rank - first : peer.rank;
  if (peer.kind == Peer::kMulticast) in_team = comm->rank - first;
  if (in_team < 0 || in_team >= ranks)
    return fail(StatusCode::kInvalidArgument,
                "{} : rank {} is outside of the Lsa team, ranks {} to {} of the communicator",
                function, peer.kind == Peer::kWorld ? peer.rank : first + in_team, first,
                first + ranks - 1);
  const std::size_t there = comm->engine()->window_bytes(found->number, first + in_team);
  if (offset > there)
    return fail(StatusCode::kInvalidArgument,
                "{} : offset {} is beyond the window of {} bytes of rank {}", function, offset,
                there, first + in_team);
  const int of = peer.kind == Peer::kMulticast ? gpu::DeviceApi::kMulticast : in_team;
  RONDO_TRY(*out, kernels->address_of(found->number, of, offset));
  return ok_status();
}

ncclResult_t requirement(std::uint64_t bytes, std::uint64_t align, ncclDevResourceHandle_t* handle,
                         ncclDevResourceRequirements_t* out) {
  *out = {};
  out->bufferSize = bytes;
  out->bufferAlign = align;
  out->outBufferHandle = handle;
  return ncclSuccess;
}

Status check_requirement(const void* handle, const void* out, int first, int second,
                         const char* function) {
  RONDO_CHECK_OK(not_null(handle, function, "outHandle"));
  RONDO_CHECK_OK(not_null(out, function, "outReq"));
  if (first >= 0 && second >= 0 && first <= (1 << 24) && second <= (1 << 24)) return ok_status();
  return fail(StatusCode::kInvalidArgument, "{} : {} and {} are not in the 0..{} range", function,
              first, second, 1 << 24);
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, DevCommCreate, ncclComm_t comm,
                   const ncclDevCommRequirements* reqs, ncclDevComm* outDevComm) {
  RONDO_ENTER(DevCommCreate);
  auto pin = check_create(comm);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  SetUp work;
  Comm* owner = pin->get();
  work.blocking = owner->blocking();
  work.parent = std::move(*pin);
  work.run = [owner, outDevComm, plan = make_plan(*owner, reqs, outDevComm)]() -> Status {
    return create_device_comm(*owner, plan, outDevComm);
  };
  work.cancel = [] {};
  return submit_set_up(std::move(work));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, DevCommDestroy, ncclComm_t comm, const ncclDevComm* devComm) {
  RONDO_ENTER(DevCommDestroy);
  return report(destroy_device_comm(comm, devComm));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, GetLsaMultimemDevicePointer, ncclWindow_t window, size_t offset,
                   void** outPtr) {
  RONDO_ENTER(GetLsaMultimemDevicePointer);
  return report(
      device_address(window, offset, {Peer::kMulticast}, outPtr, "GetLsaMultimemDevicePointer"));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GetMultimemDevicePointer, ncclWindow_t window, size_t offset,
                   ncclMultimemHandle multimem, void** outPtr) {
  RONDO_ENTER(GetMultimemDevicePointer);
  constexpr const char* kFunction = "GetMultimemDevicePointer";
  if (auto checked = not_null(multimem.mcBasePtr, kFunction, "multimem"); !checked.ok())
    return report(checked);
  return report(device_address(window, offset, {Peer::kMulticast}, outPtr, kFunction));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GetLsaDevicePointer, ncclWindow_t window, size_t offset,
                   int lsaRank, void** outPtr) {
  RONDO_ENTER(GetLsaDevicePointer);
  return report(
      device_address(window, offset, {Peer::kLsa, lsaRank}, outPtr, "GetLsaDevicePointer"));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GetPeerDevicePointer, ncclWindow_t window, size_t offset, int peer,
                   void** outPtr) {
  RONDO_ENTER(GetPeerDevicePointer);
  return report(
      device_address(window, offset, {Peer::kWorld, peer}, outPtr, "GetPeerDevicePointer"));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, LsaBarrierCreateRequirement, ncclTeam team, int nBarriers,
                   ncclLsaBarrierHandle* outHandle, ncclDevResourceRequirements* outReq) {
  RONDO_ENTER(LsaBarrierCreateRequirement);
  const Status checked =
      check_requirement(outHandle, outReq, nBarriers, team.nRanks, "LsaBarrierCreateRequirement");
  if (!checked.ok()) return report(checked);
  outHandle->nBarriers = nBarriers;
  const auto n = static_cast<std::uint64_t>(nBarriers);
  return requirement((3 * n + n * static_cast<std::uint64_t>(team.nRanks)) * 4, 4,
                     &outHandle->bufHandle, outReq);
}
RONDO_CATCH
// A slot carries 8 bytes, in 16 with their epochs.
RONDO_API_FUNCTION(int, LLA2ACalcSlots, int maxElts, int maxEltSize) {
  RONDO_ENTER(LLA2ACalcSlots);
  return maxElts * ((maxEltSize + 7) / 8);
}
RONDO_CATCH_GIVING(0)
RONDO_API_FUNCTION(ncclResult_t, LLA2ACreateRequirement, int nBlocks, int nSlots,
                   ncclLLA2AHandle* outHandle, ncclDevResourceRequirements* outReq) {
  RONDO_ENTER(LLA2ACreateRequirement);
  const Status checked =
      check_requirement(outHandle, outReq, nBlocks, nSlots, "LLA2ACreateRequirement");
  if (!checked.ok()) return report(checked);
  outHandle->nSlots = static_cast<uint32_t>(nSlots);
  const auto blocks = static_cast<std::uint64_t>(nBlocks),
             slots = static_cast<std::uint64_t>(nSlots);
  return requirement(blocks * (1 + 2 * slots) * 16, 16, &outHandle->bufHandle, outReq);
}
RONDO_CATCH
