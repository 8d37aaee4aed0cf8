// SPDX-License-Identifier: Apache-2.0
// A plugin that fails, lies or loses messages ends the link with an error that names it. A stranger
// that only found the plugin's port cannot send a message.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/transport/net/networks.h"

namespace rondo::test {
namespace {

using net::LinkState;

const NetworkKind kPlugin{"Plugin", "RondoTest",
                          [](net::PortOptions options) { return open_plugin(std::move(options)); }};

// Sends one message from near to far until something ends the link. Returns the reason.
std::string end_of(LinkPair& pair, const PluginControls& controls, const char* words) {
  Registered body(*pair.near_network, pattern(1000, 1)), room(*pair.far_network, Bytes(1000));
  CallRecord record;
  controls.behave(words);
  (void)pair.near->isend({}, body.bytes, body.key);
  (void)pair.far->irecv(record, room.bytes, room.key);
  EXPECT_TRUE(pair.until(
      [&] { return net::is_over(pair.near->state()) && net::is_over(pair.far->state()); }));
  return pair.near->error().text + "\n" + pair.far->error().text;
}

TEST(PluginFailures, EveryFunctionsFailureIsNamed) {
  const std::string who = "plugin 'RondoTest' (" + plugin_file() + ", ncclNetPlugin_v12): ";
  for (const std::string function : {"isend", "irecv", "test", "regMr"}) {
    const PluginControls controls;
    LinkPair pair(kPlugin);
    ASSERT_TRUE(pair.connected);
    ASSERT_TRUE(pair.until([&] { return pair.far->state() == LinkState::kOpen; }));
    const std::string why = end_of(pair, controls, ("fail=" + function + ":1").c_str());
    EXPECT_NE(why.find(who + function + "() gave ncclSystemError (2)"), std::string::npos) << why;
    EXPECT_NE(why.find("connection to rank "), std::string::npos) << why;
  }
}

// The first failing call may be any call in a link's life. If the link makes fewer calls, nothing
// fails.
TEST(PluginFailures, AFailureAtAnyCallEndsTheLink) {
  for (const char* function : {"listen", "connect", "accept", "regMr", "isend", "irecv", "test"}) {
    int ended = 0;
    for (const int call : {1, 2, 3, 7}) {
      const PluginControls controls;
      const auto near = kPlugin.at(0), far = kPlugin.at(1);
      Registered body(*near, pattern(3000, 1)), room(*far, Bytes(3000));
      const Bytes address = far->listen().value();
      controls.behave(fmt::format("fail={}:{}", function, call).c_str());
      auto made = near->connect({0, 1, 0}, address);
      if (!made.ok()) {
        EXPECT_NE(made.error().text.find("listen()"), std::string::npos) << made.error().text;
        ++ended;
        continue;
      }
      std::unique_ptr<net::Link> link = std::move(made).value(), accepted;
      CallRecord record;
      const auto step = [&] {
        near->poll();
        far->poll();
        (void)link->isend({}, body.bytes, body.key);
        link->progress();
        if (!accepted) accepted = far->accept();
        if (!accepted) return;
        (void)accepted->irecv(record, room.bytes, room.key);
        accepted->progress();
      };
      const auto both_ended = [&] {
        return net::is_over(link->state()) && (!accepted || net::is_over(accepted->state()));
      };
      const auto works = [&] { return accepted && accepted->test({99, false}).done; };
      ASSERT_TRUE(drive(step, [&] { return both_ended() || works(); })) << function << call;
      ended += both_ended() ? 1 : 0;
    }
    EXPECT_GT(ended, 1) << function;
    EXPECT_EQ(PluginControls().count("connections"), 0) << function;
    EXPECT_EQ(PluginControls().count("registrations"), 0) << function;
  }
}

// The end of the side channel may arrive before messages that the plugin has already accepted.
TEST(PluginFailures, WhatComesAfterTheCloseIsDelivered) {
  const PluginControls controls;
  for (const bool by_exit : {false, true}) {
    const auto far_network = kPlugin.at(1);
    const Bytes address = far_network->listen().value(), content = pattern(1000, 1);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(300);
      const auto own = kPlugin.at(0);
      Registered body(*own, content);
      auto link = own->connect({0, 1, 0}, address).value();
      (void)link->isend({}, body.bytes, body.key);
      while (!link->test({0, true}).done) {
        link->progress();
        own->poll();
      }
      if (!by_exit) link->close();
      ::_exit(0);
    }
    Registered room(*far_network, Bytes(2000));
    CallRecord record;
    std::unique_ptr<net::Link> far;
    const auto step = [&] {
      far_network->poll();
      if (!far) far = far_network->accept();
      if (far) far->progress();
    };
    ASSERT_TRUE(drive(step, [&] { return far && far->state() != LinkState::kOpening; }));
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    controls.behave("lag=300");
    ASSERT_TRUE(far->irecv(record, room.first(1000), room.key));
    ASSERT_TRUE(far->irecv(record, std::span(room.bytes).subspan(1000), room.key));
    ASSERT_TRUE(drive(step, [&] { return net::is_over(far->state()); }));
    EXPECT_TRUE(far->test({0, false}).done) << by_exit;
    EXPECT_TRUE(std::ranges::equal(room.first(1000), content));
    EXPECT_FALSE(far->test({1, false}).done);
    if (!by_exit) {
      EXPECT_EQ(far->state(), LinkState::kClosed);
    }
    controls.behave("");
  }
}

TEST(PluginFailures, AShortReceiveIsReported) {
  const PluginControls controls;
  LinkPair pair(kPlugin);
  ASSERT_TRUE(pair.connected);
  const std::string why = end_of(pair, controls, "short=1");
  EXPECT_NE(why.find("it sent an invalid slot 0"), std::string::npos) << why;
}

TEST(PluginFailures, AConnectionThatAGpuIsToDriveIsRefused) {
  const PluginControls controls;
  controls.behave("offload=2");
  const auto near = kPlugin.at(0), far = kPlugin.at(1);
  auto link = near->connect({0, 1, 0}, far->listen().value()).value();
  std::unique_ptr<net::Link> accepted;
  const auto step = [&] {
    near->poll();
    far->poll();
    link->progress();
    if (!accepted) accepted = far->accept();
    if (accepted) accepted->progress();
  };
  ASSERT_TRUE(drive(step, [&] { return net::is_over(link->state()); }));
  const std::string& why = link->error().text;
  EXPECT_TRUE(why.find("kernels on the GPU") != std::string::npos ||
              !accepted->error().text.empty())
      << why;
}

// The peer belongs to the communicator, so it is accepted, but its messages carry no token. A
// stranger that connects to the plugin's port before the peer sends the same.
TEST(PluginFailures, WhoDoesNotKnowTheTokenGetsNoMessageIn) {
  const PluginControls controls;
  const plugin::Plugin& raw = test_plugin();
  const auto far = kPlugin.at(1);
  Registered room(*far, Bytes(1000, std::byte{7}));
  net::PortOptions options;
  options.secret = secret_of(1);
  options.network = "RondoTest";
  const Bytes address = far->listen().value();
  auto channels = net::SideChannels::open(options, true).value();
  const auto context = plugin::Context::open(raw, 1).value();
  plugin::Greeting mine;
  void* made = nullptr;
  ASSERT_EQ(raw.listen(context->get(), 0, mine.handle.data(), &made), 0);
  const plugin::Listener listener(raw, made);
  auto channel = channels->connect({0, 1, 0}, address, plugin::serialize(mine)).value();
  std::unique_ptr<net::Link> link;
  CallRecord record;
  const auto step = [&] {
    channel->progress();
    channels->poll();
    far->poll();
    if (!link && (link = far->accept())) (void)link->irecv(record, room.bytes, room.key);
    if (link) link->progress();
  };
  ASSERT_TRUE(drive(step, [&] { return channel->state() == net::SideChannel::State::kOpen; }));
  auto theirs = plugin::parse_greeting(channel->blob()).value();
  void *out = nullptr, *in = nullptr, *offload = nullptr;
  ASSERT_TRUE(drive(step, [&] {
    if (out == nullptr) raw.connect(context->get(), 0, theirs.handle.data(), &out, &offload);
    if (in == nullptr) raw.table().accept(listener.get(), &in, &offload);
    return out != nullptr && in != nullptr;
  }));
  const auto sends =
      std::make_shared<plugin::Connection>(raw, out, plugin::Connection::Kind::kSend);
  const plugin::Connection receives(raw, in, plugin::Connection::Kind::kReceive);
  plugin::Header header{theirs.token ^ 1, 0, 8, 0, 0, {}};
  const auto bytes = std::as_writable_bytes(std::span(&header, 1));
  const auto memory = plugin::Registration::make(sends, {bytes}).value();
  for (const auto part : {bytes, bytes.first(8)}) {
    void* request = nullptr;
    ASSERT_EQ(raw.isend(sends->get(), part, memory->get(), &request), 0);
    ASSERT_TRUE(drive(step, [&] {
      int done = 0, size = 0;
      raw.table().test(request, &done, &size);
      return done != 0;
    }));
  }
  ASSERT_TRUE(drive(step, [&] { return net::is_over(link->state()); }));
  EXPECT_NE(link->error().text.find("it sent an invalid slot 0"), std::string::npos)
      << link->error().text;
  EXPECT_FALSE(link->test({0, false}).done);
}

}  // namespace
}  // namespace rondo::test
