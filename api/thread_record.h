// SPDX-License-Identifier: Apache-2.0
// ThreadRecord: per-thread data that other threads read: the slot of a handle table that the thread
// uses (its hazard pointer), and how often it has called each function of nccl.h.
//
// A thread that uses an object only until its call returns stores the slot here: one plain store
// instead of two atomic additions. To free an object, a thread calls heavy_fence()
// (base/asymmetric_fence.h) and then checks all records. Call counts are plain stores too; a reader
// sums those of all threads. Records are never freed; a new thread reuses the record of an ended
// thread and keeps its counts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace rondo::api {

// clang-format off
#define RONDO_ENTRY_POINTS(X) \
  X(AllGather) X(AllGatherConfig) X(AllReduce) X(AllReduceConfig) X(AlltoAll) X(AlltoAllConfig) \
  X(Bcast) X(Broadcast) X(BroadcastConfig) X(CommAbort) X(CommCount) X(CommCuDevice) \
  X(CommDeregister) X(CommDestroy) X(CommFinalize) X(CommGetAsyncError) X(CommGetUniqueId) \
  X(CommGrow) X(CommInitAll) X(CommInitRank) X(CommInitRankConfig) X(CommInitRankScalable) \
  X(CommMemStats) X(CommQueryProperties) X(CommRegister) X(CommResume) X(CommRevoke) \
  X(CommShrink) X(CommSplit) X(CommSuspend) X(CommUserRank) X(CommWindowDeregister) \
  X(CommWindowRegister) X(DevCommCreate) X(DevCommDestroy) X(Gather) X(GatherConfig) \
  X(GetCftDeviceLeInfo) X(GetErrorString) X(GetLastError) X(GetLsaDevicePointer) \
  X(GetLsaMultimemDevicePointer) X(GetMultimemDeviceLeInfo) X(GetMultimemDevicePointer) \
  X(GetPeerDeviceLeInfo) X(GetPeerDevicePointer) X(GetUniqueId) X(GetVersion) \
  X(GinBarrierCreateRequirement) X(GinInboxA2ACreateRequirement) X(GinOutboxCreateRequirement) \
  X(GroupEnd) X(GroupSimulateEnd) X(GroupStart) X(LLA2ACalcSlots) X(LLA2ACreateRequirement) \
  X(LsaBarrierCreateRequirement) X(MemAlloc) X(MemFree) X(ParamBind) X(ParamDumpAll) X(ParamGet) \
  X(ParamGetAllParameterKeys) X(ParamGetI16) X(ParamGetI32) X(ParamGetI64) X(ParamGetI8) \
  X(ParamGetParameter) X(ParamGetStr) X(ParamGetU16) X(ParamGetU32) X(ParamGetU64) X(ParamGetU8) \
  X(PutSignal) X(Recv) X(RedOpCreatePreMulSum) X(RedOpDestroy) X(Reduce) X(ReduceConfig) \
  X(ReduceScatter) X(ReduceScatterConfig) X(ResetDebugInit) X(Scatter) X(ScatterConfig) X(Send) \
  X(SetEncryption) X(Signal) X(TeamCft) X(TeamCftMultimem) X(TeamLsa) X(TeamRail) \
  X(TeamRankToLsa) X(TeamRankToWorld) X(TeamWorld) X(WaitSignal) X(WinGetUserPtr)
// clang-format on

// A number and a name for each NCCL function that the library exports.
enum class EntryPoint : unsigned char {
#define RONDO_ENTRY_POINT(name) k##name,
  RONDO_ENTRY_POINTS(RONDO_ENTRY_POINT)
#undef RONDO_ENTRY_POINT
};

inline constexpr std::string_view kEntryPointNames[] = {
#define RONDO_ENTRY_POINT(name) "nccl" #name,
    RONDO_ENTRY_POINTS(RONDO_ENTRY_POINT)
#undef RONDO_ENTRY_POINT
};
inline constexpr std::size_t kEntryPoints = std::size(kEntryPointNames);

struct alignas(64) ThreadRecord {
  std::atomic<const void*> hazard{nullptr};
  std::atomic<bool> owned{true};
  ThreadRecord* next = nullptr;
  std::array<std::atomic<std::uint64_t>, kEntryPoints> calls{};  // written only by the owner
};

// Called once per thread by own_record().
ThreadRecord* make_own_record();

bool is_in_use(const void* slot);

// Sum over all threads. Includes all calls that happened before this one.
std::uint64_t count_of_calls(EntryPoint function);

// The thread-local data that every API call reads, in one struct: one look-up per call.
//
// Not initial-exec: dlopen can fail for a library with static thread-local storage.
struct ThreadWords {
  int group_depth = 0;
  int group_error = 0;             // ncclResult_t of the open group's first function that failed
  ThreadRecord* record = nullptr;  // null before own_record()
};
// GCC 11 looks for an initialiser of every extern thread_local, even constinit; not of __thread.
extern __thread ThreadWords thread_words;

inline bool in_group() { return thread_words.group_depth > 0; }

inline ThreadRecord& own_record() {
  ThreadRecord* const known = thread_words.record;
  return known != nullptr ? *known : *make_own_record();
}

inline void count_call(EntryPoint function) {
  auto& calls = own_record().calls[static_cast<std::size_t>(function)];
  calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace rondo::api
