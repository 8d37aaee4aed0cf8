// SPDX-License-Identifier: Apache-2.0
// A net proxy without kernels: over every network, the test fills and empties two ranks' slots as
// kernels do.
#include "transport/proxy/net_proxy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "base/atomics.h"
#include "tests/unit/transport/net/networks.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kSlots = 4, kSlotBytes = 1024;
constexpr int kLines = 3;

// One side's bounce buffer.
struct BounceBuffer {
  std::vector<std::byte> slots = std::vector<std::byte>(kSlots * kSlotBytes);
  std::uint64_t tail = 0, head = 0;
  std::uint64_t used[kSlots] = {};
  Connection end() {
    Connection made{};
    made.buffer = slots.data();
    made.slot_bytes = kSlotBytes;
    made.slot_count = kSlots;
    made.tail = &tail;
    made.head = &head;
    made.used = used;
    return made;
  }
};

class NetworkProxyPair : public test::NetworkSuite {
 protected:
  void SetUp() override {
    std::vector<NetProxyLine> lines[2];
    for (int i = 0; i < kLines; ++i) {
      const net::LinkName name = net_proxy_link(0, 1, i % 2, i / 2);
      lines[0].push_back({name, out[i].end(), true});
      lines[1].push_back({name, in[i].end(), false});
    }
    std::vector<std::vector<std::byte>> addresses;
    for (int r = 0; r < 2; ++r) {
      auto made = NetProxy::open(GetParam().at(r), lines[r]);
      ASSERT_TRUE(made.ok());
      proxies[r] = std::move(made).value();
      addresses.push_back(proxies[r]->address());
    }
    for (auto& net_proxy : proxies) ASSERT_TRUE(net_proxy->connect(addresses).ok());
    ASSERT_TRUE(until([this] { return proxies[0]->is_open() && proxies[1]->is_open(); }));
  }
  bool until(const std::function<bool()>& holds) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!holds()) {
      for (auto& net_proxy : proxies)
        if (net_proxy) net_proxy->progress();
      if (std::chrono::steady_clock::now() > limit) return false;
    }
    return true;
  }
  // Acts as a sending kernel: waits for room, fills a slot, publishes its size, posts.
  bool fill(int line, std::uint64_t number) {
    BounceBuffer& m = out[line];
    if (!until([&] { return number < HostAtomics::load_acquire(m.head) + kSlots; })) return false;
    const std::uint64_t bytes = bytes_of(line, number);
    std::memset(m.slots.data() + number % kSlots * kSlotBytes, static_cast<int>(number + 31 * line),
                bytes);
    HostAtomics::store_relaxed(m.used[number % kSlots], bytes);
    HostAtomics::store_release(m.tail, number + 1);
    return true;
  }
  // Acts as a receiving kernel.
  void take(int line, std::uint64_t number) {
    BounceBuffer& m = in[line];
    ASSERT_TRUE(until([&] { return HostAtomics::load_acquire(m.tail) > number; }));
    const std::vector<std::byte> want(bytes_of(line, number),
                                      static_cast<std::byte>(number + 31 * line));
    ASSERT_EQ(std::memcmp(m.slots.data() + number % kSlots * kSlotBytes, want.data(), want.size()),
              0)
        << "slot " << number << " of line " << line;
    HostAtomics::store_release(m.head, number + 1);
  }
  static std::uint64_t bytes_of(int line, std::uint64_t number) {
    return 1 + (number * 37 + static_cast<std::uint64_t>(line)) % kSlotBytes;
  }

  BounceBuffer out[kLines], in[kLines];
  std::unique_ptr<NetProxy> proxies[2];
};

TEST_P(NetworkProxyPair, SlotsArriveWholeAndInOrder) {
  for (std::uint64_t n = 0; n < 200; ++n) {
    for (int line = 0; line < kLines; ++line) ASSERT_TRUE(fill(line, n));
    for (int line = kLines; line-- > 0;) take(line, n);
  }
  EXPECT_TRUE(proxies[0]->flushed());
  EXPECT_EQ(proxies[1]->moved(), 200u * kLines);
}

