// SPDX-License-Identifier: Apache-2.0
// The table's operations on vectors of accumulators, and the step after the last combination.
// Compiled once per instruction set; kernels/reduce.h specifies the results.
#if defined(RONDO_KERNELS_HOST_SIMD_OPERATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_HOST_SIMD_OPERATIONS_INL_H_
#undef RONDO_KERNELS_HOST_SIMD_OPERATIONS_INL_H_
#else
#define RONDO_KERNELS_HOST_SIMD_OPERATIONS_INL_H_
#endif

#include "kernels/host/simd/lanes-inl.h"

#if HWY_TARGET != HWY_SCALAR  // HWY_SCALAR uses the table's scalar code
HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {

struct Sum {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    return hn::Add(left, right);
  }
};

struct Prod {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    const hn::DFromV<V> tag;
    if constexpr (sizeof(hn::TFromD<decltype(tag)>) > 1) {
      return hn::Mul(left, right);
    } else {  // no byte multiply exists: even and odd bytes in 16-bit lanes
      const Tag<std::uint16_t> pairs;
      const auto l = hn::BitCast(pairs, left);
      const auto r = hn::BitCast(pairs, right);
      const auto even = hn::And(hn::Mul(l, r), hn::Set(pairs, 0xff));
      const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(l), hn::ShiftRight<8>(r)));
      return hn::BitCast(tag, hn::Or(even, odd));
    }
  }
};

// Processors' min and max instructions differ for NaN and -0, so floats use comparisons only.
struct Max {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::IfThenElse(hn::Or(hn::Lt(left, right), hn::IsNaN(right)), right, left);
    } else {
      return hn::Max(left, right);
    }
  }
};

struct Min {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::IfThenElse(hn::Or(hn::Lt(right, left), hn::IsNaN(right)), right, left);
    } else {
      return hn::Min(left, right);
    }
  }
};

struct BitAnd {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    return hn::And(left, right);
  }
};
struct BitOr {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    return hn::Or(left, right);
  }
};
struct BitXor {
  template <class V>
  static HWY_INLINE V combine(V left, V right) {
    return hn::Xor(left, right);
  }
};

// For operations with no step after the last combination.
struct Nothing {
  template <class V>
  HWY_INLINE V apply(V result) const {
    return result;
  }
};

// Float averages, and scale() for PreMulSum.
template <class T>
struct Times {
  T factor;
  template <class V>
  HWY_INLINE V apply(V result) const {
    return hn::Mul(result, hn::Set(hn::DFromV<V>(), factor));
  }
};

// Integer averages.
template <class T>
struct DividedBy {
  int n;
  template <class V>
  HWY_INLINE V apply(V result) const {
    const Tag<T> tag;
    alignas(kVectorBytes) T lanes[HWY_LANES(T)];
    hn::Store(result, tag, lanes);
    for (T& lane : lanes) lane = Reduction<RedOp::kAvg>::finish(lane, n);
    return hn::Load(tag, lanes);
  }
};

template <class Op, class V>
HWY_INLINE One<V> combine(One<V> l, One<V> r) {
  return {Op::combine(l.a, r.a)};
}
template <class Op, class V>
HWY_INLINE Two<V> combine(Two<V> l, Two<V> r) {
  return {Op::combine(l.a, r.a), Op::combine(l.b, r.b)};
}
template <class Op, class V>
HWY_INLINE Four<V> combine(Four<V> l, Four<V> r) {
  return {Op::combine(l.a, r.a), Op::combine(l.b, r.b), Op::combine(l.c, r.c),
          Op::combine(l.d, r.d)};
}

template <class Finish, class V>
HWY_INLINE One<V> finish(const Finish& f, One<V> x) {
  return {f.apply(x.a)};
}
template <class Finish, class V>
HWY_INLINE Two<V> finish(const Finish& f, Two<V> x) {
  return {f.apply(x.a), f.apply(x.b)};
}
template <class Finish, class V>
HWY_INLINE Four<V> finish(const Finish& f, Four<V> x) {
  return {f.apply(x.a), f.apply(x.b), f.apply(x.c), f.apply(x.d)};
}

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
