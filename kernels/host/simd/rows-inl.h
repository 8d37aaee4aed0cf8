// SPDX-License-Identifier: Apache-2.0
// The functions for one type of the table: row<type>(op), and float_scale<type>. Compiled once per
// instruction set; without SIMD they are the table's scalar code.
#if defined(RONDO_KERNELS_HOST_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_HOST_SIMD_ROWS_INL_H_
#undef RONDO_KERNELS_HOST_SIMD_ROWS_INL_H_
#else
#define RONDO_KERNELS_HOST_SIMD_ROWS_INL_H_
#endif

#include <type_traits>

#include "kernels/host/simd/reduce-inl.h"
#include "kernels/host/simd/reduce_portable.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

template <DataType type>
ReduceFn row(RedOp op) {
  return portable::function<type>(op);
}

template <DataType type>
void float_scale(void* out, const void* in, std::size_t count, const void* scalar) {
  portable::scale<type>(out, in, count, scalar);
}

#else

template <class Lanes>
void sum(const ReduceArgs& args) {
  reduce_sources<Lanes, Sum, true>(args, Nothing{});
}

template <class Lanes, class Op>
void plain(const ReduceArgs& args) {
  reduce_sources<Lanes, Op, false>(args, Nothing{});
}

template <class Op, std::size_t width>
void bitwise(const ReduceArgs& args) {
  ReduceArgs bytes = args;
  bytes.count *= width;
  plain<PlainLanes<std::uint8_t>, Op>(bytes);
}

template <class Lanes>
void float_average(const ReduceArgs& args) {
  using Acc = typename Lanes::Acc;
  if (!args.finish) return sum<Lanes>(args);
  reduce_sources<Lanes, Sum, true>(
      args, Times<Acc>{Reduction<RedOp::kAvg>::factor<Acc>(args.rank_count)});
}

template <class T>
void integer_average(const ReduceArgs& args) {
  if (!args.finish) return sum<PlainLanes<std::make_unsigned_t<T>>>(args);
  reduce<PlainLanes<T>, Sum, 0>(args, DividedBy<T>{args.rank_count});
}

template <class Lanes>
ReduceFn float_row(RedOp op) {
  switch (op) {
    case RedOp::kSum:
    case RedOp::kPreMulSum:
      return sum<Lanes>;
    case RedOp::kAvg:
      return float_average<Lanes>;
    case RedOp::kProd:
      return plain<Lanes, Prod>;
    case RedOp::kMax:
      return plain<Lanes, Max>;
    case RedOp::kMin:
      return plain<Lanes, Min>;
    default:
      return nullptr;
  }
}

// Sums and products are the same for signed and unsigned types, and bitwise operations for all
// widths: each is compiled once.
template <class T>
ReduceFn integer_row(RedOp op) {
  using Unsigned = PlainLanes<std::make_unsigned_t<T>>;
  switch (op) {
    case RedOp::kSum:
    case RedOp::kPreMulSum:
      return sum<Unsigned>;
    case RedOp::kProd:
      return plain<Unsigned, Prod>;
    case RedOp::kMax:
      return plain<PlainLanes<T>, Max>;
    case RedOp::kMin:
      return plain<PlainLanes<T>, Min>;
    case RedOp::kAvg:
      return integer_average<T>;
    case RedOp::kBitAnd:
      return bitwise<BitAnd, sizeof(T)>;
    case RedOp::kBitOr:
      return bitwise<BitOr, sizeof(T)>;
    case RedOp::kBitXor:
      return bitwise<BitXor, sizeof(T)>;
    default:
      return nullptr;
  }
}

// Operations without SIMD code use the table's scalar code.
template <DataType type>
ReduceFn row(RedOp op) {
  ReduceFn found = nullptr;
  if constexpr (is_float(type)) {
    found = float_row<LanesOf<type>>(op);
  } else {
    found = integer_row<typename Element<type>::Storage>(op);
  }
  return found != nullptr ? found : portable::function<type>(op);
}

template <DataType type>
void float_scale(void* out, const void* in, std::size_t count, const void* scalar) {
  using E = Element<type>;
  using Acc = typename E::Acc;
  const Acc factor = E::to_acc(portable::load<typename E::Storage>(scalar, 0));
  reduce<LanesOf<type>, Sum, 1>({&in, 1, &out, 1, count, 1, true, false}, Times<Acc>{factor});
}

#endif

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
