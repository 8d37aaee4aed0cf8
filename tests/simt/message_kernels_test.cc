// SPDX-License-Identifier: Apache-2.0
// The kernel of point-to-point messages on the emulated machine, cut and assigned as
// message_launches.h does it: random messages among ranks of several devices, with few slots and
// CTAs, in seed mode and in weak memory.
#include <deque>
#include <map>
#include <set>

#include "collectives/gpu/plan/message_launches.h"
#include "kernels/cuda/messages.h"
#include "tests/simt/machine_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

using cuda::MessageArgs;
using gpu::MessageLaunch;
using gpu::MessageMove;

constexpr int kMaxMessageRanks = 8;

struct Message {
  int from, to;
  std::uint64_t bytes;
  unsigned shift_in = 0, shift_out = 0;  // bytes by which buffers are unaligned
};

struct Terms {
  int ranks = 2, max_ctas = 4, slots = 2;
  gpu::MessageShape shape{2, 128};
};

// Ranks, one per device, with connections between all pairs.
class MessageRanks {
 public:
  MessageRanks(TestMachine& machine, const Terms& terms) : machine_(machine), terms_(terms) {
    const int n = terms.ranks;
    const auto ends = static_cast<std::size_t>(cuda::message_ends(n));
    controls_ = machine.allocate<cuda::Control>(static_cast<std::size_t>(n));
    constexpr std::uint64_t kFarTooLong = 20'000'000'000;  // ns: timeout of ranks
    for (int r = 0; r < n; ++r) {
      control(r).limit_ns = kFarTooLong;
      ends_.push_back(machine.allocate<cuda::DeviceEnd>(ends, r));
      waits_.push_back(machine.allocate<std::uint32_t>(ends));
    }
    for (int r = 0; r < n; ++r)
      links_.push_back(
          machine.allocate<cuda::MessageLink>(static_cast<std::size_t>(n * cuda::kDirections)));
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to)
        if (from != to) connect(from, to);
  }

  // Runs all messages, each rank's launches one after the other. True if everything has arrived.
  bool exchange(const std::vector<Message>& messages) {
    place(messages);
    std::vector<std::vector<MessageLaunch>> launches;
    for (int r = 0; r < terms_.ranks; ++r)
      launches.push_back(plan_message_launches(moves_of(r), terms_.ranks, terms_.max_ctas));
    std::size_t maximum = 0;
    for (const auto& of_rank : launches) maximum = std::max(maximum, of_rank.size());
    const auto queue = [this](int r, const std::vector<MessageLaunch>& of_rank) {
      for (const MessageLaunch& one : of_rank) queues_[r].push_back(one);
      if (!queues_[r].empty()) launch_next(r);
    };
    for (int r = 0; r < terms_.ranks; ++r) queue(r, launches[r]);
    return machine_.run() && have_arrived();
  }
  // Starts the parts of some ranks. They wait without limit for those of the others.
  void begin(const std::vector<int>& ranks, const std::vector<Message>& messages) {
    place(messages);
    for (const int rank : ranks) join(rank);
  }
  void join(int rank) {
    for (const MessageLaunch& one :
         plan_message_launches(moves_of(rank), terms_.ranks, terms_.max_ctas))
      queues_[rank].push_back(one);
    launch_next(rank);
  }
  bool has_arrived(std::size_t message) const {
    const Placed& one = placed_[message];
    for (std::uint64_t i = 0; i < one.of.bytes; ++i)
      if (machine_.on_host(one.out)[i] != value_of(message, i)) return false;
    for (std::uint64_t i = 0; i < 16; ++i)  // and nothing else was written
      if (machine_.on_host(one.out)[one.of.bytes + i] != std::byte{0}) return false;
    return true;
  }

  cuda::Control& control(int rank) { return machine_.on_host(controls_)[rank]; }
  std::uint32_t wait(int rank, int peer, int direction, int channel) const {
    return machine_.on_host(waits_[rank])[cuda::message_end(peer, direction, channel)];
  }
  // Bytes used in a slot of a pair, as the sender reports it to a network proxy.
  std::uint64_t used(int from, int to, int channel, int slot) const {
    return machine_.on_host(used_.at({from, to}))[channel * terms_.slots + slot];
  }
  bool nobody_waits() const {
    for (std::uint32_t* const words : waits_)
      for (int e = 0; e < cuda::message_ends(terms_.ranks); ++e)
        if (machine_.on_host(words)[e] != 0) return false;
    return true;
  }

 private:
  struct Placed {
    Message of;
    std::byte *in, *out;
  };
  static std::byte value_of(std::size_t message, std::uint64_t i) {
    return static_cast<std::byte>(message * 37 + i * 11 + i / 251);
  }
  void place(const std::vector<Message>& messages) {
    placed_.clear();
    for (const Message& one : messages) {
      Placed made{one, machine_.allocate<std::byte>(one.bytes + one.shift_in + 16, one.from),
                  machine_.allocate<std::byte>(one.bytes + one.shift_out + 16, one.to)};
      made.in += one.shift_in;
      made.out += one.shift_out;
      for (std::uint64_t i = 0; i < one.bytes; ++i)
        machine_.on_host(made.in)[i] = value_of(placed_.size(), i);
      placed_.push_back(made);
    }
  }
  bool have_arrived() const {
    for (std::size_t m = 0; m < placed_.size(); ++m)
      if (!has_arrived(m)) return false;
    return true;
  }
  std::vector<MessageMove> moves_of(int rank) const {
    std::vector<MessageMove> moves;
    for (const Placed& one : placed_) {
      const bool sends = one.of.from == rank, receives = one.of.to == rank;
      if (!sends && !receives) continue;
      moves.push_back({one.of.from, one.of.to, sends ? one.in : nullptr,
                       receives ? one.out : nullptr, one.of.bytes, terms_.shape});
    }
    return moves;
  }

  void launch_next(int rank) {
    const MessageLaunch launch = queues_[rank].front();
    queues_[rank].pop_front();
    MessageArgs args = launch.args;
    args.call.count = static_cast<std::uint64_t>(rank);
    for (std::size_t s = 0; s < launch.ranks.size(); ++s)
      args.station[s] = {ends_[launch.ranks[s]], links_[launch.ranks[s]], waits_[launch.ranks[s]],
                         controls_ + launch.ranks[s]};
    const MachineShape shape{.ctas = static_cast<unsigned>(launch.ctas),
                             .threads = launch.threads,
                             .shared_bytes = cuda::kConnectedShared,
                             .device = rank};
    const auto grid = machine_.launch("messages", shape, [args] { cuda::Messages::run(args); });
    grid->when_over = [this, rank, over = grid->when_over](Grid& ended) {
      if (!queues_[rank].empty()) launch_next(rank);
      over(ended);
    };
  }

  void connect(int from, int to) {
    const auto slots = static_cast<std::uint64_t>(terms_.slots);
    constexpr std::size_t kCounters = cuda::kMessageCounterBytes * cuda::kMessageChannels;
    cuda::MessageLink link{};
    link.slots = machine_.allocate<std::byte>(
        terms_.shape.slot_bytes * slots * static_cast<std::uint64_t>(terms_.shape.channels), to);
    link.tails = machine_.allocate<std::byte>(kCounters, to);
    link.heads = machine_.allocate<std::byte>(kCounters, from);
    link.used = machine_.allocate<std::uint64_t>(slots * cuda::kMessageChannels);
    used_[{from, to}] = link.used;
    link.slot_bytes = terms_.shape.slot_bytes;
    link.slot_count = static_cast<std::uint32_t>(slots);
    link.peer = to;
    machine_.on_host(links_[from])[to * cuda::kDirections + cuda::kOutgoing] = link;
    link.peer = from;
    machine_.on_host(links_[to])[from * cuda::kDirections + cuda::kIncoming] = link;
  }

  TestMachine& machine_;
  const Terms terms_;
  cuda::Control* controls_;
  std::vector<cuda::DeviceEnd*> ends_;
  std::vector<cuda::MessageLink*> links_;
  std::vector<std::uint32_t*> waits_;
  std::map<std::pair<int, int>, std::uint64_t*> used_;  // by sender and receiver
  std::vector<Placed> placed_;
  std::deque<MessageLaunch> queues_[kMaxMessageRanks];
};

