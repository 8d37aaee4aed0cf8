#include "kernels/cuda/kernels.h"

#include "kernels/cuda/direct_table.h"

namespace rondo::cuda {
namespace {

const DirectTable& rows_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return rows_of_int8();
    case DataType::kUint8:
      return rows_of_uint8();
    case DataType::kInt16:
      return rows_of_int16();
    case DataType::kUint16:
      return rows_of_uint16();
    case DataType::kInt32:
      return rows_of_int32();
    case DataType::kUint32:
      return rows_of_uint32();
    case DataType::kInt64:
      return rows_of_int64();
    case DataType::kUint64:
      return rows_of_uint64();
    case DataType::kFloat16:
      return rows_of_float16();
    case DataType::kFloat32:
      return rows_of_float32();
    case DataType::kFloat64:
      return rows_of_float64();
    case DataType::kBfloat16:
      return rows_of_bfloat16();
    case DataType::kFloat8e4m3:
      return rows_of_float8e4m3();
    case DataType::kFloat8e5m2:
      break;
  }
  return rows_of_float8e5m2();
}

}  // namespace

const KernelEntry& kernel_entry(int kernel) {
  if (kernel == kCopyKernel) return row_of_copy();
  if (kernel == kStoredCopyKernel) return row_of_stored_copy();
  if (kernel == kResolveKernel) return row_of_resolve();
  if (kernel == kAgreeKernel) return row_of_agree();
  if (kernel == kConnectedCopyKernel) return row_of_connected_copy();
  if (kernel == kConnectedBulkKernel) return row_of_connected_bulk();
  if (kernel == kMessagesKernel) return row_of_messages();
  if (kernel >= kFirstMulticastKernel) return row_of_multicast(kernel - kFirstMulticastKernel);
  if (kernel == kLLPushCopyKernel) return row_of_ll_push_copy();
  // Numbers count upwards from one kind of row to the next.
  const auto row = [&]<int rows>(int first, const KernelEntry(DirectTable::*kind)[rows]) -> auto& {
    return (rows_of(static_cast<DataType>((kernel - first) / rows)).*kind)[(kernel - first) % rows];
  };
  if (kernel >= kFirstLLPushKernel) return row(kFirstLLPushKernel, &DirectTable::ll_push);
  if (kernel >= kFirstConnectedKernel) return row(kFirstConnectedKernel, &DirectTable::connected);
  if (kernel >= kFirstStoredKernel) return row(kFirstStoredKernel, &DirectTable::stored);
  return row(kFirstDirectKernel, &DirectTable::row);
}

}  // namespace rondo::cuda
