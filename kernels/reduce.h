// SPDX-License-Identifier: Apache-2.0
// The one reduction table (operation x element type) that every executor uses.
//
// Element<type> defines how a type is stored and in which type it is accumulated. Reduction<op> is
// two functions on accumulators: combine(left, right), where left is the operand of the lower rank,
// and finish(result, n), applied after the last combination of n sources. reduce_sources() joins
// them.
//
//   float sum = reduce_sources<DataType::kBfloat16, RedOp::kAvg>(n, n, [&](int s) { return in[s];
//   });
//
// Every executor must reproduce the following, bit for bit:
//   Order      sources 0..n-1 form the balanced binary tree over source numbers: split at the
//              largest power of two below n, lower ones left. 3: (0+1)+2. 5: ((0+1)+(2+3))+4.
//              7: ((0+1)+(2+3))+((4+5)+6).
//   Width      float16, bfloat16, float8e4m3 and float8e5m2 accumulate in float32; every other type
//              in itself.
//   Rounding   to nearest even in every combination; to the element type once, at the end. A single
//              source is copied. No contraction into fused multiply-add.
//   Overflow   integers wrap modulo 2^bits. Floats become infinite; the 8-bit floats saturate when
//              they are rounded (number.h).
//   NaN        any NaN operand makes sum, prod, avg, min and max NaN. Executors agree on "is NaN";
//              sign and payload are unspecified.
//   -0         min and max keep the left operand (the lower rank's) if both compare equal, so
//              max(-0, +0) is -0 and max(+0, -0) is +0. Sums and products follow IEEE 754.
//   Average    floats: the sum times 1/n, both in the accumulation type. Integers: the wrapped sum
//              divided by n, truncated toward zero.
//   Bitwise    band, bor and bxor exist for integers only.
//   PreMulSum  is Sum here: each rank multiplies its own input first (scaled()), rounded once to
//              the element type.
// The caller's floating-point environment is not changed: with flush-to-zero set, subnormal
// accumulators are flushed.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/fn.h"
#include "base/types.h"
#include "kernels/number.h"

namespace rondo {

constexpr bool supported(DataType type, RedOp op) {
  const bool known = static_cast<int>(type) < kDataTypes && static_cast<int>(op) < kRedOps;
  return known && !(is_float(type) && is_bitwise(op));
}

// Calls body.template operator()<op>() for every operation, to make one function or kernel for
// each.
template <class Body>
constexpr void for_each_op(Body&& body) {
  [&]<int... op>(std::integer_sequence<int, op...>) {
    (body.template operator()<static_cast<RedOp>(op)>(), ...);
  }
  (std::make_integer_sequence<int, kRedOps>());
}

// A type that is accumulated in itself.
template <class T>
struct PlainElement {
  using Storage = T;
  using Acc = T;
  static RONDO_FN constexpr Acc to_acc(Storage value) { return value; }
  static RONDO_FN constexpr Storage from_acc(Acc value) { return value; }
  static RONDO_FN constexpr bool is_nan(Storage value) { return value != value; }
};

// A narrow float, accumulated in float32.
template <class T, class Format>
struct NarrowElement {
  using Storage = T;
  using Acc = float;
  static RONDO_FN constexpr Acc to_acc(Storage bits) { return Format::widen(bits); }
  static RONDO_FN constexpr Storage from_acc(Acc value) {
    return static_cast<Storage>(Format::narrow(value));
  }
  static RONDO_FN constexpr bool is_nan(Storage bits) { return Format::is_nan(bits); }
};

template <DataType type>
struct Element;
// clang-format off
template <> struct Element<DataType::kInt8> : PlainElement<std::int8_t> {};
template <> struct Element<DataType::kUint8> : PlainElement<std::uint8_t> {};
template <> struct Element<DataType::kInt16> : PlainElement<std::int16_t> {};
template <> struct Element<DataType::kUint16> : PlainElement<std::uint16_t> {};
template <> struct Element<DataType::kInt32> : PlainElement<std::int32_t> {};
template <> struct Element<DataType::kUint32> : PlainElement<std::uint32_t> {};
template <> struct Element<DataType::kInt64> : PlainElement<std::int64_t> {};
template <> struct Element<DataType::kUint64> : PlainElement<std::uint64_t> {};
template <> struct Element<DataType::kFloat32> : PlainElement<float> {};
template <> struct Element<DataType::kFloat64> : PlainElement<double> {};
template <> struct Element<DataType::kFloat16> : NarrowElement<std::uint16_t, number::Float16> {};
template <> struct Element<DataType::kBfloat16> : NarrowElement<std::uint16_t, number::Bfloat16> {};
template <> struct Element<DataType::kFloat8e4m3>
    : NarrowElement<std::uint8_t, number::Float8e4m3> {};
template <> struct Element<DataType::kFloat8e5m2>
    : NarrowElement<std::uint8_t, number::Float8e5m2> {};
// clang-format on

// Operations that need nothing after the last combination.
struct NothingToFinish {
  template <class A>
  static RONDO_FN constexpr A finish(A result, int /*n*/) {
    return result;
  }
};

template <RedOp op>
struct Reduction;

template <>
struct Reduction<RedOp::kSum> : NothingToFinish {
  template <class A>
  static RONDO_FN constexpr A combine(A left, A right) {
    if constexpr (std::is_integral_v<A>) {  // in unsigned: signed overflow is undefined
      return static_cast<A>(static_cast<std::uint64_t>(left) + static_cast<std::uint64_t>(right));
    } else {
      return left + right;
    }
  }
};

template <>
struct Reduction<RedOp::kProd> : NothingToFinish {
  template <class A>
  static RONDO_FN constexpr A combine(A left, A right) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<std::uint64_t>(left) * static_cast<std::uint64_t>(right));
    } else {
      return left * right;
    }
  }
};

