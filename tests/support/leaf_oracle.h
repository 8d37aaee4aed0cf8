// SPDX-License-Identifier: Apache-2.0
// What an ordered reduction gives, by recursion over its tree, one element at a time; written apart
// from kernels/host/leaf_tree.h.
//
//   const std::vector<std::byte> wanted = leaf_oracle(leaves, DataType::kBfloat16, RedOp::kSum,
//                                                     Rounding::kOnce);
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "kernels/host/simd/reduce_portable.h"

namespace rondo::test {

template <class W>
W apply(RedOp op, W a, W b) {
  using U = std::conditional_t<std::is_integral_v<W>, std::uint64_t, W>;
  const auto wrapped = [](U value) { return static_cast<W>(value); };
  switch (op) {
    case RedOp::kProd:
      return wrapped(static_cast<U>(a) * static_cast<U>(b));
    case RedOp::kMax:
      return b != b || b > a ? b : a;
    case RedOp::kMin:
      return b != b || b < a ? b : a;
    default:
      break;
  }
  if constexpr (std::is_integral_v<W>) {
    if (op == RedOp::kBitAnd) return static_cast<W>(a & b);
    if (op == RedOp::kBitOr) return static_cast<W>(a | b);
    if (op == RedOp::kBitXor) return static_cast<W>(a ^ b);
  }
  return wrapped(static_cast<U>(a) + static_cast<U>(b));
}

// W: what sums are made in; to and from: the stored type.
template <class W, class S>
struct Oracle {
  RedOp op;
  bool once;
  std::function<W(S)> widen;
  std::function<S(W)> round;

  W node(const std::vector<S>& leaves, std::size_t first, std::size_t n) const {
    if (n == 1) return widen(leaves[first]);
    const W sum = apply<W>(op, node(leaves, first, n / 2), node(leaves, first + n / 2, n / 2));
    return once ? sum : widen(round(sum));
  }
  S result(const std::vector<S>& leaves) const {
    W sum = node(leaves, 0, leaves.size());
    if (op == RedOp::kAvg) {
      if constexpr (std::is_integral_v<W>) {
        sum = static_cast<W>(
            sum / static_cast<std::conditional_t<std::is_signed_v<W>, std::int64_t, std::uint64_t>>(
                      leaves.size()));
      } else {
        sum = sum * (W(1) / static_cast<W>(leaves.size()));
      }
    }
    return round(sum);
  }
};

template <class W, class S, class Widen, class Round>
std::vector<std::byte> oracle_of(const std::vector<std::vector<std::byte>>& leaves, RedOp op,
                                 bool once, Widen widen, Round round) {
  const std::size_t count = leaves[0].size() / sizeof(S);
  std::vector<std::byte> out(count * sizeof(S));
  const Oracle<W, S> oracle{op, once, widen, round};
  std::vector<S> column(leaves.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
      std::memcpy(&column[leaf], leaves[leaf].data() + i * sizeof(S), sizeof(S));
    const S value = oracle.result(column);
    std::memcpy(out.data() + i * sizeof(S), &value, sizeof(S));
  }
  return out;
}

// leaves: a power of two, each with the same number of elements.
inline std::vector<std::byte> leaf_oracle(const std::vector<std::vector<std::byte>>& leaves,
                                          DataType type, RedOp op, Rounding rounding) {
  const bool once = rounding == Rounding::kOnce;
  return host::portable::with_type(type, [&]<DataType t>() {
    using E = Element<t>;
    using S = typename E::Storage;
    using W = typename E::Acc;
    if constexpr (t == DataType::kFloat32) {
      if (once)
        return oracle_of<double, S>(
            leaves, op, true, [](S v) { return static_cast<double>(v); },
            [](double v) { return static_cast<S>(v); });
    }
    return oracle_of<W, S>(leaves, op, once, E::to_acc, E::from_acc);
  });
}

}  // namespace rondo::test