std::vector<Message> random_messages(Random& random, int ranks, std::uint64_t number,
                                     std::uint64_t max_bytes) {
  std::vector<Message> messages;
  const auto rank = [&] { return static_cast<int>(random.below(static_cast<unsigned>(ranks))); };
  for (std::uint64_t m = 0; m < number; ++m)
    messages.push_back({rank(), rank(), random.one_in(6) ? 0 : random.below(max_bytes),
                        static_cast<unsigned>(random.below(17)),
                        random.one_in(2) ? 0 : static_cast<unsigned>(random.below(17))});
  return messages;
}

// Some to the rank itself, some empty, several per pair; two groups in a row use the same slots.
TEST(MessageKernels, MoveRandomGroupsForEveryNumberOfRanks) {
  for_each_round(3, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5, 8}) {
      const bool weak = random.one_in(3);
      TestMachine machine({.seed = seed, .weak = weak, .devices = kMaxMessageRanks});
      Terms terms{.ranks = n, .max_ctas = 1 + static_cast<int>(random.below(6))};
      terms.shape.channels = 1 + static_cast<int>(random.below(3));
      MessageRanks ranks(machine, terms);
      for (int group = 0; group < 2; ++group) {
        const auto messages =
            random_messages(random, n, 1 + random.below(3 * n), weak ? 300 : 3000);
        ASSERT_TRUE(ranks.exchange(messages))
            << n << " ranks, group " << group << ", " << terms.max_ctas << " CTAs";
      }
      EXPECT_TRUE(ranks.nobody_waits());
    }
  });
}

