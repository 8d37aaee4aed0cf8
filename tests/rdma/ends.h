// SPDX-License-Identifier: Apache-2.0
// Two ends of a wire of the guest (tests/rdma/guest.sh): opened devices, and queue pairs between
// them. Tests are skipped without such devices.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/poll_until.h"
#include "transport/verbs/ibverbs/queue_pair.h"
#include "transport/verbs/ibverbs/region.h"

namespace rondo::verbs {

// Finite: with 7 retries soft-RoCE retries a dead peer without limit. 2^17 * 4 us, seven times: 4
// s, enough for a peer on a busy machine to answer.
inline Options quick_to_fail() {
  Options options;
  options.timeout = 17;
  options.retries = 6;
  return options;
}

// The ports of soft-RoCE devices rxe<number> that are present and can carry data.
inline std::vector<Port> guest_ports() {
  std::vector<Port> found;
  for (Port& port : read_ports())
    if (port.device.starts_with("rxe") && unusable(port).why.empty())
      found.push_back(std::move(port));
  return found;
}

inline std::unique_ptr<DeviceContext> open_port(const Port& port,
                                                const Options& options = quick_to_fail()) {
  auto device = DeviceContext::open(port, options, 256);
  EXPECT_TRUE(device.ok()) << device.error().text;
  return device.ok() ? std::move(*device) : nullptr;
}

inline std::unique_ptr<QueuePair> make_pair_of(DeviceContext& device) {
  auto pair = QueuePair::create(device, {.sends = 64, .receives = 64});
  EXPECT_TRUE(pair.ok()) << pair.error().text;
  return pair.ok() ? std::move(*pair) : nullptr;
}

// The next completions, at least `count` of them, or fewer after `seconds`.
inline std::vector<ibv_wc> completions(DeviceContext& device, std::size_t count,
                                       double seconds = 20) {
  std::vector<ibv_wc> all;
  (void)poll_until(
      [&] {
        ibv_wc some[16];
        const auto got = device.poll(some);
        EXPECT_TRUE(got.ok()) << got.error().text;
        if (got.ok()) all.insert(all.end(), some, some + *got);
        return !got.ok() || all.size() >= count;
      },
      seconds_from_now(seconds), std::chrono::microseconds(20));
  return all;
}

// rxe0 and rxe1, each with a queue pair, connected to each other.
class Wire : public testing::Test {
 protected:
  void SetUp() override {
    const auto ports = guest_ports();
    if (ports.size() < 2) GTEST_SKIP() << "no two soft-RoCE devices: tests/rdma/guest.sh";
    for (int end = 0; end < 2; ++end) {
      devices_[end] = open_port(ports[static_cast<std::size_t>(end)]);
      ASSERT_NE(devices_[end], nullptr);
      pairs_[end] = make_pair_of(*devices_[end]);
      ASSERT_NE(pairs_[end], nullptr);
    }
    for (int end = 0; end < 2; ++end) {
      const auto connected = pairs_[end]->connect(pairs_[1 - end]->endpoint());
      ASSERT_TRUE(connected.ok()) << connected.error().text;
    }
  }

  std::unique_ptr<DeviceContext> devices_[2];
  std::unique_ptr<QueuePair> pairs_[2];
};

inline Slice taken(RegionPool& pool, std::size_t bytes) {
  const auto slice = pool.take(bytes);
  EXPECT_TRUE(slice.ok()) << slice.error().text;
  return slice.ok() ? *slice : Slice{};
}

inline std::uint64_t address_of(std::span<std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data());
}

}  // namespace rondo::verbs
