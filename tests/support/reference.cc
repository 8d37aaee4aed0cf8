// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference.h"

#include <cstdint>
#include <cstring>

#include "kernels/reduce.h"

namespace rondo::test {
namespace {

// splitmix64: one well-mixed word for each (seed, rank, index).
std::uint64_t hash(std::uint64_t seed, std::uint64_t rank, std::uint64_t index) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ULL + rank * 0xbf58476d1ce4e5b9ULL + index + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

template <DataType type>
typename Element<type>::Storage value(std::uint64_t word) {
  using E = Element<type>;
  if constexpr (is_float(type)) {
    // Multiples of 1/8 in [-2, 2): products stay finite, sums need rounding in narrow types.
    const int eighths = static_cast<int>(word % 32) - 16;
    return E::from_acc(static_cast<typename E::Acc>(eighths) / 8);
  } else {
    return static_cast<typename E::Storage>(word);
  }
}

template <class Body>
auto with_type(DataType type, Body body) {
  switch (type) {
#define RONDO_CASE(t) \
  case DataType::t:   \
    return body(std::integral_constant<DataType, DataType::t>{})
    RONDO_CASE(kInt8);
    RONDO_CASE(kUint8);
    RONDO_CASE(kInt16);
    RONDO_CASE(kUint16);
    RONDO_CASE(kInt32);
    RONDO_CASE(kUint32);
    RONDO_CASE(kInt64);
    RONDO_CASE(kUint64);
    RONDO_CASE(kFloat16);
    RONDO_CASE(kBfloat16);
    RONDO_CASE(kFloat64);
    RONDO_CASE(kFloat8e4m3);
    RONDO_CASE(kFloat8e5m2);
    default:
      RONDO_CASE(kFloat32);
#undef RONDO_CASE
  }
}

template <DataType type>
auto read(const Bytes& from, std::size_t index) {
  typename Element<type>::Storage element;
  std::memcpy(&element, from.data() + index * sizeof(element), sizeof(element));
  return element;
}

// Elements `begin` to `begin + count` of the reduction of all ranks' inputs.
Bytes reduced(const Case& c, std::size_t begin, std::size_t count) {
  std::vector<Bytes> inputs, scalars;
  for (int r = 0; r < c.ranks; ++r) {
    inputs.push_back(make_input(c, r));
    scalars.push_back(make_scalar(c, r));
  }
  Bytes out(count * size_of(c.type));
  with_type(c.type, [&](auto type) {
    for_each_op([&]<RedOp op>() {
      if constexpr (supported(type.value, op)) {
        for (std::size_t i = 0; op == c.op && i < count; ++i) {
          const auto result = reduce_sources<type.value, op>(c.ranks, c.ranks, [&](int r) {
            const auto element = read<type.value>(inputs[r], begin + i);
            return op == RedOp::kPreMulSum
                       ? scaled<type.value>(element, read<type.value>(scalars[r], 0))
                       : element;
          });
          std::memcpy(out.data() + i * sizeof(result), &result, sizeof(result));
        }
      }
    });
  });
  return out;
}

Bytes slice(const Bytes& from, std::size_t begin, std::size_t bytes) {
  return Bytes(from.begin() + begin, from.begin() + begin + bytes);
}

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

std::size_t input_elements(const Case& c) {
  switch (c.collective) {
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kScatter:
      return c.count * c.ranks;
    default:
      return c.count;
  }
}

std::size_t output_elements(const Case& c) {
  switch (c.collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
      return c.count * c.ranks;
    default:
      return c.count;
  }
}

Bytes make_input(const Case& c, int rank) {
  Bytes bytes(input_elements(c) * size_of(c.type));
  with_type(c.type, [&](auto type) {
    for (std::size_t i = 0; i < input_elements(c); ++i) {
      const auto element = value<type.value>(hash(c.seed, rank, i));
      std::memcpy(bytes.data() + i * sizeof(element), &element, sizeof(element));
    }
  });
  return bytes;
}

Bytes make_scalar(const Case& c, int rank) {
  Bytes bytes(size_of(c.type));
  with_type(c.type, [&](auto type) {
    const auto element = value<type.value>(hash(c.seed + 7, rank, 0) | 8);
    std::memcpy(bytes.data(), &element, sizeof(element));
  });
  return bytes;
}

Bytes expected_output(const Case& c, int rank) {
  const std::size_t bytes = c.count * size_of(c.type);
  Bytes out;
  switch (c.collective) {
    case Collective::kAllReduce:
      return reduced(c, 0, c.count);
    case Collective::kReduce:
      return rank == c.root ? reduced(c, 0, c.count) : Bytes{};
    case Collective::kReduceScatter:
      return reduced(c, c.count * rank, c.count);
    case Collective::kBroadcast:
      return make_input(c, c.root);
    case Collective::kAllGather:
      for (int r = 0; r < c.ranks; ++r) append(out, make_input(c, r));
      return out;
    case Collective::kGather:
      for (int r = 0; r < c.ranks && rank == c.root; ++r) append(out, make_input(c, r));
      return out;
    case Collective::kScatter:
      return slice(make_input(c, c.root), rank * bytes, bytes);
    case Collective::kAllToAll:
      for (int r = 0; r < c.ranks; ++r) append(out, slice(make_input(c, r), rank * bytes, bytes));
      return out;
    default:
      return out;
  }
}

std::ptrdiff_t first_difference(DataType type, const std::byte* got, const std::byte* want,
                                std::size_t elements) {
  const std::size_t width = size_of(type);
  if (elements == 0 || std::memcmp(got, want, elements * width) == 0) return -1;
  return with_type(type, [&](auto t) -> std::ptrdiff_t {
    using E = Element<t.value>;
    for (std::size_t i = 0; i < elements; ++i) {
      typename E::Storage a, b;
      std::memcpy(&a, got + i * width, width);
      std::memcpy(&b, want + i * width, width);
      if (std::memcmp(&a, &b, width) == 0 || (E::is_nan(a) && E::is_nan(b))) continue;
      return static_cast<std::ptrdiff_t>(i);
    }
    return -1;
  });
}

}  // namespace rondo::test