// All to all, with messages larger than the slots, on as few as one CTA, which then sends and
// receives in turn.
TEST(MessageKernels, ExchangeMoreThanSlotsHoldOnFewCtas) {
  for_each_round(2, [](std::uint64_t seed) {
    for (const int max_ctas : {1, 2, 3}) {
      TestMachine machine({.seed = seed, .devices = kMaxMessageRanks});
      MessageRanks ranks(machine, {.ranks = 5, .max_ctas = max_ctas});
      std::vector<Message> messages;
      for (int from = 0; from < 5; ++from)
        for (int to = 0; to < 5; ++to) messages.push_back({from, to, 1500});
      EXPECT_TRUE(ranks.exchange(messages)) << max_ctas << " CTAs";
    }
  });
}

// More items than one launch can hold.
TEST(MessageKernels, MoveGroupsOfSeveralLaunches) {
  for_each_round(1, [](std::uint64_t seed) {
    Random random(seed);
    TestMachine machine({.seed = seed, .devices = kMaxMessageRanks});
    MessageRanks ranks(machine, {.ranks = 3, .max_ctas = 4});
    EXPECT_TRUE(ranks.exchange(random_messages(random, 3, 600, 200)));
  });
}

TEST(MessageKernels, ReportForWhomTheyWaitAndEndSoonAfterAnAbort) {
  TestMachine machine({.seed = 3, .devices = kMaxMessageRanks});
  MessageRanks ranks(machine, {.ranks = 3});
  ranks.begin({0}, {{2, 0, 100}, {0, 1, 5000}});
  for (int turn = 0; turn < 40000; ++turn) machine.gang().turn();
  EXPECT_EQ(ranks.wait(0, 2, cuda::kIncoming, 0), 1u);  // for its first slot
  EXPECT_EQ(ranks.wait(0, 1, cuda::kOutgoing, 0), 3u);  // two slots needed no wait
  EXPECT_EQ(ranks.wait(0, 1, cuda::kIncoming, 0), 0u);
  ranks.control(0).abort = 1;
  EXPECT_TRUE(machine.run());
}

