// SPDX-License-Identifier: Apache-2.0
// GPU memory that a plugin registers by dmabuf files. Here a memory file stands in for it, at
// addresses that are not mapped, as a GPU's are not for the host.
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/transport/net/networks.h"

namespace rondo::test {
namespace {

using net::Memory;

constexpr std::size_t kPlaceInFile = 4096 + 256, kRegistered = 20000,
                      kDmabufBytes = kPlaceInFile + kRegistered + 777;

struct DmabufFile {
  Fd fd{::memfd_create("dmabuf", MFD_CLOEXEC)};
  explicit DmabufFile(const Bytes& content) {
    EXPECT_EQ(::ftruncate(fd.get(), kDmabufBytes), 0);
    put(content);
  }
  void put(const Bytes& content) {
    const auto wrote = ::pwrite(fd.get(), content.data(), content.size(), kPlaceInFile);
    EXPECT_EQ(wrote, static_cast<ssize_t>(content.size()));
  }
  Bytes all() const {
    Bytes bytes(kDmabufBytes);
    EXPECT_EQ(::pread(fd.get(), bytes.data(), kDmabufBytes, 0), static_cast<ssize_t>(kDmabufBytes));
    return bytes;
  }
};

// A distinct GPU address for each number; this process has not mapped it.
std::span<std::byte> on_gpu(std::uintptr_t gpu) {
  return {reinterpret_cast<std::byte*>(0x6000'0000'0000 + (gpu << 32)), kRegistered};
}
net::MemoryKey register_file(net::Network& network, const DmabufFile& file, std::uintptr_t gpu) {
  const Fd lent(::dup(file.fd.get()));  // closed on return: the network must keep its own copy
  return network.register_memory({on_gpu(gpu), Memory::Kind::kDmabuf, lent.get(), kPlaceInFile})
      .value();
}
NetworkKind plugin_kind(const std::string& version) {
  return {"Plugin", "RondoTest",
          [version](net::PortOptions options) { return open_plugin(std::move(options), version); }};
}

TEST(PluginDmabuf, MessagesGoFromFileToFileAndAreFlushedThere) {
  for (const char* version : {"8", "9", "10", "11", "12"}) {
    const PluginControls controls(version);
    controls.behave("dmabuf=1");
    const long flushes = controls.count("flushes");
    const Bytes content = pattern(kRegistered, 3);
    const DmabufFile sent(content), received(Bytes(kRegistered, std::byte{0x11}));
    {
      LinkPair pair(plugin_kind(version));
      ASSERT_TRUE(pair.connected);
      ASSERT_TRUE(pair.near_network->takes(Memory::Kind::kDmabuf));
      EXPECT_FALSE(pair.near_network->takes(Memory::Kind::kDevice));
      const auto from = register_file(*pair.near_network, sent, 1);
      const auto to = register_file(*pair.far_network, received, 2);
      CallRecord record;
      // A part in the middle of both, at an odd offset and with an odd length.
      ASSERT_TRUE(pair.near->isend({}, on_gpu(1).subspan(5, 15001), from));
      ASSERT_TRUE(pair.far->irecv(record, on_gpu(2).subspan(101, 15001), to));
      const auto has_come = [&] { return pair.far->test({0, false}).done; };
      ASSERT_TRUE(pair.until([&] { return has_come() || net::is_over(pair.near->state()); }));
      ASSERT_TRUE(has_come()) << version;
      EXPECT_GT(controls.count("flushes"), flushes) << version;
      pair.near_network->deregister_memory(from);
      pair.far_network->deregister_memory(to);
    }
    Bytes wanted(kDmabufBytes);
    std::fill_n(wanted.begin() + kPlaceInFile, kRegistered, std::byte{0x11});
    std::copy_n(content.begin() + 5, 15001, wanted.begin() + kPlaceInFile + 101);
    EXPECT_TRUE(received.all() == wanted) << version;
    EXPECT_EQ(controls.count("registrations"), 0) << version;
  }
}

TEST(PluginDmabuf, WhatIsNotRegisteredEndsTheLinkByName) {
  const PluginControls controls;
  controls.behave("dmabuf=1");
  LinkPair pair(plugin_kind(""));
  ASSERT_TRUE(pair.connected);
  ASSERT_TRUE(pair.until([&] { return pair.far->state() == net::LinkState::kOpen; }));
  const DmabufFile file(pattern(kRegistered, 1));
  const auto key = register_file(*pair.near_network, file, 1);
  controls.behave("dmabuf=1 fail=regMrDmaBuf:1");
  (void)pair.near->isend({}, on_gpu(1), key);
  ASSERT_TRUE(pair.until([&] { return net::is_over(pair.near->state()); }));
  const std::string& why = pair.near->error().text;
  EXPECT_NE(why.find("regMrDmaBuf() gave ncclSystemError (2), of 20000 bytes"), std::string::npos)
      << why;
  pair.near_network->deregister_memory(key);
}

TEST(PluginDmabuf, WhereThePluginDoesNotTakeFilesNoneIsRegistered) {
  const PluginControls controls;
  controls.behave("cuda=1");
  LinkPair pair(plugin_kind(""));
  EXPECT_TRUE(pair.near_network->takes(Memory::Kind::kDevice));
  EXPECT_FALSE(pair.near_network->takes(Memory::Kind::kDmabuf));
  const DmabufFile file(pattern(kRegistered, 1));
  const auto refused = pair.near_network->register_memory(
      {on_gpu(1), Memory::Kind::kDmabuf, file.fd.get(), kPlaceInFile});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text.find("takes no memory of that kind"), std::string::npos);
}

}  // namespace
}  // namespace rondo::test
