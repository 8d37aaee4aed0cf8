// SPDX-License-Identifier: Apache-2.0
// Calls of rondoAllToAllvDevice: a rank's buffers and counts in device memory, the data, and what
// must have come.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "api/rondo.h"
#include "tests/gpu/process_bodies.h"

namespace rondo::test {

using Numbers = std::vector<std::size_t>;
inline constexpr std::byte kUntouched{0xff};
inline constexpr std::size_t kNotReceived = 12'345'678;  // initial numbers of `received`

// Elements that `from` sends to `to`: none, the largest count, or any between.
inline std::size_t counted(int from, int to, unsigned round, std::size_t largest) {
  const auto mixed = static_cast<std::size_t>(from * 31 + to * 17) + round * 7;
  if (mixed % 4 == 0) return 0;
  return mixed % 5 == 0 ? largest : mixed * 7919 % (largest + 1);
}
inline std::uint32_t element(int from, int to, unsigned round, std::size_t i) {
  return static_cast<std::uint32_t>(i * 64 + static_cast<std::size_t>(from * 8 + to)) +
         (round << 26);
}

// Numbers in device memory.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(int n) : memory_(static_cast<std::size_t>(n) * sizeof(std::size_t), 0) {}
  void put(const Numbers& numbers, GpuStream stream) {
    Bytes bytes(numbers.size() * sizeof(std::size_t));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    memory_.put(bytes, 0, stream);
  }
  Numbers get(std::size_t n, GpuStream stream) {
    memory_.get(stream);
    Numbers numbers(n);
    std::memcpy(numbers.data(), memory_.host(), n * sizeof(std::size_t));
    return numbers;
  }
  std::size_t* at() { return reinterpret_cast<std::size_t*>(memory_.data()); }

 private:
  DeviceBuffer memory_;
};

// The buffers and counts of one rank.
class Exchanges {
 public:
  // packed: parts follow each other in both buffers, and the receiver gives its counts. Else they
  // have places of the largest size, and the receiver learns its counts.
  Exchanges(NcclRank& seat, std::size_t largest, bool packed, bool shareable = false)
      : seat_(seat),
        largest_(largest),
        packed_(packed),
        out_(elements() * 4, static_cast<std::size_t>(seat.rank % 3), shareable),
        in_(elements() * 4, static_cast<std::size_t>(seat.rank % 2 * 4), shareable),
        sent_(seat.size),
        sent_at_(seat.size),
        expected_(seat.size),
        expected_at_(seat.size),
        received_(seat.size) {}

