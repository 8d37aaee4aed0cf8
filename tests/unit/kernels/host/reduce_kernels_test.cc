// SPDX-License-Identifier: Apache-2.0
// The host executor against the reduction table: every (operation, type), instruction set and
// number of sources, with odd counts, unaligned buffers and shared buffers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/host/simd/reduce_kernels.h"
#include "kernels/host/simd/reduce_portable.h"
#include "kernels/host/simd/simd_target.h"
#include "kernels/reduce.h"

namespace rondo::host {
namespace {

using Buffer = std::vector<std::uint8_t>;
constexpr std::uint8_t kGuard = 0xa5;
constexpr std::size_t kMargin = 160;  // guard bytes before and after every buffer

bool is_nan(DataType type, const std::uint8_t* element) {
  return portable::with_type(type, [&]<DataType t>() {
    return Element<t>::is_nan(portable::load<typename Element<t>::Storage>(element, 0));
  });
}

// A mixture of random bits (which covers NaN, infinity and subnormals), small numbers (ties,
// cancellation) and special values.
void fill(DataType type, std::uint8_t* out, std::size_t count, std::mt19937_64& random) {
  portable::with_type(type, [&]<DataType t>() {
    using E = Element<t>;
    using T = typename E::Storage;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = random();
      T value{};
      std::memcpy(&value, &bits, sizeof(T));
      const auto kind = random() % 8;
      if (kind < 5) value = E::from_acc(static_cast<typename E::Acc>(static_cast<int>(bits % 61)));
      if (kind < 2) value = E::from_acc(static_cast<typename E::Acc>(-1) * E::to_acc(value));
      if (kind == 5) value = T{};
      portable::store(out, i, value);
    }
  });
}

// The table's result, by its plain recursive definition.
template <RedOp op, class Acc>
Acc by_definition(const std::vector<Acc>& values, std::size_t first, std::size_t n) {
  if (n == 1) return values[first];
  std::size_t left = 1;
  while (2 * left < n) left *= 2;
  return Reduction<op>::combine(by_definition<op>(values, first, left),
                                by_definition<op>(values, first + left, n - left));
}

template <DataType type, RedOp op>
Buffer expected_row(const std::vector<const std::uint8_t*>& sources, std::size_t count, int ranks,
                    bool finish) {
  using E = Element<type>;
  using T = typename E::Storage;
  Buffer out(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<typename E::Acc> values;
    for (const auto* source : sources) values.push_back(E::to_acc(portable::load<T>(source, i)));
    auto result = by_definition<op>(values, 0, values.size());
    if (finish) result = Reduction<op>::finish(result, ranks);
    portable::store(out.data(), i, E::from_acc(result));
  }
  return out;
}

Buffer expected(DataType type, RedOp op, const std::vector<const std::uint8_t*>& sources,
                std::size_t count, int ranks, bool finish) {
  return portable::with_type(type, [&]<DataType t>() -> Buffer {
    Buffer row;
    for_each_op([&]<RedOp each>() {
      if constexpr (supported(t, each))
        if (op == each) row = expected_row<t, each>(sources, count, ranks, finish);
    });
    return row;
  });
}

// Index of the first element that differs (NaN equals NaN), or count.
std::size_t first_difference(DataType type, const std::uint8_t* a, const std::uint8_t* b,
                             std::size_t count) {
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i * size, b + i * size, size) == 0) continue;
    if (is_nan(type, a + i * size) && is_nan(type, b + i * size)) continue;
    return i;
  }
  return count;
}

