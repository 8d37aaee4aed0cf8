// SPDX-License-Identifier: Apache-2.0
// Addresses of a port that goes down and comes back, with a simulated device.
#include <gtest/gtest.h>

#ifdef RONDO_VERBS

#include <filesystem>

#include "tests/support/temporary_folder.h"
#include "tests/unit/transport/verbs/fake_verbs.h"
#include "transport/verbs/ibverbs/device_context.h"

namespace rondo::verbs {
namespace {

class RdmaAddresses : public testing::Test {
 protected:
  void SetUp() override {
    fake = &fake_;
    port_file("state", "4: ACTIVE\n");
    port_file("link_layer", "Ethernet\n");
    gid(1, "0000:0000:0000:0000:0000:ffff:0a4d:0001");
    Options options;
    options.functions = &fake_functions();
    options.root = folder_.path();
    device_ = DeviceContext::open(read_ports(folder_.path()).at(0), options, 16).value();
  }
  void port_file(const std::string& name, const std::string& text) {
    folder_.file("sys/class/infiniband/nic0/ports/1/" + name, text);
  }
  void gid(int index, const std::string& text) {
    port_file("gids/" + std::to_string(index), text + "\n");
    port_file("gid_attrs/types/" + std::to_string(index), "RoCE v2\n");
  }
  void no_gids() {
    std::filesystem::remove_all(folder_.path() + "/sys/class/infiniband/nic0/ports/1/gids");
  }
  void raise_event(ibv_event_type what) {
    ibv_async_event event{};
    event.event_type = what;
    event.element.port_num = 1;
    fake_.events.push_back(event);
    device_->read_events();
  }
  std::string address() const { return Gid{.bytes = device_->endpoint().gid}.text(); }

  test::TemporaryFolder folder_;
  FakeVerbs fake_;
  std::unique_ptr<DeviceContext> device_;
};

TEST_F(RdmaAddresses, AreReadAgainWhenAPortIsBack) {
  EXPECT_EQ(address(), "10.77.0.1");
  EXPECT_EQ(device_->gid_index(), 1);
  no_gids();
  raise_event(IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(device_->port_is_down());
  EXPECT_EQ(address(), "10.77.0.1");
  gid(3, "0000:0000:0000:0000:0000:ffff:0a4d:0009");
  raise_event(IBV_EVENT_PORT_ACTIVE);
  EXPECT_FALSE(device_->port_is_down());
  EXPECT_EQ(address(), "10.77.0.9");
  EXPECT_EQ(device_->gid_index(), 3);
}

// An interface that comes back has its link-local address first, and the others some time later.
TEST_F(RdmaAddresses, AreReadAgainWhenTheyChange) {
  no_gids();
  gid(0, "fe80:0000:0000:0000:5054:00ff:fe77:0001");
  raise_event(IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(address(), "fe80::5054:ff:fe77:1");
  gid(2, "0000:0000:0000:0000:0000:ffff:0a4d:0001");
  raise_event(IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(address(), "10.77.0.1");
  EXPECT_EQ(device_->gid_index(), 2);
}

TEST_F(RdmaAddresses, StayWhereThePortHasNoneNow) {
  no_gids();
  raise_event(IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(address(), "10.77.0.1");
}

}  // namespace
}  // namespace rondo::verbs

#endif