// A right NaN replaces any number, and no comparison replaces a left NaN.
template <>
struct Reduction<RedOp::kMax> : NothingToFinish {
  template <class A>
  static RONDO_FN constexpr A combine(A left, A right) {
    return left < right || right != right ? right : left;
  }
};

template <>
struct Reduction<RedOp::kMin> : NothingToFinish {
  template <class A>
  static RONDO_FN constexpr A combine(A left, A right) {
    return right < left || right != right ? right : left;
  }
};

template <>
struct Reduction<RedOp::kAvg> {
  template <class A>
  static RONDO_FN constexpr A combine(A left, A right) {
    return Reduction<RedOp::kSum>::combine(left, right);
  }
  template <class A>
  static RONDO_FN constexpr A finish(A sum, int n) {
    if constexpr (!std::is_integral_v<A>) {
      return sum * factor<A>(n);
    } else {  // in 64 bits: n may not fit the type
      using Wide = std::conditional_t<std::is_signed_v<A>, std::int64_t, std::uint64_t>;
      return static_cast<A>(static_cast<Wide>(sum) / static_cast<Wide>(n));
    }
  }
  template <class A>
  static RONDO_FN constexpr A factor(int n) {
    return A(1) / static_cast<A>(n);
  }
};

template <>
struct Reduction<RedOp::kBitAnd> : NothingToFinish {
  template <class A>
  static RONDO_FN constexpr A combine(A left, A right) {
    return static_cast<A>(left & right);
  }
};

template <>
struct Reduction<RedOp::kBitOr> : NothingToFinish {
  template <class A>
  static RONDO_FN constexpr A combine(A left, A right) {
    return static_cast<A>(left | right);
  }
};

template <>
struct Reduction<RedOp::kBitXor> : NothingToFinish {
  template <class A>
  static RONDO_FN constexpr A combine(A left, A right) {
    return static_cast<A>(left ^ right);
  }
};

template <>
struct Reduction<RedOp::kPreMulSum> : Reduction<RedOp::kSum> {};

// Combines sources 0..n-1 in the order above. source(s) returns source s's accumulator. Works as a
// binary counter: after s sources the stack holds one partial result for every set bit of s.
template <RedOp op, class Source>
RONDO_FN constexpr auto combine_tree(int n, Source&& source) {
  using Acc = decltype(source(0));
  Acc partial[32] = {};
  int depth = 0;
  for (int s = 0; s < n; ++s) {
    Acc value = source(s);
    for (int carry = s; carry & 1; carry >>= 1) {
      value = Reduction<op>::combine(partial[--depth], value);
    }
    partial[depth++] = value;
  }
  Acc result = partial[--depth];
  while (depth > 0) result = Reduction<op>::combine(partial[--depth], result);
  return result;
}

// One element of a complete reduction: n >= 1 sources, finished for `ranks` ranks. source(s)
// returns source s's stored element.
template <DataType type, RedOp op, class Source>
RONDO_FN constexpr auto reduce_sources(int n, int ranks, Source&& source) {
  using E = Element<type>;
  using Acc = typename E::Acc;
  const Acc result = combine_tree<op>(n, [&](int s) -> Acc { return E::to_acc(source(s)); });
  return E::from_acc(Reduction<op>::finish(result, ranks));
}

// PreMulSum: one rank's own element times its scalar.
template <DataType type>
RONDO_FN constexpr auto scaled(typename Element<type>::Storage value,
                               typename Element<type>::Storage scalar) {
  using E = Element<type>;
  return E::from_acc(Reduction<RedOp::kProd>::combine(E::to_acc(value), E::to_acc(scalar)));
}

}  // namespace rondo