std::string hex(const std::uint8_t* bytes, std::size_t size) {
  std::string text;
  char digits[4];
  for (std::size_t i = size; i-- > 0;) {
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

struct Case {
  DataType type;
  RedOp op;
  int source_count;
  std::size_t count;
  int target_count;
  int in_place;  // index of the source that is also the first target, or -1
  bool stream;
  bool finish;
  std::uint64_t seed;
};

std::string to_string(const Case& c) {
  return std::string(name(c.type)) + " " + name(c.op) + ", " + std::to_string(c.source_count) +
         " sources of " + std::to_string(c.count) + ", " + std::to_string(c.target_count) +
         " targets, in place " + std::to_string(c.in_place) + (c.stream ? ", stream" : "") +
         (c.finish ? ", finish" : "") + ", seed " + std::to_string(c.seed) + ", " + simd_target();
}

// Runs one case at random addresses (also not aligned to elements) between guard bytes.
void check(const Case& c) {
  std::mt19937_64 random(c.seed);
  const std::size_t bytes = c.count * size_of(c.type);
  const int ranks = c.source_count + static_cast<int>(random() % 3);
  std::vector<Buffer> storage;
  const auto buffer = [&]() -> std::uint8_t* {
    storage.emplace_back(bytes + 2 * kMargin, kGuard);
    const std::size_t shift = random() % 2 ? random() % 64 : random() % 8 * size_of(c.type);
    return storage.back().data() + kMargin / 2 + shift % 80;
  };
  std::vector<const std::uint8_t*> sources;
  std::vector<void*> targets;
  for (int s = 0; s < c.source_count; ++s) {
    std::uint8_t* at = buffer();
    fill(c.type, at, c.count, random);
    sources.push_back(at);
    if (s == c.in_place) targets.push_back(at);
  }
  while (static_cast<int>(targets.size()) < c.target_count) targets.push_back(buffer());
  const Buffer wanted = expected(c.type, c.op, sources, c.count, ranks, c.finish);
  const std::vector<Buffer> before = storage;

  std::vector<const void*> in(sources.begin(), sources.end());
  reduce_function(c.type, c.op)({in.data(), c.source_count, targets.data(), c.target_count, c.count,
                                 ranks, c.finish, c.stream});

  const std::size_t size = size_of(c.type);
  for (int t = 0; t < c.target_count; ++t) {
    const auto* got = static_cast<const std::uint8_t*>(targets[t]);
    const std::size_t i = first_difference(c.type, got, wanted.data(), c.count);
    if (i == c.count) continue;
    std::string operands;
    for (std::size_t s = 0; s < sources.size() && static_cast<int>(s) != c.in_place; ++s)
      operands += " " + hex(sources[s] + i * size, size);
    ADD_FAILURE() << to_string(c) << ": target " << t << " element " << i << " is "
                  << hex(got + i * size, size) << ", the table says "
                  << hex(wanted.data() + i * size, size) << "; sources" << operands;
    return;
  }
  for (std::size_t b = 0; b < storage.size(); ++b) {
    for (std::size_t i = 0; i < storage[b].size(); ++i) {
      const std::uint8_t* at = storage[b].data() + i;
      bool written = false;
      for (const void* t : targets) {
        const auto* begin = static_cast<const std::uint8_t*>(t);
        written = written || (at >= begin && at < begin + bytes);
      }
      if (!written) {
        ASSERT_EQ(*at, before[b][i]) << to_string(c) << ": buffer " << b << " byte " << i
                                     << " was written, but it is no target's";
      }
    }
  }
}

class ReduceKernels : public testing::TestWithParam<SimdTarget> {
 protected:
  void SetUp() override {
    if (GetParam() > best_simd_target()) GTEST_SKIP() << "this CPU lacks " << name(GetParam());
    use_simd_target_for_test(GetParam());
  }
  void TearDown() override { use_simd_target_for_test(best_simd_target()); }
};

template <class Visit>
void for_every_pair(Visit visit) {
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kRedOps; ++op) {
      const auto t = static_cast<DataType>(type);
      const auto o = static_cast<RedOp>(op);
      if (supported(t, o)) visit(t, o);
    }
  }
}

TEST_P(ReduceKernels, EqualTheTableForEveryOperationTypeAndShape) {
  std::uint64_t seed = 1;
  for_every_pair([&](DataType type, RedOp op) {
    for (const int n : {1, 2, 3, 4, 5, 7, 8, 16, 21}) {
      for (const std::size_t count : {0, 1, 3, 63, 64, 67, 257, 389}) {
        ++seed;
        check({type, op, n, count, 1, -1, false, true, seed});
        check({type, op, n, count, 2, static_cast<int>(seed % n), seed % 3 == 0, true, seed});
      }
    }
  });
}