  void fill(unsigned round) {
    Bytes content(elements() * 4);
    for (int to = 0; to < seat_.size; ++to)
      for (std::size_t i = 0; i < sends(to, round); ++i) {
        const std::uint32_t value = element(seat_.rank, to, round, i);
        std::memcpy(&content[(offset(true, to, round) + i) * 4], &value, 4);
      }
    out_.put(content, 0, seat_.stream);
    in_.put(Bytes(elements() * 4, kUntouched), 0, seat_.stream);
    Numbers sent, sent_at, expected, expected_at;
    for (int peer = 0; peer < seat_.size; ++peer) {
      sent.push_back(sends(peer, round));
      sent_at.push_back(offset(true, peer, round));
      expected.push_back(receives(peer, round));
      expected_at.push_back(offset(false, peer, round));
    }
    sent_.put(sent, seat_.stream);
    sent_at_.put(sent_at, seat_.stream);
    expected_.put(expected, seat_.stream);
    expected_at_.put(expected_at, seat_.stream);
    received_.put(Numbers(sent.size(), kNotReceived), seat_.stream);
  }
  ncclResult_t call() {
    return rondoAllToAllvDevice(
        out_.data(), sent_.at(), packed_ ? sent_at_.at() : nullptr, in_.data(),
        packed_ ? expected_.at() : nullptr, packed_ ? expected_at_.at() : nullptr,
        packed_ ? nullptr : received_.at(), largest_, ncclUint32, seat_.comm, seat_.stream);
  }
  void check(unsigned round) {
    in_.get(seat_.stream);
    EXPECT_TRUE(in_.guards_intact());
    std::size_t all = 0, correct = 0;
    for (int from = 0; from < seat_.size; ++from)
      for (std::size_t i = 0; i < receives(from, round); ++i) {
        std::uint32_t got = 0;
        std::memcpy(&got, in_.host() + (offset(false, from, round) + i) * 4, 4);
        ++all;
        correct += got == element(from, seat_.rank, round, i);
      }
    EXPECT_EQ(correct, all) << "rank " << seat_.rank << " round " << round;
    EXPECT_EQ(untouched(round), elements() * 4 - 4 * all) << "something else was written";
    if (packed_) return;
    const auto n = static_cast<std::size_t>(seat_.size);
    Numbers want;
    for (int from = 0; from < seat_.size; ++from) want.push_back(receives(from, round));
    EXPECT_EQ(received_.get(n, seat_.stream), want);
  }
  DeviceNumbers& sent() { return sent_; }
  DeviceNumbers& sent_at() { return sent_at_; }
  DeviceNumbers& expected() { return expected_; }
  DeviceNumbers& expected_at() { return expected_at_; }
  std::size_t sends(int to, unsigned round) const {
    return counted(seat_.rank, to, round, largest_);
  }
  std::size_t receives(int from, unsigned round) const {
    return counted(from, seat_.rank, round, largest_);
  }
  // The same by rondoAllToAllv.
  ncclResult_t call_with_counts_on_the_host(unsigned round) {
    Numbers sent, sent_at, expected, expected_at;
    for (int peer = 0; peer < seat_.size; ++peer) {
      sent.push_back(sends(peer, round));
      sent_at.push_back(offset(true, peer, round));
      expected.push_back(receives(peer, round));
      expected_at.push_back(offset(false, peer, round));
    }
    return rondoAllToAllv(out_.data(), sent.data(), sent_at.data(), in_.data(), expected.data(),
                          expected_at.data(), ncclUint32, seat_.comm, seat_.stream);
  }
  // The part from this rank, and all outside of parts, is as fill(round) left it.
  void check_untouched(int from, unsigned round) {
    in_.get(seat_.stream);
    EXPECT_TRUE(in_.guards_intact());
    std::size_t all = 0;
    for (int peer = 0; peer < seat_.size; ++peer) all += receives(peer, round);
    EXPECT_EQ(untouched(round), elements() * 4 - 4 * all) << "something else was written";
    const std::size_t begin = offset(false, from, round) * 4, bytes = receives(from, round) * 4;
    EXPECT_EQ(std::count(in_.host() + begin, in_.host() + begin + bytes, kUntouched),
              static_cast<std::ptrdiff_t>(bytes))
        << "the data of rank " << from << " have come to rank " << seat_.rank;
    if (packed_) return;
    const auto n = static_cast<std::size_t>(seat_.size);
    EXPECT_EQ(received_.get(n, seat_.stream)[static_cast<std::size_t>(from)], kNotReceived);
  }

 private:
  std::size_t elements() const { return static_cast<std::size_t>(seat_.size) * largest_; }
  std::size_t offset(bool sent, int peer, unsigned round) const {
    std::size_t at = 0;
    for (int p = 0; p < peer && packed_; ++p) at += sent ? sends(p, round) : receives(p, round);
    return packed_ ? at : static_cast<std::size_t>(peer) * largest_;
  }
  // Bytes outside of all parts that are as fill() left them.
  std::size_t untouched(unsigned round) {
    std::vector<bool> in_a_part(elements() * 4);
    for (int from = 0; from < seat_.size; ++from)
      std::fill_n(in_a_part.begin() + static_cast<std::ptrdiff_t>(offset(false, from, round) * 4),
                  receives(from, round) * 4, true);
    std::size_t n = 0;
    for (std::size_t at = 0; at < elements() * 4; ++at)
      n += !in_a_part[at] && in_.host()[at] == kUntouched;
    return n;
  }

  NcclRank& seat_;
  const std::size_t largest_;
  const bool packed_;
  DeviceBuffer out_, in_;
  DeviceNumbers sent_, sent_at_, expected_, expected_at_, received_;
};

inline Layout with_small_slots(const Layout& layout, const char* simt = "") {
  return layout.under({{"RONDO_GPU_STAGING", "65536"}, {"RONDO_SIMT", simt}});
}

}  // namespace rondo::test