// A receiver that takes nothing stops its sender, but no other line.
TEST_P(NetworkProxyPair, LinesDoNotHoldEachOtherUp) {
  for (std::uint64_t n = 0; n < 2 * kSlots; ++n) {
    if (n < kSlots) {
      ASSERT_TRUE(fill(0, n));
    }
    ASSERT_TRUE(fill(1, n));
    take(1, n);
  }
  ASSERT_TRUE(until([this] { return HostAtomics::load_acquire(in[0].tail) == kSlots; }));
  for (int i = 0; i < 100; ++i)
    for (auto& net_proxy : proxies) net_proxy->progress();
  EXPECT_EQ(in[0].tail, kSlots) << "slots that are not free were offered";
}

TEST_P(NetworkProxyPair, WhatWasSentArrivesThoughTheSenderIsGone) {
  for (std::uint64_t n = 0; n < kSlots; ++n) ASSERT_TRUE(fill(2, n));
  ASSERT_TRUE(until([this] { return proxies[0]->flushed(); }));
  proxies[0].reset();
  for (std::uint64_t n = 0; n < kSlots; ++n) take(2, n);
  int peer = -1;
  ASSERT_TRUE(until([&] { return proxies[1]->first_end(&peer) != nullptr; }));
  EXPECT_EQ(peer, 0);
}

// Lines are added while others move: first on the sender's side, or first on the receiver's.
TEST_P(NetworkProxyPair, LinesMayBeAddedOnEitherSideFirst) {
  BounceBuffer from[2], to[2];
  const auto add = [&](int side, int channel) {
    BounceBuffer& end = side == 0 ? from[channel] : to[channel];
    proxies[side]->add({net_proxy_message_link(0, 1, channel), end.end(), side == 0});
    ASSERT_TRUE(proxies[side]->open_added().ok());
  };
  for (const int first : {0, 1}) {
    const int channel = first;
    add(first, channel);
    from[channel].slots[0] = std::byte{7};
    from[channel].used[0] = 1;
    from[channel].tail = 1;
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(fill(0, static_cast<std::uint64_t>(50 * first + i)));
      take(0, static_cast<std::uint64_t>(50 * first + i));
    }
    // The link opens in this time.
    const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    ASSERT_TRUE(until([&] { return std::chrono::steady_clock::now() > later; }));
    EXPECT_EQ(to[channel].tail, 0u);
    add(1 - first, channel);
    ASSERT_TRUE(until([&] { return HostAtomics::load_acquire(to[channel].tail) == 1; }));
    EXPECT_EQ(to[channel].slots[0], std::byte{7});
  }
  EXPECT_TRUE(until([this] { return proxies[0]->flushed(); }));
  EXPECT_TRUE(proxies[0]->cut_off().empty());
}

TEST_P(NetworkProxyPair, ASendToARankThatHasEndedIsNoticed) {
  BounceBuffer from;
  proxies[1].reset();
  proxies[0]->add({net_proxy_message_link(0, 1, 0), from.end(), true});
  ASSERT_TRUE(proxies[0]->open_added().ok());
  from.used[0] = 1;
  from.tail = 1;
  ASSERT_TRUE(until([this] { return !proxies[0]->cut_off().empty(); }));
  EXPECT_EQ(proxies[0]->cut_off(), std::vector<int>{1});
}

TEST_P(NetworkProxyPair, MemoryOfEveryLineIsRegisteredAndGivenBack) {
  if (GetParam().name != std::string("Loop")) GTEST_SKIP() << "counts its memory";
  EXPECT_EQ(test::LoopMemory::everywhere(), 2u * kLines);
  for (auto& net_proxy : proxies) net_proxy.reset();
  EXPECT_EQ(test::LoopMemory::everywhere(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Every, NetworkProxyPair, testing::ValuesIn(test::network_kinds()),
                         test::kNameOfKind);

TEST(NetProxyMemory, SocketsRefuseDeviceMemoryByName) {
  auto network = tcp::TcpNetwork::open({});
  ASSERT_TRUE(network.ok());
  EXPECT_FALSE((*network)->takes(net::Memory::Kind::kDmabuf));
  const auto refused = (*network)->register_memory({{}, net::Memory::Kind::kDevice, -1, 0});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text.find("pinned memory"), std::string::npos);
}

}  // namespace
}  // namespace rondo::gpu
