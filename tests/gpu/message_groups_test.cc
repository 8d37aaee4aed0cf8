// SPDX-License-Identifier: Apache-2.0
// Groups of messages between processes with their own GPUs, each group one kernel per device:
// random ones, of any size and alignment, several per pair and to the rank itself; plain, captured
// and replayed; collectives with unequal counts, which are such groups.
#include <algorithm>
#include <memory>
#include <set>

#include "api/rondo.h"
#include "tests/gpu/cliques.h"
#include "tests/gpu/process_bodies.h"
#include "tests/simt/machine/random.h"
#include "tests/support/seed.h"

namespace rondo::test {
namespace {

using simt::Random;

const NamedLayout kMessageGroupLayouts[] = {
    {"two", {{{0}, {1}}}},
    {"three", {{{0}, {1}, {2}}}},
    {"five", {{{4}, {2}, {1}, {0}, {3}}}},
    {"eight", {{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}}},
    {"two_of_two_threads", {{{0, 1}, {2, 3}}}},
    {"threads_that_share_a_gpu", {{{0, 0}, {1}}}},
};
const NamedLayout kMessageHosts[] = {
    {"two_hosts", {{{0}, {1}}, {"a", "b"}}},
    {"two_of_two", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}},
    {"two_of_three", {{{0}, {1}, {2}, {3}, {4}, {5}}, {"a", "a", "a", "b", "b", "b"}}},
    {"three_hosts", {{{0}, {1}, {2}}, {"a", "b", "c"}}},
    {"taking_turns", {{{0}, {1}, {2}, {3}}, {"a", "b", "a", "b"}}},
    {"hosts_of_threads", {{{0, 1}, {2, 3}}, {"a", "b"}}},
    {"threads_and_processes", {{{0, 1}, {2}, {3}}, {"a", "a", "b"}}},
};
const NamedLayout kMessageCliques[] = {
    {"two_joined", in_cliques({{{0}, {1}}, {"a", "b"}}, {1, 1})},
    {"two_joined_of_two", in_cliques({{{0, 1}, {2}, {3}}, {"a", "b", "b"}}, {1, 1, 1})},
    {"two_joined_of_four",
     in_cliques({{{0, 1, 2, 3}, {4, 5}, {6}, {7}}, {"a", "b", "b", "b"}}, {1, 1, 1, 1})},
    {"three_joined_of_two",
     in_cliques({{{0, 1}, {2}, {3}, {4, 5}}, {"a", "b", "b", "c"}}, {1, 1, 1, 1})},
    {"two_cliques", in_cliques({{{0, 1}, {2}, {3}, {4}}, {"a", "b", "c", "d"}}, {1, 1, 2, 2})},
};
constexpr const char* kMessageMachines[] = {"p2p=all", "p2p=none", "p2p=pairs",
                                            "p2p=all,mode=weak"};

struct Message {
  int from, to;
  std::size_t bytes, shift_in, shift_out;
};

// All ranks generate the same ones. most: max. bytes of a message; a few are much larger.
std::vector<Message> random_group(Random& random, int ranks, std::size_t number,
                                  std::size_t maximum) {
  const auto rank = [&] { return static_cast<int>(random.below(static_cast<unsigned>(ranks))); };
  std::vector<Message> messages;
  for (std::size_t m = 0; m < number; ++m)
    messages.push_back({rank(), rank(), random.one_in(6) ? 0 : random.below(maximum),
                        random.below(17), random.one_in(2) ? 0 : random.below(17)});
  return messages;
}

int process_of(const Layout& layout, int rank) {
  int process = 0;
  for (int left = rank; left >= static_cast<int>(layout.processes[process].size()); ++process)
    left -= static_cast<int>(layout.processes[process].size());
  return process;
}

std::byte value_of(std::size_t message, std::uint64_t round, std::size_t i) {
  return static_cast<std::byte>(message * 37 + round * 5 + i * 11 + i / 251);
}

// One rank's part of a group.
class Group {
 public:
  Group(NcclRank& seat, std::vector<Message> messages)
      : seat_(seat), messages_(std::move(messages)) {
    for (const Message& one : messages_) {
      in_.push_back(one.from == seat.rank ? std::make_unique<DeviceBuffer>(one.bytes, one.shift_in)
                                          : nullptr);
      out_.push_back(one.to == seat.rank ? std::make_unique<DeviceBuffer>(one.bytes, one.shift_out)
                                         : nullptr);
    }
  }
  void fill(std::uint64_t round) {
    for (std::size_t m = 0; m < messages_.size(); ++m) {
      Bytes content(messages_[m].bytes);
      for (std::size_t i = 0; i < content.size(); ++i) content[i] = value_of(m, round, i);
      if (in_[m]) in_[m]->put(content, 0, seat_.stream);
      if (out_[m]) out_[m]->put({}, 0, seat_.stream);
    }
  }
  void call() {
    NCCL_OK(ncclGroupStart());
    for (std::size_t m = 0; m < messages_.size(); ++m) {
      const Message& one = messages_[m];
      if (in_[m]) {
        NCCL_OK(ncclSend(in_[m]->data(), one.bytes, ncclUint8, one.to, seat_.comm, seat_.stream));
      }
      if (out_[m]) {
        NCCL_OK(
            ncclRecv(out_[m]->data(), one.bytes, ncclUint8, one.from, seat_.comm, seat_.stream));
      }
    }
    NCCL_OK(ncclGroupEnd());
  }
  void check(std::uint64_t round) {
    GPU_OK(gpu_api()->synchronize_stream(seat_.stream));
    for (std::size_t m = 0; m < messages_.size(); ++m) {
      if (!out_[m]) continue;
      const Message& one = messages_[m];
      out_[m]->get(seat_.stream);
      ASSERT_TRUE(out_[m]->guards_intact()) << "message " << m << " of " << one.bytes;
      for (std::size_t i = 0; i < one.bytes; ++i)
        ASSERT_EQ(out_[m]->host()[i], value_of(m, round, i))
            << "byte " << i << " of " << one.bytes << ", message " << m << " from " << one.from
            << " to " << one.to << ", round " << round;
    }
  }

