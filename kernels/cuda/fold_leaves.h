// SPDX-License-Identifier: Apache-2.0
// FoldLeaves: sums along a fixed binary tree over leaves, as LeafTree does on host memory
// (kernels/host/leaf_tree.h), of any type and operation.
//
// A thread sums whole elements: it reads the sources in the order of their leaves and keeps, for
// each level of the tree, a left half whose right half is still to come (kernels/leaf_fold.h). A
// right half without its left one among the sources is a sum of its own.
// Guarantees: the bits of LeafTree, for every cut of the leaves; a target may be a source at the
// same elements. No waits. Cost: every source is read once, one element a thread at a time; the
// halves are in shared memory (a stack frame would be in the device's), about two accesses a
// source.
#pragma once

#include "kernels/cuda/by_operation.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_element.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/fold_args.h"
#include "kernels/cuda/tree.h"
#include "kernels/leaf_fold.h"

namespace rondo::cuda {

// How sums of a type are kept, while they are made and in memory.
template <DataType type, bool once>
struct FoldElement {
  using E = DeviceElement<type>;
  using Storage = typename E::Storage;
  static constexpr bool kWidens = once && is_float(type) && type != DataType::kFloat64;
  static constexpr bool kRounds = !kWidens && is_float(type) && sizeof(Storage) < sizeof(float);
  using Acc = std::conditional_t<kWidens && type == DataType::kFloat32, double, typename E::Acc>;
  using Partial = std::conditional_t<kWidens, Acc, Storage>;

  static RONDO_FN Acc of_leaf(Storage value) { return static_cast<Acc>(E::to_acc(value)); }
  static RONDO_FN Acc of_partial(Partial value) {
    if constexpr (kWidens)
      return value;
    else
      return E::to_acc(value);
  }
  static RONDO_FN Partial to_partial(Acc value) {
    if constexpr (kWidens)
      return value;
    else
      return E::from_acc(value);
  }
  static RONDO_FN Storage to_result(Acc value) {
    return E::from_acc(static_cast<typename E::Acc>(value));
  }
  // The value of a node.
  template <RedOp op>
  static RONDO_FN Acc combine(Acc left, Acc right) {
    const Acc both = Reduction<op>::combine(left, right);
    if constexpr (kRounds)
      return E::to_acc(E::from_acc(both));
    else
      return both;
  }
};

template <DataType type, RedOp op, bool once>
struct FoldElements {
  using F = FoldElement<type, once>;
  using T = typename F::Storage;
  using Acc = typename F::Acc;
  using P = typename F::Partial;
  static constexpr int kLevels = CallRecord::kMaxLeavesLog2 + 1;

  const FoldArgs& args;
  std::uint64_t in, out, out_step;  // elements from the begin of sources and partials

  LeafFold order{};
  std::uint32_t written = 0;  // sums

  static RONDO_FN void run(const FoldArgs& args) {
    const std::uint64_t step = std::uint64_t{device::cta_count()} * device::thread_count();
    RONDO_NO_UNROLL
    for (std::uint64_t e =
             std::uint64_t{device::cta_index()} * device::thread_count() + device::thread_index();
         e < args.count; e += step) {
      const std::uint64_t b = e / args.slice, i = e % args.slice;
      const std::uint64_t rest = args.count - b * args.slice;
      const std::uint64_t length = rest < args.slice ? rest : args.slice;
      FoldElements sums{args, args.at + b * args.slice_step + i, b * args.slice * args.sums + i,
                        length};
      sums.fold(e);
    }
  }

 private:
  RONDO_FN void fold(std::uint64_t element) {
    RONDO_NO_UNROLL
    for (int h = 0; h < args.holders; ++h) {
      const LeafHolder& holder = args.holder[h];
      const std::uint32_t end = holder.first + holder.n;
      std::uint64_t source = 0;
      RONDO_NO_UNROLL
      for (std::uint32_t leaf = holder.first; leaf < end; ++source) {
        const int level = args.leaves ? 0 : subtree_level(leaf, end);
        order.add(*this, value_of(h, source), leaf, level);
        leaf += std::uint32_t{1} << level;
      }
    }
    Acc all{};
    RONDO_NO_UNROLL
    for (int level = kLevels - 1; level >= 0; --level) {
      if ((order.waiting >> level & 1) == 0) continue;
      all = half(level);
      if (args.partials != nullptr) write(all);
    }
    if (args.partials == nullptr) finish(all, element);
  }

