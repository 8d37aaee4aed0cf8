// SPDX-License-Identifier: Apache-2.0
// rondo bench on CUDA devices, real or emulated: every collective, every flag for devices, the
// roofline's arithmetic, and a result check that reads the device's memory.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/backend.h"
#include "bench/buffers.h"
#include "bench/gpu_lane.h"
#include "bench/options.h"
#include "bench/sweep.h"
#include "tests/bench/shell.h"
#include "tests/support/pretended_ports.h"

namespace rondo::bench {
namespace {

struct Ended {
  int status;
  std::string output;
};

Ended bench(const std::string& words) {
  ShellResult shell_result = shell(std::string("timeout 500 " RONDO_PROGRAM " bench ") + words);
  return {shell_result.status, std::move(shell_result.text)};
}

void expect_right(const std::string& words) {
  const Ended ended = bench(words);
  EXPECT_EQ(ended.status, kOk) << words << "\n" << ended.output;
  EXPECT_NE(ended.output.find("# Out of bounds values : 0 OK"), std::string::npos) << words << "\n"
                                                                                   << ended.output;
}

class GpuBench : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_devices() == 0) GTEST_SKIP() << "no CUDA device: " << gpu_absence();
  }
};

TEST_F(GpuBench, EightRanksOfOneThreadLiveOnTheDevicesThereAre) {
  const Ended ended = bench("all_reduce -g 8 -b 4 -e 16K -f 64 -n 2 --no-progress --extended");
  EXPECT_EQ(ended.status, kOk) << ended.output;
  EXPECT_NE(ended.output.find("#  Rank  7 "), std::string::npos) << ended.output;
  const std::string last = " device  " + std::to_string(std::min(gpu_devices(), 8) - 1) + " [";
  EXPECT_NE(ended.output.find(last), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("%roof"), std::string::npos) << ended.output;
}

TEST_F(GpuBench, EveryCollective) {
  for (const char* kind :
       {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather",
        "scatter", "sendrecv", "hypercube", "barrier", "all_to_all_v", "all_gather_v",
        "reduce_scatter_v", "gather_v", "scatter_v"})
    expect_right(std::string(kind) + " --ranks 4 --threads -b 1000 -e 1000 -n 2 -w 1");
}

TEST_F(GpuBench, EveryFlagThatHasToDoWithDevices) {
  for (const char* flags : {"-t 3",
                            "-g 2 -t 2",
                            "-g 1 --ranks-per-gpu 4",
                            "-G 1 -g 2",
                            "-G 3 -g 1 --ranks-per-gpu 3",
                            "-G 2 -m 2 -g 2",
                            "-C 1 -g 2",
                            "-R 1 -g 2",
                            "-R 2 -g 2",
                            "--alloc nccl -t 2",
                            "-z 1 -g 2",
                            "-z 2 -t 2",
                            "-z 3 -g 2",
                            "-I 1 -t 2",
                            "-m 3 -g 2",
                            "-u 1 -g 2",
                            "--rotate 256K -g 2",
                            "-c every -g 2",
                            "-y 0 -g 2",
                            "--values all -g 2",
                            "-o mulsum -d half -g 2",
                            "--plain -g 2"})
    expect_right(std::string("all_reduce -b 64 -e 4K -f 64 -n 3 -w 1 ") + flags);
}

TEST_F(GpuBench, WhatCannotBeIsRefusedInASentence) {
  const Ended many =
      bench("all_reduce -g " + std::to_string(gpu_devices()) + " -t 2 --ranks-per-gpu 1 -b 4 -e 4");
  EXPECT_EQ(many.status, kInvalidUse);
  EXPECT_NE(many.output.find("--ranks-per-gpu 1 on"), std::string::npos) << many.output;
  const Ended threads = bench("all_reduce -G 1 -t 2");
  EXPECT_EQ(threads.status, kBadCommandLine);
  EXPECT_NE(threads.output.find("-g, not -t"), std::string::npos) << threads.output;
  EXPECT_EQ(bench("all_reduce -G 1 -z 1").status, kBadCommandLine);
  EXPECT_EQ(bench("all_reduce -D 1").status, kNotImplemented);
}

// Two ranks on one device read and write 2 x 2 x S bytes. The roofline is that divided by the
// bandwidth of copies.
TEST_F(GpuBench, RooflineIsBytesOverTheBandwidthOfCopies) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/run.json";
  const Ended ended =
      bench("all_reduce -g 1 --ranks-per-gpu 2 -b 1M -e 1M -n 2 -w 1 -a 3 --json " + file);
  ASSERT_EQ(ended.status, kOk) << ended.output;
  const auto json = nlohmann::json::parse(std::ifstream(file));
  const double copies = json.at("config").at("devices").at(0).at("copy_gbs").get<double>();
  ASSERT_GT(copies, 0);
  const auto& side = json.at("results").at(0).at("out_of_place");
  const double least_us = 4.0 * (1 << 20) / (copies * 1e3);
  EXPECT_NEAR(side.at("roofline").get<double>() * side.at("time").get<double>(), least_us,
              0.01 * least_us);
}

