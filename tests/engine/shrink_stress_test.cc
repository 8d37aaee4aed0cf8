// SPDX-License-Identifier: Apache-2.0
// Random programs of deaths, late ranks, ranks that give up, wrong lists, shrink and grow. At the
// end the living are in one communicator; every try that failed has named its reason.
//
// RONDO_SHRINK_PROGRAMS sets their number (12 of threads and 4 of processes). A failure
// prints the seed of its program: RONDO_TEST_SEED=SEED RONDO_SHRINK_PROGRAMS=1 repeats it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>

#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/seed.h"

namespace rondo::test {
namespace {

using Clock = std::chrono::steady_clock;

int programs(int otherwise) {
  const char* asked = std::getenv("RONDO_SHRINK_PROGRAMS");
  return asked != nullptr ? std::atoi(asked) : otherwise;
}

// What a rank does in one round. Times in seconds.
struct Fate {
  enum End { kLives, kEndsBefore, kEndsDuring };
  End end = kLives;
  double late = 0;               // comes so much later
  double ends_after = 0;         // kEndsDuring: from its first try, unless a try succeeds
  std::vector<double> timeouts;  // of its first tries; later ones are long
  int wrongly_left_out = -1;     // in its first try
};

std::vector<Fate> fates_of(std::mt19937& random, int size, bool may_end) {
  const auto chance = [&](int of) { return random() % of == 0; };
  const auto up_to = [&](double seconds) {
    return std::uniform_real_distribution<double>(0, seconds)(random);
  };
  std::vector<Fate> fates(static_cast<std::size_t>(size));
  for (Fate& fate : fates) {
    if (may_end && chance(4)) fate.end = chance(2) ? Fate::kEndsBefore : Fate::kEndsDuring;
    if (chance(2)) fate.late = up_to(0.03);
    fate.ends_after = up_to(0.03);
    for (int tries = static_cast<int>(random() % 3); tries > 0; --tries)
      fate.timeouts.push_back(0.001 + up_to(0.05));
  }
  fates[random() % fates.size()].end = Fate::kLives;
  // At most one rank: two with the same wrong list would be right together.
  if (size > 2 && chance(16)) {
    const auto who = random() % fates.size();
    fates[who].wrongly_left_out =
        static_cast<int>((who + 1 + random() % (fates.size() - 1)) % fates.size());
  }
  return fates;
}

// Empty: its ranks sum.
std::string wrong_with(Communicator& comm) {
  SampleCall sum(Collective::kAllReduce, 100, comm.size());
  const Status done = comm.run({&sum.call, 1});
  if (!done.ok()) return "a sum: " + done.error().text;
  if (sum.output()[99] == comm.size()) return "";
  return fmt::format("{} ranks sum {}", comm.size(), sum.output()[99]);
}

struct Outcome {
  std::shared_ptr<Communicator> child;  // null: it has ended, or `wrong`
  std::string wrong;
};

// Tries until the child's first sum is right: before that, another rank may not have the child.
Outcome survive(Communicator& comm, const Fate& fate,
                const std::function<std::vector<int>()>& ended, const std::function<void()>& die) {
  const auto began = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  const auto is_over = [&] { return fate.end == Fate::kEndsDuring && seconds() > fate.ends_after; };
  std::string last;
  for (std::size_t tries = 0; seconds() < kLongestWait; ++tries) {
    std::vector<int> excluded = ended();
    const int wrong = tries == 0 ? fate.wrongly_left_out : -1;
    if (wrong >= 0 && wrong != comm.rank() && static_cast<int>(excluded.size()) + 2 < comm.size() &&
        std::find(excluded.begin(), excluded.end(), wrong) == excluded.end())
      excluded.push_back(wrong);
    CommOptions options = short_timeouts();
    if (tries < fate.timeouts.size()) options.init_timeout_seconds = fate.timeouts[tries];
    auto made = comm.shrink(excluded, options, [&] {
      if (is_over()) die();
      return is_over();
    });
    if (made.ok()) {
      last = wrong_with(**made);
      if (last.empty()) return {*made, ""};
      continue;
    }
    last = made.error().text;
    if (last.empty() || made.code() == StatusCode::kInternalError)
      return {nullptr, fmt::format("rank {}: no reason: '{}'", comm.rank(), last)};
    if (is_over()) return die(), Outcome{};
  }
  return {nullptr, fmt::format("rank {} of {} is alone: {}", comm.rank(), comm.size(), last)};
}

class ThreadProgram {
 public:
  explicit ThreadProgram(unsigned seed) : random_(seed) {}

  std::string run() {
    comms_ = make_communicators(3 + static_cast<int>(random_() % 4));
    for (int round = 0; round < 2 && wrong_.empty(); ++round) {
      lose_some();
      if (wrong_.empty() && random_() % 2 == 0) grow(random_() % 4 == 0);
    }
    return wrong_;
  }

