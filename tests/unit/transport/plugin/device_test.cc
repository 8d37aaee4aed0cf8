// SPDX-License-Identifier: Apache-2.0
// The plugin device that a rank takes, and the properties read for each interface version.
#include "transport/plugin/plugin.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace rondo::plugin {
namespace {

Device device(int number, const std::string& pci_path = "") {
  return {number, "d", pci_path, abi::kHost, false, false, 1 << 30};
}

TEST(PluginDevice, EveryVersionsPropertiesAreReadFromTheirPlaces) {
  char name[] = "nic\n0", path[] = "/sys/x";
  abi::Properties8 old{{name, path, 7, abi::kHost | abi::kCuda, 1}, {10, 1, 0.5, 9, 1, 0, -1}};
  const Device of_8 = read_device(3, 8, &old);
  EXPECT_EQ(of_8.number, 3);
  EXPECT_EQ(of_8.name, "nic\\n0");
  EXPECT_EQ(of_8.pci_path, "/sys/x");
  EXPECT_TRUE(of_8.registration_is_global);
  EXPECT_FALSE(of_8.offloads);
  EXPECT_TRUE(of_8.takes(net::Memory::Kind::kDevice));
  old.port.offload_type = 1;
  EXPECT_TRUE(read_device(3, 8, &old).offloads);

  const abi::Properties9 newer{{nullptr, nullptr, 7, abi::kHost, 0},
                               1,
                               {10, 1, 0.5, 9, 1, 2, 0},
                               1,
                               {0},
                               4096,
                               5000,
                               1,
                               0,
                               0};
  for (const int version : {9, 10, 11}) {
    const Device read = read_device(0, version, &newer);
    EXPECT_TRUE(read.offloads) << version;
    EXPECT_EQ(read.max_bytes, 4096u) << version;
    EXPECT_FALSE(read.takes(net::Memory::Kind::kDevice)) << version;
  }
  const abi::Properties12 newest{{nullptr, nullptr, 7, abi::kHost, 0},
                                 1,
                                 {10, 1, 0.5, 9, 1, 0, 0},
                                 1,
                                 {0},
                                 std::size_t{1} << 40,
                                 5000,
                                 1,
                                 0,
                                 0};
  EXPECT_EQ(read_device(0, 12, &newest).max_bytes, 0x7fffffffu);
}

TEST(PluginDevice, TheNearestIsTakenAndEquallyNearOnesAreDealtOut) {
  const std::string bus = "/sys/devices/pci0000:80/0000:80:01.0/";
  std::vector<Device> devices = {device(0, bus + "0000:81:00.0"), device(1, bus + "0000:82:00.0"),
                                 device(2, bus + "0000:82:00.1"), device(3)};
  topology::NearNics near;
  near.tiers = {
      {topology::PathClass::kPix, {{"x", 1, "0000:82:00.0"}, {"y", 1, "0000:82:00.1"}}, 0},
      {topology::PathClass::kSys, {{"z", 1, "0000:81:00.0"}}, 0}};
  EXPECT_EQ(choose_device(devices, near)->number, 1);
  near.tiers[0].turn = 1;
  EXPECT_EQ(choose_device(devices, near)->number, 2);
  near.tiers.erase(near.tiers.begin());
  EXPECT_EQ(choose_device(devices, near)->number, 0);
  near = {{}, 7};
  EXPECT_EQ(choose_device(devices, near)->number, 3) << "none is known: any";
  near.tiers = {{topology::PathClass::kSys, {{"efa", 1, ""}}, 0}};
  devices[2].name = "efa";
  EXPECT_EQ(choose_device(devices, near)->number, 2) << "by its name";
}

TEST(PluginDevice, ThoseThatWantKernelsOrTakeNoHostMemoryAreLeftOut) {
  std::vector<Device> devices = {device(0), device(1), device(2)};
  devices[0].offloads = true;
  devices[1].memory_kinds = abi::kCuda;
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(choose_device(devices, {{}, rank})->number, 2);
  devices[2].offloads = true;
  EXPECT_EQ(choose_device(devices, {}), nullptr);
  EXPECT_EQ(choose_device({}, {}), nullptr);
}

}  // namespace
}  // namespace rondo::plugin
