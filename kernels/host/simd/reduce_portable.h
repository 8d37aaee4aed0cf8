// SPDX-License-Identifier: Apache-2.0
// The reduction table's scalar code as an executor. Used on CPUs without a SIMD target, for
// operations without SIMD code, and as the reference in tests of the SIMD code.
#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/host/simd/simd_target.h"
#include "kernels/reduce.h"

namespace rondo::host::portable {

template <class T>
T load(const void* base, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* base, std::size_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * sizeof(T), &value, sizeof(T));
}

template <DataType type, RedOp op>
void reduce(const ReduceArgs& args) {
  using E = Element<type>;
  using Acc = typename E::Acc;
  for (std::size_t i = 0; i < args.count; ++i) {
    Acc result = combine_tree<op>(args.source_count, [&](int s) -> Acc {
      return E::to_acc(load<typename E::Storage>(args.sources[s], i));
    });
    if (args.finish) result = Reduction<op>::finish(result, args.rank_count);
    const typename E::Storage element = E::from_acc(result);
    for (int t = 0; t < args.target_count; ++t) store(args.targets[t], i, element);
  }
}

template <DataType type>
void scale(void* out, const void* in, std::size_t count, const void* scalar) {
  using T = typename Element<type>::Storage;
  const T factor = load<T>(scalar, 0);
  for (std::size_t i = 0; i < count; ++i) store(out, i, scaled<type>(load<T>(in, i), factor));
}

// The function for an operation on one type, or null.
template <DataType type>
ReduceFn function(RedOp op) {
  ReduceFn found = nullptr;
  for_each_op([&]<RedOp each>() {
    constexpr RedOp served = each == RedOp::kPreMulSum ? RedOp::kSum : each;
    if constexpr (supported(type, each))
      if (op == each) found = reduce<type, served>;
  });
  return found;
}

// Calls visitor.template operator()<type>() for the run-time `type`.
template <class Visitor>
auto with_type(DataType type, Visitor&& visitor) {
  switch (type) {
    case DataType::kInt8:
      return visitor.template operator()<DataType::kInt8>();
    case DataType::kUint8:
      return visitor.template operator()<DataType::kUint8>();
    case DataType::kInt16:
      return visitor.template operator()<DataType::kInt16>();
    case DataType::kUint16:
      return visitor.template operator()<DataType::kUint16>();
    case DataType::kInt32:
      return visitor.template operator()<DataType::kInt32>();
    case DataType::kUint32:
      return visitor.template operator()<DataType::kUint32>();
    case DataType::kInt64:
      return visitor.template operator()<DataType::kInt64>();
    case DataType::kUint64:
      return visitor.template operator()<DataType::kUint64>();
    case DataType::kFloat16:
      return visitor.template operator()<DataType::kFloat16>();
    case DataType::kBfloat16:
      return visitor.template operator()<DataType::kBfloat16>();
    case DataType::kFloat64:
      return visitor.template operator()<DataType::kFloat64>();
    case DataType::kFloat8e4m3:
      return visitor.template operator()<DataType::kFloat8e4m3>();
    case DataType::kFloat8e5m2:
      return visitor.template operator()<DataType::kFloat8e5m2>();
    case DataType::kFloat32:
      break;
  }
  return visitor.template operator()<DataType::kFloat32>();
}

}  // namespace rondo::host::portable