 private:
  NcclRank& seat_;
  const std::vector<Message> messages_;
  std::vector<std::unique_ptr<DeviceBuffer>> in_, out_;
};

class MessageGroups : public testing::TestWithParam<std::tuple<NamedLayout, const char*>> {
 protected:
  static Layout layout(const Environment& more = {}) {
    const char* const simt = std::get<const char*>(GetParam());
    Environment all = more;
    all.emplace_back("RONDO_SIMT", simt);
    return on_machines_with(std::get<NamedLayout>(GetParam()).layout, simt).under(all);
  }
  // Threads on one GPU: in a hardware queue, work of one may be before work for which the peers of
  // another wait.
  static bool shares_gpus() {
    const auto& processes = std::get<NamedLayout>(GetParam()).layout.processes;
    return std::any_of(processes.begin(), processes.end(), [](const std::vector<int>& devices) {
      return std::set<int>(devices.begin(), devices.end()).size() < devices.size();
    });
  }
  static bool is_weak() {
    return std::string(std::get<const char*>(GetParam())).ends_with("mode=weak");
  }
  void SetUp() override {
    if (gpus_there() < std::get<NamedLayout>(GetParam()).layout.devices())
      GTEST_SKIP() << "too few GPUs";
  }
};
std::string name_of(const testing::TestParamInfo<std::tuple<NamedLayout, const char*>>& info) {
  std::string text =
      std::string(std::get<NamedLayout>(info.param).name) + "_" + std::get<const char*>(info.param);
  std::erase_if(text, [](char c) { return c == '=' || c == ','; });
  return text;
}
INSTANTIATE_TEST_SUITE_P(Layouts, MessageGroups,
                         testing::Combine(testing::ValuesIn(kMessageGroupLayouts),
                                          testing::ValuesIn(kMessageMachines)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cliques, MessageGroups,
                         testing::Combine(testing::ValuesIn(kMessageCliques),
                                          testing::Values("p2p=all", "p2p=none,mode=weak")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Hosts, MessageGroups,
                         testing::Combine(testing::ValuesIn(kMessageHosts),
                                          testing::Values("p2p=all", "p2p=none,mode=weak")),
                         name_of);

// With slots that hold only small parts of them.
TEST_P(MessageGroups, ArriveWhole) {
  const TestSeed drawn;
  const unsigned seed = drawn.value;
  const bool weak = is_weak();
  run_job(layout({{"RONDO_GPU_STAGING", "64K"}}), [=](NcclRank& seat) {
    const SeedTrace trace(seed);
    Random random(seed);
    for (std::uint64_t round = 0; round < 3; ++round) {
      Group group(seat, random_group(random, seat.size, 1 + random.below(5 * seat.size),
                                     weak ? 2000 : 6000));
      group.fill(round);
      ASSERT_TRUE(seat.board.meet());  // allocating may wait for kernels that wait for others
      group.call();
      group.check(round);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// A captured group, replayed and mixed with plain ones on the same pairs. Every rank has its own
// graph, so messages between ranks of one process are left out of it.
TEST_P(MessageGroups, AreReplayedAmongOthers) {
  const TestSeed drawn;
  const unsigned seed = drawn.value;
  const Layout where = layout({{"RONDO_GPU_STAGING", "64K"}});
  const bool one_at_a_time = shares_gpus();
  run_job(where, [=](NcclRank& seat) {
    const SeedTrace trace(seed);
    Random random(seed + 1);
    std::vector<Message> in_graph = random_group(random, seat.size, 2 * seat.size, 3000);
    std::erase_if(in_graph, [&](const Message& one) {
      return one.from != one.to && process_of(where, one.from) == process_of(where, one.to);
    });
    Group held(seat, std::move(in_graph));
    Group plain(seat, random_group(random, seat.size, 2 * seat.size, 3000));
    // Allocating may wait for kernels of other threads, which wait for the next calls here.
    ASSERT_TRUE(seat.board.meet());
    void* graph = nullptr;
    GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
    held.call();
    GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    for (std::uint64_t round = 0; round < 3; ++round) {
      held.fill(round);
      plain.fill(round);
      GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
      if (one_at_a_time) {
        held.check(round);
        ASSERT_TRUE(seat.board.meet());
      }
      plain.call();
      held.check(round);
      plain.check(round);
      if (testing::Test::HasFatalFailure()) return;
      ASSERT_TRUE(!one_at_a_time || seat.board.meet());
    }
    GPU_OK(gpu_api()->destroy_graph(graph));
  });
}

// Gathers, scatters and all-to-alls between, before and after messages on the same slots.
TEST_P(MessageGroups, MixWithCollectivesThatAreMessages) {
  const TestSeed drawn;
  const unsigned seed = drawn.value;
  run_job(layout({{"RONDO_GPU_STAGING", "64K"}, {"NCCL_ALGO", "ring"}}), [=](NcclRank& seat) {
    const SeedTrace trace(seed);
    Random random(seed + 2);
    for (const Collective which :
         {Collective::kAllToAll, Collective::kGather, Collective::kScatter}) {
      Group group(seat, random_group(random, seat.size, 2 * seat.size, 1000));
      group.fill(0);
      ASSERT_TRUE(seat.board.meet());
      group.call();
      const std::size_t count = 1 + random.below(2500);
      const int root = static_cast<int>(random.below(static_cast<unsigned>(seat.size)));
      const std::size_t shift = random.below(3);
      run_case(seat, {which, DataType::kUint8, RedOp::kSum, seat.size, root, count, 5},
               {false, shift, false});
      group.check(0);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Elements that rank `from` sends to `to`.
std::size_t count_between(int from, int to) {
  return static_cast<std::size_t>((from * 7 + to * 3) % 5) * 331;
}

TEST_P(MessageGroups, MakeAllToAllsOfCountsThatDiffer) {
  run_job(layout({{"RONDO_GPU_STAGING", "64K"}}), [](NcclRank& seat) {
    std::vector<std::size_t> send_counts, send_at, receive_counts, receive_at;
    std::size_t sent = 0, received = 0;
    for (int peer = 0; peer < seat.size; ++peer) {
      send_counts.push_back(count_between(seat.rank, peer));
      send_at.push_back(sent);
      sent += send_counts.back() + 1;
      receive_counts.push_back(count_between(peer, seat.rank));
      receive_at.push_back(received);
      received += receive_counts.back() + 1;
    }
    const auto pair = [&](int from, int to) {
      return static_cast<std::size_t>(from * seat.size + to);
    };
    DeviceBuffer in(sent, 0), out(received, 0);
    Bytes content(sent);
    for (int peer = 0; peer < seat.size; ++peer)
      for (std::size_t i = 0; i < send_counts[peer]; ++i)
        content[send_at[peer] + i] = value_of(pair(seat.rank, peer), 0, i);
    in.put(content, 0, seat.stream);
    out.put({}, 0, seat.stream);
    NCCL_OK(rondoAllToAllv(in.data(), send_counts.data(), send_at.data(), out.data(),
                           receive_counts.data(), receive_at.data(), ncclUint8, seat.comm,
                           seat.stream));
    out.get(seat.stream);
    for (int peer = 0; peer < seat.size; ++peer)
      for (std::size_t i = 0; i < receive_counts[peer]; ++i)
        ASSERT_EQ(out.host()[receive_at[peer] + i], value_of(pair(peer, seat.rank), 0, i))
            << "byte " << i << " from " << peer;
  });
}

class MessageGroupsOn : public testing::TestWithParam<Environment> {
 protected:
  // Ranks with a GPU each, on one host or each on its own host.
  static Layout layout(int ranks, const Environment& more = {}) {
    Layout made = as_processes(ranks, Gpus::kOneEach, GetParam()).under(more);
    if (is_on_hosts()) made.hosts = {"a", "b", "c"};
    made.hosts.resize(is_on_hosts() ? static_cast<std::size_t>(ranks) : 0);
    return made;
  }
  static bool is_on_hosts() { return GetParam().empty(); }
  void SetUp() override {
    if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Edges, MessageGroupsOn,
                         testing::Values(Environment{{"RONDO_SIMT", "p2p=all"}},
                                         Environment{{"RONDO_SIMT", "p2p=none"}}, Environment{}),
                         [](const auto& info) {
                           if (info.param.empty()) return std::string("network");
                           return std::string(info.index == 0 ? "P2P" : "host");
                         });

// Several MiB, split among the channels of a pair; and more messages than one launch can hold.
TEST_P(MessageGroupsOn, MayBeLargeOrMany) {
  run_job(layout(2), [](NcclRank& seat) {
    Group large(seat, {{0, 1, 3'000'001, 0, 3}, {1, 0, 2'500'000, 16, 0}, {0, 1, 40'000, 0, 0}});
    large.fill(0);
    large.call();
    large.check(0);
    std::vector<Message> many;
    for (int m = 0; m < 500; ++m) many.push_back({m % 2, 1 - m % 2, 10 + m % 300u, m % 5u, 0});
    Group small(seat, std::move(many));
    small.fill(1);
    small.call();
    small.check(1);
  });
}

// One CTA sends and receives in turn.
TEST_P(MessageGroupsOn, MoveOnOneCta) {
  run_job(layout(3, {{"NCCL_MAX_CTAS", "1"}, {"RONDO_GPU_STAGING", "64K"}}), [](NcclRank& seat) {
    std::vector<Message> all;
    for (int from = 0; from < 3; ++from)
      for (int to = 0; to < 3; ++to) all.push_back({from, to, 40'000, 1, 2});
    Group group(seat, std::move(all));
    group.fill(0);
    group.call();
    group.check(0);
  });
}

// Single messages, some sent before the receive is posted, some received before the send.
TEST_P(MessageGroupsOn, MayBeSingleMessagesInEitherOrder) {
  run_job(layout(3, {{"RONDO_GPU_STAGING", "64K"}}), [](NcclRank& seat) {
    for (const int first : {0, 1, 2})
      for (const int second : {0, 1, 2}) {
        if (first == second) continue;
        Group group(seat, {{first, second, 20'001, 1, 0}});
        Group back(seat, {{second, first, 333, 0, 5}});
        group.fill(0);
        back.fill(1);
        group.call();
        back.call();
        group.check(0);
        back.check(1);
      }
  });
}

// Rank 0's messages to the other rank of its host finish while those to another host cannot yet.
TEST(MessageGroupsOfHosts, DoNotKeepBackThoseWithinAHost) {
  if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
  const Layout layout{
      {{0}, {1}, {2}, {3}},
      {"a", "a", "b", "b"},
      {{"NCCL_MAX_CTAS", "4"}, {"RONDO_GPU_STAGING", "64K"}, {"RONDO_TIMEOUT", "120"}}};
  run_job(layout, [](NcclRank& seat) {
    std::vector<Message> all;
    for (const int peer : {1, 2, 3}) {
      all.push_back({0, peer, 60'000, 0, 0});
      all.push_back({peer, 0, 60'000, 0, 0});
    }
    Group group(seat, std::move(all));
    group.fill(0);
    if (seat.rank >= 2) {
      ASSERT_TRUE(seat.wait_flag(1));
    }
    group.call();
    group.check(0);
    if (seat.rank == 1) seat.board.flag = 1;
  });
}

}  // namespace
}  // namespace rondo::test