 private:
  void lose_some() {
    const std::vector<Fate> fates = fates_of(random_, size(), true);
    std::vector<std::atomic<bool>> ended(comms_.size());
    Communicators children(comms_.size());
    on_threads(size(), [&](int rank) {
      const Fate& fate = fates[rank];
      nap(fate.late);
      Outcome outcome;
      if (fate.end != Fate::kEndsBefore)
        outcome = survive(
            *comms_[rank], fate,
            [&] {
              std::vector<int> found;
              for (std::size_t r = 0; r < ended.size(); ++r)
                if (ended[r]) found.push_back(static_cast<int>(r));
              return found;
            },
            [] {});
      children[rank] = outcome.child;
      if (!outcome.wrong.empty()) note(outcome.wrong);
      if (children[rank] == nullptr) {
        comms_[rank].reset();
        ended[rank] = true;
      }
    });
    std::erase(children, nullptr);
    comms_ = std::move(children);
    for (const auto& comm : comms_)
      if (comm->size() != size())
        note(fmt::format("{} live, in a communicator of {}", size(), comm->size()));
    std::sort(comms_.begin(), comms_.end(),
              [](const auto& a, const auto& b) { return a->rank() < b->rank(); });
  }

  // missing: the new rank never comes, so nobody grows.
  void grow(bool missing) {
    const auto id = bootstrap::make_unique_id();
    if (!id.ok()) return note(id.error().text);
    const std::vector<Fate> fates = fates_of(random_, size() + 1, false);
    Communicators grown(comms_.size() + 1);
    on_threads(size() + (missing ? 0 : 1), [&](int rank) {
      nap(fates[rank].late);
      CreateRequest request;
      request.rank = rank;
      request.size = size() + 1;
      request.id = *id;
      request.options = missing ? short_timeouts(0.05) : short_timeouts();
      auto made = Communicator::create(request);
      const bool is_named = !made.ok() && !made.error().text.empty();
      if (missing && !is_named)
        note("a rank that did not come: " + (made.ok() ? "met" : made.error().text));
      if (missing) return;
      if (!made.ok()) return note("grow: " + made.error().text);
      const std::string wrong = wrong_with(**made);
      if (!wrong.empty()) note("after grow: " + wrong);
      grown[rank] = *made;
    });
    if (!missing) comms_ = std::move(grown);
  }

  int size() const { return static_cast<int>(comms_.size()); }
  void note(const std::string& wrong) {
    std::lock_guard lock(mutex_);
    wrong_ += wrong + "\n";
  }

  std::mt19937 random_;
  Communicators comms_;  // of the living, by rank
  std::mutex mutex_;
  std::string wrong_;
};

TEST(RandomShrinks, OfThreadsEndWithTheLivingInOneCommunicator) {
  const unsigned first = static_cast<unsigned>(test_seed());
  const int count = programs(12);
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    const SeedTrace trace(first + static_cast<unsigned>(i));
    EXPECT_EQ(ThreadProgram(first + static_cast<unsigned>(i)).run(), "");
  }
}

constexpr int kSurvived = 1, kEnded = 2;  // stages

// Ranks end by SIGKILL; the others know it from rondoCommGetEnded's list alone.
void run_processes(unsigned seed) {
  std::mt19937 random(seed);
  const int size = 3 + static_cast<int>(random() % 3);
  Job job = short_timeouts();
  if (random() % 3 == 0)
    for (int rank = 0; rank < size; ++rank) job.hosts.push_back(random() % 2 == 0 ? "a" : "b");
  const std::vector<Fate> fates = fates_of(random, size, true);
  RankProcesses ranks(size, job, [&](EngineRank& seat) {
    const Fate& fate = fates[seat.rank];
    nap(fate.late);
    const auto die = [&] {
      seat.mark(kEnded);
      raise(SIGKILL);
    };
    if (fate.end == Fate::kEndsBefore) die();
    const Outcome outcome = survive(
        *seat.comm, fate, [&] { return seat.comm->ended_ranks(); }, die);
    seat.expect(outcome.wrong.empty(), outcome.wrong);
    if (outcome.child) seat.mine().value = static_cast<std::uint64_t>(outcome.child->size());
    seat.mark(kSurvived);
    sleep_until_killed();
  });
  const BoardSeat* const seats = ranks.board().seats;
  const auto is_settled = [&](int rank) { return seats[rank].stage != 0; };
  const auto all_settled = [&] {
    for (int rank = 0; rank < size; ++rank)
      if (!is_settled(rank)) return false;
    return true;
  };
  EXPECT_TRUE(wait_until(all_settled));
  ranks.check_expectations();
  int living = 0;
  for (int rank = 0; rank < size; ++rank) living += seats[rank].stage == kSurvived ? 1 : 0;
  for (int rank = 0; rank < size; ++rank) {
    if (seats[rank].stage != kSurvived) continue;
    EXPECT_EQ(static_cast<int>(seats[rank].value), living) << "rank " << rank;
  }
}

TEST(RandomShrinks, OfProcessesEndWithTheLivingInOneCommunicator) {
  const unsigned first = static_cast<unsigned>(test_seed());
  const int count = programs(4);
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    const SeedTrace trace(first + static_cast<unsigned>(i));
    run_processes(first + static_cast<unsigned>(i));
  }
}

}  // namespace
}  // namespace rondo::test
