// SPDX-License-Identifier: Apache-2.0
#include "base/types.h"

#include <fmt/format.h>

namespace rondo {

const char* name(DataType type) {
  static constexpr const char* kNames[kDataTypes] = {
      "int8",    "uint8",   "int32",    "uint32",     "int64",      "uint64", "float16",
      "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2", "int16",  "uint16"};
  const auto index = static_cast<unsigned>(type);
  return index < kDataTypes ? kNames[index] : "unknown type";
}

const char* name(RedOp op) {
  static constexpr const char* kNames[kRedOps] = {"sum",  "prod", "max",  "min",      "avg",
                                                  "band", "bor",  "bxor", "premulsum"};
  const auto index = static_cast<unsigned>(op);
  return index < kRedOps ? kNames[index] : "unknown operation";
}

const char* name(Collective which) {
  static constexpr const char* kNames[] = {"nothing",        "AllReduce",
                                           "Broadcast",      "Reduce",
                                           "AllGather",      "ReduceScatter",
                                           "AlltoAll",       "Gather",
                                           "Scatter",        "Barrier",
                                           "AllToAllV",      "AllGatherV",
                                           "ReduceScatterV", "GatherV",
                                           "ScatterV",       "AllReduceOrdered",
                                           "ReduceOrdered",  "ReduceScatterOrdered",
                                           "Send",           "Recv",
                                           "PutSignal",      "Signal",
                                           "WaitSignal"};
  const auto index = static_cast<unsigned>(which);
  return index < sizeof(kNames) / sizeof(*kNames) ? kNames[index] : "unknown collective";
}

std::string to_string(const CallRecord& record) {
  std::string text = fmt::format("{}(count {}, {}", name(record.collective), elements_of(record),
                                 name(record.type));
  const bool ordered = is_ordered(record.collective);
  const bool foreign = record.is_foreign();  // its operation is not known
  const bool sums =
      reduces(record.collective) || ordered || record.collective == Collective::kReduceScatterV;
  if (sums && !foreign) text += fmt::format(", {}", name(record.op));
  const char* const is = record.collective < Collective::kSend ? "root" : "peer";
  if (record.root >= 0) text += fmt::format(", {} {}", is, record.root);
  if (record.root < -1) text += fmt::format(", parts {:x}", -(record.root + 2));
  if (record.fused()) text += ", grouped";
  if (ordered)
    text += fmt::format(", {} leaves, rounded {}", record.leaves(),
                        record.rounding() == Rounding::kOnce ? "once" : "in each node");
  if (record.in_windows()) text += ", in symmetric windows";
  if (record.by_engines()) text += " by copy engines";
  if (!ordered && !foreign && (record.excluded & (CallRecord::kInPlace - 1)) != 0)
    text += ", some algorithms left out";
  return text + ")";
}

}  // namespace rondo