// Two sources that hold every pair of values (8 bits), or every value with a few others (16 bits).
TEST_P(ReduceKernels, EqualTheTableForEveryValueOfANarrowType) {
  for_every_pair([&](DataType type, RedOp op) {
    if (size_of(type) > 2) return;
    const std::size_t count = 1 << 16;
    const std::size_t size = size_of(type);
    Buffer left(count * size), right(count * size), out(count * size);
    constexpr std::uint16_t kOthers[] = {0x0001, 0x3f80, 0x3aab, 0x7bff, 0x7f80, 0xbc01};
    for (const std::uint16_t other : kOthers) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = static_cast<std::uint16_t>(i);
        if (size == 1) {
          left[i] = static_cast<std::uint8_t>(value);
          right[i] = static_cast<std::uint8_t>(value >> 8);
        } else {
          std::memcpy(&left[i * 2], &value, 2);
          std::memcpy(&right[i * 2], &other, 2);
        }
      }
      const Buffer wanted = expected(type, op, {left.data(), right.data()}, count, 3, true);
      const void* in[] = {left.data(), right.data()};
      void* target = out.data();
      reduce_function(type, op)({in, 2, &target, 1, count, 3, true, false});
      const std::size_t i = first_difference(type, out.data(), wanted.data(), count);
      ASSERT_EQ(i, count) << name(type) << " " << name(op) << " of " << hex(&left[i * size], size)
                          << " and " << hex(&right[i * size], size) << " is "
                          << hex(&out[i * size], size) << ", the table says "
                          << hex(&wanted[i * size], size) << ", " << simd_target();
      if (size == 1) break;
    }
  });
}

TEST_P(ReduceKernels, LeavePartialSumsUndivided) {
  for_every_pair([&](DataType type, RedOp op) {
    check({type, op, 2, 200, 1, 0, false, false, 77});
    check({type, op, 5, 200, 1, -1, false, false, 78});
  });
}

TEST_P(ReduceKernels, StreamToAnyNumberOfTargets) {
  for_every_pair([&](DataType type, RedOp op) {
    for (const int targets : {1, 2, 3, 9}) {
      for (const std::size_t count : {1, 100, 1003}) {
        check({type, op, 3, count, targets, targets % 3, true, true, 500 + count});
      }
    }
  });
}

TEST_P(ReduceKernels, TakeMoreSourcesThanAnyMachineHasRanks) {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat8e4m3,
                              DataType::kUint8, DataType::kFloat64}) {
    for (const int n : {63, 64, 65, 100, 257, 1023}) {
      check({type, RedOp::kSum, n, 71, 1, -1, false, true, static_cast<std::uint64_t>(n)});
      check({type, RedOp::kAvg, n, 5, 1, 0, false, true, static_cast<std::uint64_t>(n)});
    }
  }
}

TEST_P(ReduceKernels, ScaleRoundsOnceToTheElementType) {
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    for (const std::size_t count : {0, 1, 5, 64, 131, 1000}) {
      const std::uint64_t seed = 31 * t + count;
      std::mt19937_64 random(seed);
      const std::size_t bytes = count * size_of(type);
      Buffer in(bytes + 16), out(bytes + 16, kGuard), wanted(bytes + 16, kGuard), scalar(8);
      fill(type, in.data() + 1, count, random);
      fill(type, scalar.data(), 1, random);
      portable::with_type(type, [&]<DataType k>() {
        using T = typename Element<k>::Storage;
        const T factor = portable::load<T>(scalar.data(), 0);
        for (std::size_t i = 0; i < count; ++i)
          portable::store(wanted.data() + 3, i,
                          scaled<k>(portable::load<T>(in.data() + 1, i), factor));
      });
      scale(out.data() + 3, in.data() + 1, count, type, scalar.data());
      EXPECT_EQ(first_difference(type, out.data() + 3, wanted.data() + 3, count), count)
          << name(type) << " count " << count << " seed " << seed << " " << simd_target();
      EXPECT_EQ(out[2], kGuard);
      EXPECT_EQ(out[bytes + 3], kGuard);
      scale(in.data() + 1, in.data() + 1, count, type, scalar.data());
      EXPECT_EQ(first_difference(type, in.data() + 1, wanted.data() + 3, count), count)
          << "in place, " << name(type) << " count " << count << " seed " << seed;
    }
  }
}

