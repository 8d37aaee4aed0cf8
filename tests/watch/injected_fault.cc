// SPDX-License-Identifier: Apache-2.0
#include "tests/watch/injected_fault.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

namespace rondo::test {

const char* name_of(Injected what) {
  constexpr const char* kNames[] = {"stays outside",
                                    "is stopped",
                                    "is killed",
                                    "is held",
                                    "leaves",
                                    "makes another call",
                                    "blocks its stream",
                                    "orders communicators differently",
                                    "keeps its message",
                                    "does not come to an exchange of all",
                                    "does not come to one of neighbours",
                                    "is on a frozen host"};
  return kNames[what];
}

std::string InjectedFault::text() const {
  return fmt::format("rank {} of {} {} after {} calls, {} ahead, version {}{}", culprit, ranks,
                     name_of(what), calls, ahead, version, network ? ", network" : "");
}

std::vector<Blame::Kind> InjectedFault::expected() const {
  switch (what) {
    case kIsStopped:
      return {Blame::kStopped};
    case kIsKilled:
      return {Blame::kEnded};
    case kIsHeld:
      return {Blame::kNotEntered, Blame::kLate};
    case kLeaves:  // the first communicator, and does not enter the call of the second one
      return {Blame::kLeft, Blame::kNotEntered};
    case kDiffers:
      return {Blame::kOtherCall};
    case kBlocksStream:  // in one communicator; soon its host is outside of the other one
      return {Blame::kLate, Blame::kNotEntered};
    case kOrders:
      return {Blame::kCycle};
    case kHostFreezes:
      return {Blame::kSilent};
    default:
      return {Blame::kNotEntered};
  }
}

bool InjectedFault::names(const Blame& blame) const {
  const std::vector<Blame::Kind> kinds = expected();
  if (std::find(kinds.begin(), kinds.end(), blame.kind) == kinds.end()) return false;
  if (what == kOrders) return true;  // no order is the right one
  if (what == kHostFreezes) return blame.rank / 2 == culprit / 2;
  return blame.rank == culprit || (what == kDiffers && ranks == 2);
}

InjectedFault random_fault(std::mt19937& random) {
  InjectedFault fault;
  fault.what = static_cast<Injected>(random() % kHostFreezes);
  fault.ranks = 2 + static_cast<int>(random() % 4);
  fault.culprit = static_cast<int>(random() % static_cast<unsigned>(fault.ranks));
  fault.calls = 1 + static_cast<int>(random() % 60);
  fault.ahead = static_cast<int>(random() % 3) * 4;
  fault.count = std::size_t{1} << random() % 18;
  fault.version = 4 + static_cast<int>(random() % 4);
  if (fault.version == 4) fault.version = 5;  // its layout is another test's
  fault.network = random() % 2 == 0;
  return fault;
}

void hold_thread(int) { nap(kLongestWait); }

// A busy machine makes any rank late for a while. Another kind of blame is no accident.
bool is_only_slow(const std::vector<Blame>& blamed) {
  return std::all_of(blamed.begin(), blamed.end(), [](const Blame& blame) {
    return blame.kind == Blame::kLate || blame.kind == Blame::kNotEntered;
  });
}

SimulatedRank::Options options_of(const RankSeat& seat, const InjectedFault& fault) {
  SimulatedRank::Options options;
  options.plugin = RONDO_TEST_WATCH_PLUGIN;
  options.version = fault.version;
  options.rank = seat.rank;
  options.ranks = seat.size;
  options.network = fault.network;
  options.hosts = fault.hosts;
  return options;
}

// The messages of an all-to-all, that to itself first, as NCCL makes them.
static std::vector<int> all_from(int rank, int ranks) {
  std::vector<int> peers;
  for (int i = 0; i < ranks; ++i) peers.push_back((rank + i) % ranks);
  return peers;
}

static std::vector<int> neighbours_of(int rank, int ranks) {
  std::vector<int> peers;
  if (rank > 0) peers.push_back(rank - 1);
  if (rank + 1 < ranks) peers.push_back(rank + 1);
  return peers;
}

static void hang(RankSeat& seat) {
  seat.mark(2);
  seat.wait_flag(1);
}

void make_calls(RankSeat& seat, const InjectedFault& fault, const Comms& comms,
                const std::function<bool(int call)>& is_faulty) {
  const bool is_culprit = seat.rank == fault.culprit;
  if (is_culprit && fault.what == kIsHeld) signal(SIGUSR1, hold_thread);
  SimulatedRank::Options options = options_of(seat, fault);
  SimulatedRank first(options, comms.first);
  options.hash = 0x5678;
  options.name = "tensor";
  SimulatedRank second(options, comms.second);
  for (int call = 0;; ++call) {
    if (is_faulty(call)) {
      const bool skips = fault.what == kSkipsAll || fault.what == kSkipsNext;
      if (is_culprit && (skips || fault.what == kStaysOutside || fault.what == kKeepsMessage))
        return hang(seat);
      if (skips) {
        first.exchange(fault.what == kSkipsAll ? all_from(seat.rank, seat.size)
                                               : neighbours_of(seat.rank, seat.size),
                       fault.count);
        return hang(seat);
      }
      if (is_culprit && fault.what == kLeaves) return first.finish(), hang(seat);
      if (is_culprit && fault.what == kDiffers)
        return first.collective("Broadcast", 7, 0), hang(seat);
      if (is_culprit && fault.what == kBlocksStream) first.block_stream(true);
      if (fault.what == kKeepsMessage) {
        if (seat.rank == (fault.culprit + 1) % seat.size)
          first.message(false, fault.culprit, fault.count);
        return hang(seat);
      }
      if (fault.what == kOrders) {
        SimulatedRank& leading = is_culprit ? second : first;
        leading.collective("AllReduce", fault.count);
        leading.wait_for_gpu();
      }
    }
    first.collective("AllReduce", fault.count);
    second.collective("AllGather", fault.count);
    if (call % 4 == 3) first.exchange(all_from(seat.rank, seat.size), fault.count);
    if (call % 4 == 1) first.exchange(neighbours_of(seat.rank, seat.size), fault.count);
    first.wait_for_gpu(static_cast<std::size_t>(fault.ahead));
    second.wait_for_gpu(static_cast<std::size_t>(fault.ahead));
  }
}

void inject(RankProcesses& ranks, const InjectedFault& fault) {
  if (fault.what == kIsStopped) ranks.send(fault.culprit, SIGSTOP);
  if (fault.what == kIsKilled) ranks.send(fault.culprit, SIGKILL);
  if (fault.what == kIsHeld) ranks.send(fault.culprit, SIGUSR1);
  if (fault.what != kHostFreezes) return;
  const int first = fault.culprit / 2 * 2;
  for (int rank = first; rank < first + 2; ++rank) ranks.send(rank, SIGSTOP);
}

void print_and_expect(Tallies& tallies) {
  constexpr double kSoon = 3;
  std::size_t injected = 0, soon = 0, wrong = 0;
  for (auto& [what, tally] : tallies) {
    std::vector<double>& after = tally.named_after;
    std::sort(after.begin(), after.end());
    fmt::print("a rank {}: {} of {} named", name_of(what), after.size(), tally.injected);
    if (!after.empty())
      fmt::print(", after {:.1f} s (median), {:.1f} s (longest)", after[after.size() / 2],
                 after.back());
    fmt::print("; {} wrong\n", tally.wrong.size());
    for (const std::string& text : tally.wrong) fmt::print("  wrong: {}\n", text);
    injected += static_cast<std::size_t>(tally.injected);
    soon += static_cast<std::size_t>(std::upper_bound(after.begin(), after.end(), kSoon) -
                                     after.begin());
    wrong += tally.wrong.size();
  }
  if (injected < 100) return;  // by chance a busy machine delays one of few
  EXPECT_GE(soon * 100, injected * 99) << "named within 3 s";
  EXPECT_EQ(wrong, 0u);
}

}  // namespace rondo::test