TEST_F(GpuBench, RanksOnSeveralDevicesAreMeasuredBesideTheLinkToo) {
  if (gpu_devices() < 2) GTEST_SKIP() << "there is one device";
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/run.json";
  const Ended ended = bench("sendrecv -g 2 -b 1M -e 1M -n 2 -w 1 --json " + file);
  ASSERT_EQ(ended.status, kOk) << ended.output;
  EXPECT_NE(ended.output.find(", to another device "), std::string::npos) << ended.output;
  const auto json = nlohmann::json::parse(std::ifstream(file));
  for (const auto& device : json.at("config").at("devices"))
    EXPECT_GT(device.at("link_gbs").get<double>(), 0) << device;
  const auto& side = json.at("results").at(0).at("out_of_place");
  const std::string of = side.at("roof_of").get<std::string>();
  EXPECT_TRUE(of == "link" || of == "memory") << of;
}

// Two hosts of two ranks, four ports of 0.1 Gb/s each: half of an all-gather's data enters each
// host.
TEST_F(GpuBench, RanksOfSeveralHostsAreMeasuredBesideTheirNetworkToo) {
  if (gpu_devices() < 4) GTEST_SKIP() << "there are " << gpu_devices() << " devices";
  const test::TemporaryFolder root;
  test::pretend_four_ports(root, "0.1 Gb/sec (4X SDR)");
  const auto run = [&](const std::string& flags) {
    const std::string file = root.path() + "/run.json";
    const ShellResult shell_result =
        shell("RONDO_SYS_ROOT=" + root.path() +
              " " RONDO_PROGRAM " run -n 2 -- bash -c 'NCCL_HOSTID=host$RANK " RONDO_PROGRAM
              " bench all_gather -g 2 -b 1M -e 1M -n 2 -w 1 " +
              flags + " --json " + file + "'");
    EXPECT_EQ(shell_result.status, kOk) << shell_result.text;
    return std::pair(shell_result.text, nlohmann::json::parse(std::ifstream(file)));
  };
  const auto [output, json] = run("");
  EXPECT_NE(output.find("#  Network of a host: 0.048 GB/s each way by the topology's ports"),
            std::string::npos)
      << output;
  constexpr double kGbs = 4 * 0.0125 * 0.96;
  for (const auto& device : json.at("config").at("devices"))
    EXPECT_NEAR(device.at("network_gbs").get<double>(), kGbs, 1e-3) << device;
  const auto& side = json.at("results").at(0).at("out_of_place");
  EXPECT_EQ(side.at("roof_of").get<std::string>(), "network");
  const double least_us = 0.5 * (1 << 20) / (kGbs * 1e3);
  EXPECT_NEAR(side.at("roofline").get<double>() * side.at("time").get<double>(), least_us,
              0.01 * least_us);
  EXPECT_EQ(run("--plain").first.find("Network of a host"), std::string::npos);
}

TEST_F(GpuBench, GroupsThatShareLinksHaveNoRoof) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/run.json";
  const ShellResult shell_result = shell("NCCL_TESTS_SPLIT='MOD 2' " RONDO_PROGRAM
                                         " bench all_reduce -g 4 -b 64K -e 64K -n 2 -w 1 --json " +
                                         file);
  ASSERT_EQ(shell_result.status, kOk) << shell_result.text;
  const auto json = nlohmann::json::parse(std::ifstream(file));
  EXPECT_FALSE(json.at("results").at(0).at("out_of_place").contains("roof_of")) << json;
}

// One rank on device 0.
class OneOnDevice : public GpuBench {
 protected:
  void SetUp() override {
    GpuBench::SetUp();
    if (IsSkipped()) return;
    backend = make_rondo_backend();
    JoinOptions join{.ranks = 1, .rank = 0, .id = {}, .device = 0};
    ASSERT_EQ(backend->make_id(&join.id), ncclSuccess);
    ASSERT_EQ(backend->join(join), ncclSuccess) << backend->last_error();
  }
  std::unique_ptr<Backend> backend;
};

TEST_F(OneOnDevice, TheCheckSeesWhatTheDeviceHolds) {
  Area area;
  ASSERT_TRUE(area.allocate(*backend, 1000, false));
  Area::guard(area.data(), 1000);
  area.data()[7] = std::byte{1};
  ASSERT_TRUE(area.send(area.data(), 1000));
  area.data()[7] = std::byte{2};
  ASSERT_TRUE(area.fetch(area.data(), 1000));
  EXPECT_EQ(area.data()[7], std::byte{1});
  EXPECT_EQ(Area::damaged(area.data(), 1000), 0u);
  // Writes one byte beyond the end, in device memory.
  const std::byte wrong{0x11};
  ASSERT_TRUE(backend->gpu()->upload(area.place() + 1000, &wrong, 1));
  EXPECT_EQ(Area::damaged(area.data(), 1000), 0u);
  ASSERT_TRUE(area.fetch(area.data(), 1000));
  EXPECT_EQ(Area::damaged(area.data(), 1000), 1u);
  area.release();
  ASSERT_EQ(backend->leave(), ncclSuccess);
}

TEST_F(OneOnDevice, CopiesTakeTime) {
  const auto copies = gpu_copy_bandwidth(0);
  ASSERT_TRUE(copies) << copies.error().text;
  EXPECT_GT(copies.value(), 0);
  ASSERT_EQ(backend->leave(), ncclSuccess);
}

}  // namespace
}  // namespace rondo::bench
