// SPDX-License-Identifier: Apache-2.0
// What each rank of a large communicator computes from all records takes linear time and memory,
// for any number of hosts.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "collectives/context/agreed_facts.h"
#include "collectives/gpu/plan/channel_orders.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "tests/scale/heap.h"
#include "topology/graph/nccl_xml.h"

namespace rondo {
namespace {

constexpr int kGpus = 8;  // per host
constexpr std::size_t kMaxBytes = 64 << 20;
constexpr double kSeconds = 1;  // the goal; only printed, as machines differ

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

std::shared_ptr<const topology::Graph> dgx_h100() {
  auto parsed = topology::read_nccl_xml(std::string(RONDO_FIXTURES_DIR) + "/dgx-h100.xml");
  EXPECT_TRUE(parsed.ok());
  return std::make_shared<const topology::Graph>(std::move(parsed->graph));
}

InitRecord record_of(int rank, const std::string& bus_id) {
  const int host = rank / kGpus;
  InitRecord record;
  record.facts.rank = rank;
  record.facts.process = {77, static_cast<std::uint64_t>(rank)};
  record.facts.host = record.machine = 0x9e3779b97f4a7c15 * static_cast<std::uint64_t>(host + 1);
  record.facts.hostname = "node-" + std::to_string(host) + ".cluster.example";
  record.facts.socket = "rondo-" + std::to_string(rank);
  record.cores = 96;
  record.cpu_set = 1;
  record.device = rank % kGpus;
  record.bus_id = bus_id;
  return record;
}

gpu::GpuFacts gpu_facts_of_rank(int rank, std::uint64_t digest) {
  gpu::GpuFacts facts;
  facts.uuid[0] = static_cast<unsigned char>(rank);
  facts.uuid[1] = static_cast<unsigned char>(rank >> 8);
  facts.resident_ctas = 100;
  facts.protocols_within = facts.protocols_between = gpu::kUsualProtocols;
  facts.orders = digest;
  return facts;
}

// Everything between the last exchange of records and the first call, except work on devices.
class LargeCommunicator {
 public:
  LargeCommunicator(int ranks, std::shared_ptr<const topology::Graph> graph)
      : ranks_(ranks), graph_(std::move(graph)) {}

  void read_records() {
    const auto gpus = graph_->gpus();
    std::vector<std::vector<std::byte>> encoded;  // as an exchange returns them
    for (int r = 0; r < ranks_; ++r) {
      const int node = gpus[static_cast<std::size_t>(r % kGpus)];
      encoded.push_back(record_of(r, graph_->node(node).bus_id).encode());
    }
    for (int r = 0; r < ranks_; ++r) {
      auto read = InitRecord::decode(encoded[static_cast<std::size_t>(r)], r);
      ASSERT_TRUE(read.ok()) << read.error().text;
      records_.push_back(std::move(*read));
    }
  }
  void agree() {
    std::vector<std::uint64_t> hosts;
    for (const InitRecord& record : records_) hosts.push_back(record.facts.host);
    shape_ = shape_of_hosts(hosts);
    agree_on_facts(records_, shape_, &facts_);
    ASSERT_EQ(shape_.hosts(), ranks_ / kGpus);
    EXPECT_EQ(shape_.host_of(ranks_ - 1), shape_.hosts() - 1);
    EXPECT_FALSE(facts_.crowded());
  }
  void find_channels() {
    places_.graphs.assign(static_cast<std::size_t>(shape_.hosts()), graph_);
    for (const InitRecord& record : records_) places_.locations.push_back({record.bus_id, 0});
    orders_ = gpu::find_orders({&places_, shape_, 16, 2});
    ASSERT_FALSE(orders_.rings.empty());
  }
  void span() {
    gpu::GpuRecords encoded;
    const std::uint64_t digest = orders_.digest();
    for (const InitRecord& record : records_) {
      encoded.processes.push_back(record.facts.process);
      encoded.hosts.push_back(record.facts.host);
      encoded.facts.push_back(gpu_facts_of_rank(record.facts.rank, digest));
      encoded.reach.emplace_back(kGpus, std::byte{1});
    }
    encoded.orders = std::move(orders_);
    auto planned = gpu::plan_gpus(encoded);
    ASSERT_TRUE(planned.ok());
    plan_ = std::move(*planned);
    ASSERT_EQ(plan_.why_proxy, "");
    EXPECT_TRUE(plan_.near(0, kGpus - 1));
    EXPECT_FALSE(plan_.near(0, kGpus));
  }
  void lay_out() {
    const gpu::ConnectionLayout layout(plan_.shape, plan_.near, {plan_.host_of, 1}, plan_.orders);
    for (const auto& edge : layout.edges())
      EXPECT_TRUE(plan_.host_of[edge.from] == 1 || plan_.host_of[edge.to] == 1);
    EXPECT_GT(layout.edges().size(), static_cast<std::size_t>(kGpus));
  }

 private:
  const int ranks_;
  const std::shared_ptr<const topology::Graph> graph_;
  std::vector<InitRecord> records_;
  HostShape shape_;
  PlanFacts facts_;
  RankPlacement places_;
  gpu::ChannelOrders orders_;
  gpu::GpuPlan plan_;
};

TEST(ManyRecords, ArePlannedInLinearMemory) {
  const auto graph = dgx_h100();
  std::size_t bytes[2] = {};
  for (int i = 0; i < 2; ++i) {
    const int ranks = i == 0 ? 2048 : 16'384;
    const test::HeapPeak peak;
    LargeCommunicator made(ranks, graph);
    const struct {
      const char* what;
      void (LargeCommunicator::*run)();
    } kSteps[] = {{"records", &LargeCommunicator::read_records},
                  {"hosts and facts", &LargeCommunicator::agree},
                  {"channels", &LargeCommunicator::find_channels},
                  {"kernels between hosts", &LargeCommunicator::span},
                  {"layout of a host", &LargeCommunicator::lay_out}};
    double all = 0;
    for (const auto& step : kSteps) {
      const auto began = Clock::now();
      (made.*step.run)();
      all += seconds_since(began);
      std::printf("%6d records: %-22s %7.1f ms, %5.1f MB at most\n", ranks, step.what,
                  seconds_since(began) * 1e3, static_cast<double>(peak.bytes()) / 1e6);
    }
    std::printf("%6d records: %.2f s of %.0f s\n", ranks, all, kSeconds);
    bytes[i] = peak.bytes();
  }
  EXPECT_LE(bytes[1], kMaxBytes);
  EXPECT_LE(bytes[1], bytes[0] * 9) << "8 times as many ranks";
}

}  // namespace
}  // namespace rondo