  RONDO_FN Acc value_of(int h, std::uint64_t source) const {
    const LeafHolder& holder = args.holder[h];
    const std::uint64_t at = in + source * args.source_step;
    if (!args.leaves) return F::of_partial(device::load(static_cast<const P*>(holder.at) + at));
    T value = device::load(static_cast<const T*>(holder.at) + at);
    if constexpr (op == RedOp::kPreMulSum) {
      const T factor = (args.late_scalars[h / 64] >> (h % 64) & 1) != 0
                           ? device::load(reinterpret_cast<const T*>(holder.scalar))
                           : bits_to<T>(holder.scalar);
      value = scaled_on_device<type>(value, factor);
    }
    return F::of_leaf(value);
  }

  // What LeafFold combines.
  friend struct rondo::LeafFold;
  RONDO_FN void keep(int level, Acc value) const {
    device::store_shared(place_of(level), to_bits(value));
  }
  RONDO_FN Acc combine(std::uint32_t /*leaf*/, int level, Acc right) const {
    return F::template combine<op>(half(level), right);
  }

  static RONDO_FN std::uint32_t place_of(int level) {
    return (static_cast<std::uint32_t>(level) * kFoldThreads + device::thread_index()) *
           kFoldHalfBytes;
  }
  static RONDO_FN Acc half(int level) {
    return bits_to<Acc>(device::load_shared<std::uint64_t>(place_of(level)));
  }

  RONDO_FN void write(Acc sum) {
    device::store(static_cast<P*>(args.partials) + out + written++ * out_step, F::to_partial(sum));
  }

  RONDO_FN void finish(Acc sum, std::uint64_t element) const {
    const T result = F::to_result(finish_reduction<op>(sum, args.divisor));
    RONDO_NO_UNROLL
    for (int t = 0; t < args.targets; ++t)
      device::store(static_cast<T*>(args.target[t]) + element, result);
  }
};

struct FoldLeaves {
  using Args = FoldArgs;
  static constexpr int kThreads = kFoldThreads;
  static constexpr int kCtas = 2;

  static RONDO_FN void run(const Args& args) {
    switch (args.type) {
      case DataType::kInt8:
      case DataType::kUint8:
        return of_type<DataType::kUint8>(args);
      case DataType::kInt16:
      case DataType::kUint16:
        return of_type<DataType::kUint16>(args);
      case DataType::kInt32:
      case DataType::kUint32:
        return of_type<DataType::kUint32>(args);
      case DataType::kInt64:
      case DataType::kUint64:
        return of_type<DataType::kUint64>(args);
      case DataType::kFloat16:
        return of_type<DataType::kFloat16>(args);
      case DataType::kBfloat16:
        return of_type<DataType::kBfloat16>(args);
      case DataType::kFloat32:
        return of_type<DataType::kFloat32>(args);
      case DataType::kFloat64:
        return of_type<DataType::kFloat64>(args);
      case DataType::kFloat8e4m3:
        return of_type<DataType::kFloat8e4m3>(args);
      case DataType::kFloat8e5m2:
        return of_type<DataType::kFloat8e5m2>(args);
    }
  }

 private:
  template <DataType type>
  static RONDO_FN void of_type(const Args& args) {
    by_operation<type>(args.op, as_signed(args.type) == args.type, [&]<DataType t, RedOp op>() {
      if constexpr (is_float(t) && t != DataType::kFloat64) {
        if (args.once) return FoldElements<t, op, true>::run(args);
      }
      FoldElements<t, op, false>::run(args);
    });
  }
};

}  // namespace rondo::cuda
