// SPDX-License-Identifier: Apache-2.0
// Random programs of ordered reductions (rondo.h), for ranks on host memory and on GPUs: each rank
// makes the leaves of all ranks, its own run of them and the oracle's result from one seed.
//
//   const OrderedProgram what = random_ordered(ranks, random);
//   EXPECT_EQ(run_ordered(what, comm, rank, ranks, seed, in_host_memory), "") << what.text();
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "api/rondo.h"
#include "kernels/host/simd/reduce_portable.h"
#include "tests/support/leaf_oracle.h"

namespace rondo::test {

using Bytes = std::vector<std::byte>;

inline bool is_nan(DataType type, const std::byte* at) {
  return host::portable::with_type(type, [&]<DataType t>() {
    using E = Element<t>;
    if constexpr (!is_float(t)) return false;
    return E::is_nan(host::portable::load<typename E::Storage>(at, 0));
  });
}

inline std::string difference(DataType type, const Bytes& expected, const std::byte* got) {
  const std::size_t element = size_of(type);
  for (std::size_t at = 0; at < expected.size(); at += element) {
    if (std::memcmp(expected.data() + at, got + at, element) == 0) continue;
    if (is_nan(type, expected.data() + at) && is_nan(type, got + at)) continue;
    std::uint64_t want = 0, have = 0;
    std::memcpy(&want, expected.data() + at, element);
    std::memcpy(&have, got + at, element);
    return fmt::format("element {} is {:#x}, not {:#x}", at / element, have, want);
  }
  return {};
}

// The leaves of all ranks: any bits, or numbers whose sums round.
inline std::vector<Bytes> make_leaves(DataType type, int leaves, std::size_t count,
                                      std::mt19937_64& random) {
  std::vector<Bytes> all;
  const bool any_bits = random() % 3 == 0;
  for (int leaf = 0; leaf < leaves; ++leaf) {
    Bytes data(count * size_of(type));
    host::portable::with_type(type, [&]<DataType t>() {
      using E = Element<t>;
      using S = typename E::Storage;
      for (std::size_t i = 0; i < count; ++i) {
        S value{};
        const std::uint64_t bits = random();
        std::memcpy(&value, &bits, sizeof(value));
        if constexpr (is_float(t)) {
          if (!any_bits)
            value = E::from_acc(static_cast<typename E::Acc>(
                std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63,
                           static_cast<int>(bits % 7) - 3)));
        }
        host::portable::store(data.data(), i, value);
      }
    });
    all.push_back(std::move(data));
  }
  return all;
}

struct Held {
  int first, n;
};

// Each rank's leaves: equal shares, random shares in order, or in another order of the ranks.
inline std::vector<Held> make_runs(int ranks, int leaves, std::mt19937_64& random) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  const auto kind = random() % 4;
  std::vector<int> cuts = {0, leaves};
  for (int r = 1; r < ranks; ++r)
    cuts.push_back(kind < 2 ? (leaves / ranks) * r + std::min(r, leaves % ranks)
                            : static_cast<int>(random() % static_cast<unsigned>(leaves + 1)));
  std::sort(cuts.begin(), cuts.end());
  if (kind == 3) std::shuffle(order.begin(), order.end(), random);
  std::vector<Held> runs(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < order.size(); ++i)
    runs[static_cast<std::size_t>(order[i])] = {cuts[i], cuts[i + 1] - cuts[i]};
  return runs;
}

enum class OrderedKind { kAllReduce, kReduce, kReduceScatter };

struct OrderedProgram {
  OrderedKind kind;
  DataType type;
  RedOp op;
  bool once;
  int leaves, root;
  std::size_t count;
  bool in_place;
  std::string text() const {
    return fmt::format("kind {}, {}, {}, once {}, {} leaves, count {}, in place {}",
                       static_cast<int>(kind), name(type), name(op), once, leaves, count, in_place);
  }
};

inline OrderedProgram random_ordered(int ranks, std::mt19937_64& random) {
  OrderedProgram made{};
  made.kind = static_cast<OrderedKind>(random() % 3);
  do {
    made.type = static_cast<DataType>(random() % kDataTypes);
    made.op = static_cast<RedOp>(random() % kRedOps);
  } while (!supported(made.type, made.op));
  made.once = random() % 2 == 0;
  made.leaves = 1 << random() % 7;
  made.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
  constexpr std::size_t kCounts[] = {1, 7, 64, 257, 1031, 4099};
  made.count = kCounts[random() % 6];
  made.in_place = random() % 2 == 0;
  return made;
}

inline ncclDataType_t nccl_type(DataType type) {
  return static_cast<ncclDataType_t>(type == DataType::kInt16    ? 64
                                     : type == DataType::kUint16 ? 65
                                                                 : static_cast<int>(type));
}