// Wide values are sums of elements, as in an ordered reduction: their NaN have the same few bits.
TEST_P(ReduceKernels, WidenExactlyAndNarrowToNearestEven) {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3,
                              DataType::kFloat8e5m2, DataType::kFloat32})
    portable::with_type(type, [&]<DataType t>() {
      using T = typename Element<t>::Storage;
      using Wide = std::conditional_t<t == DataType::kFloat32, double, float>;
      const auto wide_of = [](T value) {
        if constexpr (t == DataType::kFloat32)
          return static_cast<double>(value);
        else
          return Element<t>::to_acc(value);
      };
      const auto narrow_of = [](Wide value) {
        if constexpr (t == DataType::kFloat32)
          return static_cast<float>(value);
        else
          return Element<t>::from_acc(value);
      };
      for (const std::size_t count : {0, 1, 7, 64, 131, 70'001}) {
        std::mt19937_64 random(count);
        Buffer in(count * sizeof(T) + 16), wide(count * sizeof(Wide) + 16, kGuard), sums = wide;
        Buffer out(count * sizeof(T) + 16, kGuard), wanted = out;
        fill(type, in.data() + 1, count, random);
        widen(wide.data() + 3, in.data() + 1, count, type);
        EXPECT_EQ(wide[2], kGuard);
        EXPECT_EQ(wide[count * sizeof(Wide) + 3], kGuard);
        for (std::size_t i = 0; i < count; ++i) {
          const Wide value = portable::load<Wide>(wide.data() + 3, i);
          const Wide expected = wide_of(portable::load<T>(in.data() + 1, i));
          ASSERT_TRUE(value == expected ? std::signbit(value) == std::signbit(expected)
                                        : value != value && expected != expected)
              << name(type) << " element " << i << ": " << value << ", not " << expected;
          const Wide sum = value + portable::load<Wide>(wide.data() + 3, (i * 7) % count) / 3;
          portable::store(sums.data() + 5, i, sum);
          portable::store(wanted.data() + 1, i, narrow_of(sum));
        }
        narrow(out.data() + 1, sums.data() + 5, count, type);
        EXPECT_EQ(first_difference(type, out.data() + 1, wanted.data() + 1, count), count)
            << name(type) << " count " << count << " " << simd_target();
        EXPECT_EQ(out[0], kGuard);
        EXPECT_EQ(out[count * sizeof(T) + 1], kGuard);
      }
    });
}

TEST_P(ReduceKernels, CopyEveryByteAndNoOther) {
  std::mt19937_64 random(7);
  for (const bool stream : {false, true}) {
    for (const std::size_t bytes : {0, 1, 63, 64, 65, 129, 1000, 4099}) {
      for (const std::size_t shift : {0, 1, 8, 33}) {
        Buffer from(bytes + 200), to(bytes + 200, kGuard);
        for (auto& byte : from) byte = static_cast<std::uint8_t>(random());
        copy_bytes(to.data() + shift, from.data() + 5, bytes, stream);
        EXPECT_TRUE(std::equal(from.data() + 5, from.data() + 5 + bytes, to.data() + shift))
            << bytes << " bytes, shift " << shift << ", stream " << stream;
        for (std::size_t i = 0; i < to.size(); ++i) {
          if (i < shift || i >= shift + bytes) {
            ASSERT_EQ(to[i], kGuard) << i;
          }
        }
      }
    }
  }
}

TEST_P(ReduceKernels, NameTheInstructionSetInUse) { EXPECT_STREQ(simd_target(), name(GetParam())); }

TEST_P(ReduceKernels, RefuseWhatTheTableDoesNotHave) {
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kRedOps; ++op) {
      const auto t = static_cast<DataType>(type);
      const auto o = static_cast<RedOp>(op);
      EXPECT_EQ(reduce_function(t, o) != nullptr, supported(t, o)) << name(t) << " " << name(o);
    }
  }
  EXPECT_EQ(reduce_function(static_cast<DataType>(kDataTypes), RedOp::kSum), nullptr);
  EXPECT_EQ(reduce_function(DataType::kInt8, static_cast<RedOp>(kRedOps)), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Simd, ReduceKernels, testing::ValuesIn(kSimdTargets),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace rondo::host
