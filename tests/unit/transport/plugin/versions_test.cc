// SPDX-License-Identifier: Apache-2.0
// Every version of the plugin interface carries messages, starts with its own arguments, and
// releases all that it created.
#include "tests/unit/transport/net/networks.h"

namespace rondo::test {
namespace {

struct Way {
  const char* version;
  const char* words;
};

NetworkKind kind_of(const std::string& version) {
  return {"Plugin", "RondoTest",
          [version](net::PortOptions options) { return open_plugin(std::move(options), version); }};
}

class PluginVersions : public testing::TestWithParam<Way> {
 protected:
  // 200 messages each way, of sizes from 0 up, from memory that is registered once.
  static void exchange(LinkPair& pair, net::Memory::Kind memory) {
    ASSERT_TRUE(pair.connected);
    constexpr std::size_t kMax = 100'000;
    Registered sent(*pair.near_network, pattern(kMax, 1));
    Registered back(*pair.far_network, pattern(kMax, 2));
    Registered at_far(*pair.far_network, Bytes(kMax), memory);
    Registered at_near(*pair.near_network, Bytes(kMax), memory);
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::size_t bytes = i * 499 % kMax;
      CallRecord there, here, record;
      record.count = i;
      const auto tag = static_cast<std::uint32_t>(i);
      ASSERT_TRUE(pair.near->isend(record, sent.first(bytes), sent.key, tag));
      ASSERT_TRUE(pair.far->isend(record, back.first(bytes), back.key, tag + 1));
      ASSERT_TRUE(pair.far->irecv(there, at_far.bytes, at_far.key));
      ASSERT_TRUE(pair.near->irecv(here, at_near.bytes, at_near.key));
      ASSERT_TRUE(pair.until([&] {
        return pair.far->test({i, false}).done && pair.near->test({i, false}).done &&
               pair.far->test({i, true}).done && pair.near->test({i, true}).done;
      })) << i;
      ASSERT_EQ(pair.far->test({i, false}).tag, tag);
      ASSERT_EQ(pair.near->test({i, false}).bytes, bytes);
      ASSERT_EQ(there.count, i);
      ASSERT_TRUE(std::ranges::equal(at_far.first(bytes), sent.first(bytes))) << i;
      ASSERT_TRUE(std::ranges::equal(at_near.first(bytes), back.first(bytes))) << i;
    }
  }
};

TEST_P(PluginVersions, CarriesMessagesAndIsLeftAsItWasFound) {
  const PluginControls controls(GetParam().version);
  controls.behave(GetParam().words);
  const bool cuda = std::string(GetParam().words).find("cuda") != std::string::npos;
  const long before = controls.count("registered"), flushes = controls.count("flushes");
  {
    LinkPair pair(kind_of(GetParam().version));
    exchange(pair, cuda ? net::Memory::Kind::kDevice : net::Memory::Kind::kHost);
    // Each network registers two memories; each link registers two rings of headers.
    EXPECT_EQ(controls.count("registered") - before, 2 * 2 + 2 * 2);
  }
  EXPECT_EQ(controls.count("flushes") > flushes, cuda);
  for (const char* what : {"connections", "registrations", "contexts", "complaints"})
    EXPECT_EQ(controls.count(what), 0) << what;
}

INSTANTIATE_TEST_SUITE_P(
    Every, PluginVersions,
    testing::Values(Way{"8", ""}, Way{"8", "cuda=1 slow=5 null=3"}, Way{"9", ""},
                    Way{"9", "slow=5 null=3"}, Way{"10", ""}, Way{"10", "slow=5 null=3 global=1"},
                    Way{"11", ""}, Way{"11", "slow=5 null=3"}, Way{"12", ""}, Way{"12", "slow=5"},
                    Way{"12", "null=3"}, Way{"12", "global=1"}, Way{"12", "cuda=1"}),
    [](const auto& info) {
      std::string name = fmt::format("V{}{}", info.param.version, info.param.words);
      for (char& letter : name)
        if (letter == ' ' || letter == '=') letter = '_';
      return name;
    });

// A registration for all connections outlives the link that made it.
TEST(PluginMemory, GlobalRegistrationsServeLinksThatOpenLater) {
  const PluginControls controls;
  controls.behave("global=1");
  const auto kind = kind_of("");
  {
    LinkPair pair(kind);
    ASSERT_TRUE(pair.connected);
    Registered body(*pair.near_network, pattern(5000, 1)), room(*pair.far_network, Bytes(5000));
    CallRecord record;
    for (int round = 0; round < 3; ++round) {
      std::fill(room.bytes.begin(), room.bytes.end(), std::byte{0});
      ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
      ASSERT_TRUE(pair.far->irecv(record, room.bytes, room.key));
      ASSERT_TRUE(pair.until([&] { return pair.far->test({0, false}).done; }));
      EXPECT_EQ(room.bytes, body.bytes);
      pair.near->close();
      ASSERT_TRUE(pair.far->irecv(record, {}, 0));
      ASSERT_TRUE(pair.until([&] { return net::is_over(pair.far->state()); }));
      EXPECT_EQ(controls.count("registrations"), 2) << "one at each network, and no header";
      pair.near = pair.near_network->connect({0, 1, 0}, pair.far_address).value();
      pair.far.reset();
      ASSERT_TRUE(
          pair.until([&] { return pair.far && pair.near->state() == net::LinkState::kOpen; }));
    }
  }
  for (const char* what : {"connections", "registrations", "contexts", "complaints"})
    EXPECT_EQ(controls.count(what), 0) << what;
}

}  // namespace
}  // namespace rondo::test