// PreMulSum: every rank's factor, of its own.
inline Bytes factor_of(DataType type, int rank) {
  Bytes factor(size_of(type));
  host::portable::with_type(type, [&]<DataType t>() {
    using E = Element<t>;
    host::portable::store(factor.data(), 0,
                          E::from_acc(static_cast<typename E::Acc>(2 + rank % 3)));
  });
  return factor;
}
inline void scale_leaf(DataType type, const Bytes& factor, Bytes* leaf) {
  host::portable::with_type(type, [&]<DataType t>() {
    using S = typename Element<t>::Storage;
    for (std::size_t i = 0; i < leaf->size() / sizeof(S); ++i)
      host::portable::store(leaf->data(), i,
                            static_cast<S>(scaled<t>(host::portable::load<S>(leaf->data(), i),
                                                     host::portable::load<S>(factor.data(), 0))));
  });
}

// Makes the call on copies of two buffers, `leaves` and a result, in the ranks' memory, and copies
// both back. call: with their addresses.
using OrderedCall = std::function<ncclResult_t(std::byte* leaves, std::byte* result)>;
using InMemory = std::function<ncclResult_t(Bytes& leaves, Bytes& result, const OrderedCall& call)>;
inline ncclResult_t in_host_memory(Bytes& leaves, Bytes& result, const OrderedCall& call) {
  return call(leaves.data(), result.data());
}

// One call of all ranks; what is wrong on this one.
inline std::string run_ordered(const OrderedProgram& what, ncclComm_t comm, int rank, int ranks,
                               std::uint64_t seed, const InMemory& memory,
                               cudaStream_t stream = nullptr) {
  std::mt19937_64 random(seed);
  const bool scatters = what.kind == OrderedKind::kReduceScatter;
  const std::size_t element = size_of(what.type);
  const std::size_t of_leaf = what.count * (scatters ? static_cast<std::size_t>(ranks) : 1);
  std::vector<Bytes> leaves = make_leaves(what.type, what.leaves, of_leaf, random);
  const std::vector<Held> runs = make_runs(ranks, what.leaves, random);
  const Held mine = runs[static_cast<std::size_t>(rank)];
  const std::size_t shift = element * (random() % 3);  // not aligned
  Bytes send(shift + static_cast<std::size_t>(mine.n) * of_leaf * element);
  for (int i = 0; i < mine.n; ++i)
    std::memcpy(send.data() + shift + static_cast<std::size_t>(i) * of_leaf * element,
                leaves[static_cast<std::size_t>(mine.first + i)].data(), of_leaf * element);
  constexpr std::byte kUntouched{0x5a};
  Bytes apart(what.count * element + 16, kUntouched);
  const bool in_place = what.in_place && mine.n > 0;
  const std::size_t part = scatters ? static_cast<std::size_t>(rank) * what.count * element : 0;
  const ncclDataType_t type = nccl_type(what.type);
  ncclRedOp_t op = what.op >= RedOp::kBitAnd
                       ? static_cast<ncclRedOp_t>(rondoBand + (static_cast<int>(what.op) - 5))
                       : static_cast<ncclRedOp_t>(what.op);
  const bool scales = what.op == RedOp::kPreMulSum;
  Bytes factor = factor_of(what.type, rank);
  if (scales && ncclRedOpCreatePreMulSum(&op, factor.data(), type, ncclScalarHostImmediate, comm) !=
                    ncclSuccess)
    return ncclGetLastError(comm);
  const auto rounding = what.once ? rondoRoundOnce : rondoRoundNode;
  const auto call = [&](std::byte* from, std::byte* to) -> ncclResult_t {
    from += shift;
    if (in_place) to = from + part;
    switch (what.kind) {
      case OrderedKind::kAllReduce:
        return rondoAllReduceOrdered(from, to, what.count, type, op, what.leaves, mine.first,
                                     mine.n, rounding, comm, stream);
      case OrderedKind::kReduce:
        return rondoReduceOrdered(from, to, what.count, type, op, what.root, what.leaves,
                                  mine.first, mine.n, rounding, comm, stream);
      default:
        return rondoReduceScatterOrdered(from, to, what.count, type, op, what.leaves, mine.first,
                                         mine.n, rounding, comm, stream);
    }
  };
  const ncclResult_t result = memory(send, apart, call);
  if (scales) ncclRedOpDestroy(op, comm);
  if (result != ncclSuccess) return ncclGetLastError(comm);
  if (std::any_of(apart.end() - 16, apart.end(), [&](std::byte b) { return b != kUntouched; }))
    return "wrote behind the result";
  if (what.kind == OrderedKind::kReduce && rank != what.root) return {};
  for (int r = 0; r < ranks && scales; ++r)
    for (int i = 0; i < runs[static_cast<std::size_t>(r)].n; ++i)
      scale_leaf(what.type, factor_of(what.type, r),
                 &leaves[static_cast<std::size_t>(runs[static_cast<std::size_t>(r)].first + i)]);
  Bytes expected = leaf_oracle(leaves, what.type, scales ? RedOp::kSum : what.op,
                               what.once ? Rounding::kOnce : Rounding::kNode);
  if (scatters)
    expected = Bytes(expected.begin() + static_cast<std::ptrdiff_t>(part),
                     expected.begin() + static_cast<std::ptrdiff_t>(part + what.count * element));
  return difference(what.type, expected, in_place ? send.data() + shift + part : apart.data());
}

}  // namespace rondo::test