// Two channels with two slots of 128 bytes: 640 bytes go through the first, 460 through the other.
TEST(MessageKernels, ReportHowManyBytesEachSlotHolds) {
  TestMachine machine({.seed = 1, .devices = kMaxMessageRanks});
  MessageRanks ranks(machine, {.ranks = 2});
  ASSERT_TRUE(ranks.exchange({{0, 1, 1100}, {1, 0, 5}}));
  EXPECT_EQ(ranks.used(0, 1, 0, 0), 128u);
  EXPECT_EQ(ranks.used(0, 1, 0, 1), 128u);
  EXPECT_EQ(ranks.used(0, 1, 1, 0), 128u);
  EXPECT_EQ(ranks.used(0, 1, 1, 1), 460u - 3 * 128);
  EXPECT_EQ(ranks.used(1, 0, 0, 0), 5u);
  EXPECT_EQ(ranks.used(1, 0, 1, 0), 0u);
}

// Messages over a network get their own CTAs if there are four.
TEST(MessageLaunches, KeepMessagesOverANetworkApart) {
  std::vector<std::byte> memory(1000);
  std::vector<MessageMove> moves;
  for (int peer = 1; peer < 8; ++peer)
    for (const bool sends : {true, false}) {
      MessageMove& move = moves.emplace_back();
      move.from = sends ? 0 : peer;
      move.to = sends ? peer : 0;
      if (sends) move.send = memory.data();
      if (!sends) move.receive = memory.data();
      move.bytes = 1000;
      move.shape = {1, 1024, peer >= 4};
    }
  for (const int max_ctas : {1, 2, 3, 4, 5, 8, 14, 32}) {
    const auto launches = plan_message_launches(moves, 8, max_ctas);
    ASSERT_EQ(launches.size(), 1u);
    const MessageLaunch& launch = launches[0];
    EXPECT_EQ(launch.ctas, std::min(max_ctas, 14));
    EXPECT_EQ(launch.args.first[launch.ctas], 14);
    int kinds_used = 0;
    for (int cta = 0; cta < launch.ctas; ++cta) {
      std::set<std::pair<bool, bool>> kinds;
      for (unsigned i = launch.args.first[cta]; i < launch.args.first[cta + 1]; ++i) {
        const int peer = launch.args.end[i] / cuda::kMessageChannels / cuda::kDirections;
        kinds.insert({launch.args.sends(i), max_ctas >= 4 && peer >= 4});
      }
      kinds_used = std::max(kinds_used, static_cast<int>(kinds.size()));
    }
    EXPECT_EQ(kinds_used, max_ctas == 1 ? 2 : 1) << max_ctas << " CTAs";
  }
}

// Two messages in each direction, on one CTA per direction. The peer of the first ones is late; the
// others are larger than the slots.
int passed_a_late_peer(std::uint64_t seed) {
  TestMachine machine({.seed = seed, .devices = kMaxMessageRanks});
  MessageRanks ranks(machine, {.ranks = 4, .max_ctas = 2});
  ranks.begin({0, 2}, {{0, 1, 1000}, {3, 0, 1000}, {0, 2, 1000}, {2, 0, 1000}});
  for (int turn = 0; turn < 400000; ++turn) machine.gang().turn();
  const int passed = (ranks.has_arrived(2) ? 1 : 0) + (ranks.has_arrived(3) ? 1 : 0);
  EXPECT_FALSE(ranks.has_arrived(0) || ranks.has_arrived(1));
  for (const int late : {1, 3}) ranks.join(late);
  EXPECT_TRUE(machine.run());
  for (std::size_t m = 0; m < 4; ++m) EXPECT_TRUE(ranks.has_arrived(m)) << m;
  return passed;
}

TEST(MessageKernels, DoNotWaitBehindAMessageWhosePeerIsLate) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(passed_a_late_peer(seed), 2);
}

TEST(MessageKernels, AreSoundForEverySeed) {
  const std::vector<Message> two_each_way{{0, 1, 1000}, {1, 0, 1000}, {0, 1, 400}, {1, 0, 400}};
  for (const bool weak : {false, true})
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      TestMachine machine({.seed = seed, .weak = weak, .devices = kMaxMessageRanks});
      MessageRanks ranks(machine, {.ranks = 2});
      ASSERT_TRUE(ranks.exchange(two_each_way)) << "seed " << seed << ", weak " << weak;
    }
}

}  // namespace
}  // namespace rondo::simt
