// SPDX-License-Identifier: Apache-2.0
// Basic types of every layer: element types, reduction operations, collectives, the call record.
//
// DataType and RedOp have Rondo's own dense numbering. api/ converts from nccl.h (equal numbers up
// to 11 and 4) and rondo.h. CallRecord (16 bytes) must be equal on all ranks of a call. It is
// compared as a whole, so that two different calls never look alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rondo {

enum class DataType : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
  kInt16 = 12,
  kUint16 = 13,
};
inline constexpr int kDataTypes = 14;

enum class RedOp : std::uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kBitAnd = 5,
  kBitOr = 6,
  kBitXor = 7,
  kPreMulSum = 8,
};
inline constexpr int kRedOps = 9;

enum class Collective : std::uint8_t {
  kNone = 0,
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
  kAllToAllV,
  kAllGatherV,
  kReduceScatterV,
  kGatherV,
  kScatterV,
  kAllReduceOrdered,  // along a tree of leaves, which the ranks hold runs of (LeafRun)
  kReduceOrdered,
  kReduceScatterOrdered,
  kSend,
  kRecv,
  kPut,
  kSignal,
  kWaitSignal,
};

constexpr std::size_t size_of(DataType type) {
  constexpr std::uint8_t kSizes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2};
  return kSizes[static_cast<int>(type)];
}
constexpr bool is_float(DataType type) {
  return (type >= DataType::kFloat16 && type <= DataType::kFloat8e5m2);
}
constexpr bool is_bitwise(RedOp op) { return op >= RedOp::kBitAnd && op <= RedOp::kBitXor; }

constexpr bool is_rooted(Collective which) {
  return which == Collective::kBroadcast || which == Collective::kReduce ||
         which == Collective::kGather || which == Collective::kScatter;
}

constexpr bool reduces(Collective which) {
  return which == Collective::kAllReduce || which == Collective::kReduce ||
         which == Collective::kReduceScatter;
}

// Calls whose sums have the order of a tree over leaves; their record has leaves and rounding.
constexpr bool is_ordered(Collective which) {
  return which >= Collective::kAllReduceOrdered && which <= Collective::kReduceScatterOrdered;
}

// Where an ordered reduction rounds: in each node of its tree, or once, in the root. Until then it
// sums in a wider type (kernels/host/leaf_tree.h).
enum class Rounding : std::uint8_t { kNode = 0, kOnce = 1 };

// Leaves first .. first + n - 1.
struct LeafRun {
  std::uint32_t first = 0, n = 0;
  constexpr std::uint32_t end() const { return first + n; }
  friend bool operator==(const LeafRun&, const LeafRun&) = default;
};

const char* name(DataType type);     // "float32"
const char* name(RedOp op);          // "sum"
const char* name(Collective which);  // "AllReduce"

// The fields that must be equal on all ranks of one collective call. For v-collectives count is 0:
// counts that only some ranks know are checked pair by pair. PreMulSum's scalar and user handles
// are never part of it.
struct CallRecord {
  std::uint64_t count = 0;  // elements, as the caller gave them; fused calls: fused_count()
  Collective collective = Collective::kNone;
  DataType type = DataType::kInt8;
  RedOp op = RedOp::kSum;
  std::uint64_t excluded : 12 = 0;  // bit a: Algorithm a must not run the call (algSelection); the
                                    // highest bits: in_windows(), by_engines(). Ordered calls:
                                    // set_leaves()
  std::int32_t root : 28 = -1;      // -1: none; v-collectives: below it, a digest of all counts

  static constexpr int kMaxAlgorithms = 9;
  static constexpr unsigned kInPlace = 1u << kMaxAlgorithms;
  static constexpr unsigned kByEngines = 1u << 10, kInWindows = 1u << 11;
  // Set for launches: kernels work in place, in the symmetric windows that hold all buffers of the
  // call. This must hold on all ranks or on none, so it is compared with the rest of the record.
  constexpr bool in_windows() const { return (excluded & kInWindows) != 0; }
  constexpr void set_in_windows(bool in) {
    excluded = ((excluded & (kInWindows - 1)) | (in ? kInWindows : 0u)) & 0xfff;
  }
  // The same of copies by copy engines there. in_place: gathers and scatters whose ranks' own data
  // are in the root's buffer.
  constexpr bool by_engines() const { return in_windows() && (excluded & kByEngines) != 0; }
  constexpr void set_by_engines(bool in_place) {
    excluded =
        ((excluded & (kInPlace - 1)) | kInWindows | kByEngines | (in_place ? kInPlace : 0)) & 0xfff;
  }
  constexpr void clear_launch() { excluded = excluded & (kInPlace - 1); }
  // Of ordered calls: the number of leaves, 2^log2 of at most 2^16, and the rounding.
  static constexpr int kMaxLeavesLog2 = 16;
  constexpr void set_leaves(int log2, Rounding rounding) {
    excluded = static_cast<unsigned>(log2) << 1 | static_cast<unsigned>(rounding);
  }
  constexpr std::uint32_t leaves() const { return std::uint32_t{1} << (excluded >> 1); }
  constexpr Rounding rounding() const { return static_cast<Rounding>(excluded & 1); }
  // Of calls that another library runs (collectives/watch): NCCL does not tell a profiler plugin
  // the operation. A call of Rondo never leaves out all algorithms.
  static constexpr unsigned kForeign = kInWindows - 1;
  constexpr bool is_foreign() const { return excluded == kForeign; }
  // Where kernels find `root` by its address: in the high bits of this word.
  static constexpr unsigned kRootWordAt = 12, kRootShift = 4;

  constexpr bool fused() const { return (count >> 63) != 0; }  // several calls, run as one
  friend bool operator==(const CallRecord&, const CallRecord&) = default;
};
static_assert(sizeof(CallRecord) == 16);

constexpr CallRecord foreign_call(Collective which, DataType type, std::uint64_t count, int root) {
  CallRecord record;
  record.collective = which;
  record.type = type;
  record.count = count;
  record.root = root;
  record.excluded = CallRecord::kForeign;
  return record;
}

// The count of a fused call: total elements (32 bits), and a digest of the counts of its calls.
constexpr std::uint64_t fused_count(std::uint64_t total, std::uint64_t digest) {
  return std::uint64_t{1} << 63 | digest << 32 | (total & 0xffffffff);
}
constexpr std::uint64_t elements_of(const CallRecord& record) {
  return record.fused() ? record.count & 0xffffffff : record.count;
}

std::string to_string(const CallRecord& record);  // "AllReduce(count 4, float32, sum)"

}  // namespace rondo
