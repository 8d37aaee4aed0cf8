// SPDX-License-Identifier: Apache-2.0
// How long the hosts of a job may take to answer before one of them counts as silent: by a
// simulated clock, with processes of two other hosts that answer when the test lets them.
#include "collectives/status/gather.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/process.h"
#include "collectives/status/diagnosis.h"
#include "tests/support/stepped_clock.h"
#include "transport/socket/tcp.h"
#include "transport/status/line_server.h"

namespace rondo::test {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kHash = 7, kPoint = 12;
constexpr milliseconds kTick{20}, kBudget{3000}, kNever{1'000'000};
const auth::Digest kProven = auth::sha256({});

// Rank `rank` in call 12, or, if it has not entered it, after call 11.
RankView one_rank(int rank, bool has_entered, double waits_seconds) {
  RankView view{.rank = rank, .pid = 100 + rank};
  view.process = static_cast<std::uint64_t>(1000 + rank);
  view.host = std::string(1, static_cast<char>('a' + rank));
  view.call = has_entered ? kPoint : kPoint - 1;
  view.finished = kPoint - 1;
  view.in_kernel = has_entered;
  view.waits_seconds = waits_seconds;
  view.waits_in = "AllReduce(count 4, float32)";
  view.watched.emplace().phase = has_entered ? "in_kernel" : "idle";
  for (std::uint64_t call = kPoint - 2; call <= view.call; ++call)
    view.watched->calls[call] = view.waits_in;
  return view;
}

JobView view_of_rank(RankView rank, int size = 3) {
  JobView view;
  view.communicators.push_back({.name = "", .hash = kHash, .size = size, .ranks = {}});
  view.communicators[0].ranks.push_back(std::move(rank));
  return view;
}

// A process of another host, with one rank.
class FakeHost {
 public:
  FakeHost(int rank, bool has_entered)
      : FakeHost(rank, rank, view_of_rank(one_rank(rank, has_entered, has_entered ? 3 : 0))) {}
  // That answers with this view of its host.
  FakeHost(int rank, int host, const JobView& view) : rank_(rank), host_(host) {
    const auto at = net::SocketAddress::v4({{127, 0, 0, 1}}, 0);
    auto listening = net::listen_at({&at, 1}).value();
    address_ = listening.addresses.front();
    const std::string text = view.to_json().text(-1);
    server_ = std::make_unique<status::LineServer>(std::vector<status::Word>{
        {"VIEW", [this, text](status::Conversation&, std::string_view) {
           return status::Reply("", false, std::make_unique<Held>(*this, text));
         }}});
    server_->accept_ranks(
        auth::Acceptor::open(std::move(listening.sockets), {.endpoint = endpoint()}).value(),
        [](const auth::Tag&) {
          return auth::KnownSecret{&kProven, false};
        });
  }

  // From when on it runs, and for how long it looks for its answer then; when it freezes.
  milliseconds runs_after{0}, answers_after{0}, freezes_after{kNever};

  void step(milliseconds now) {
    now_ = now;
    if (server_ && now >= runs_after && now < freezes_after) server_->step();
  }
  void end() { server_.reset(); }
  PeerProcessAddress address() const {
    PeerProcessAddress peer;
    peer.name = {100 + rank_, static_cast<std::uint64_t>(1000 + rank_)};
    peer.text = "process of rank " + std::to_string(rank_);
    peer.host = static_cast<std::uint64_t>(host_);
    peer.rank = {{address_}, kProven, endpoint()};
    return peer;
  }

 private:
  class Held final : public status::Task {
   public:
    Held(const FakeHost& host, std::string text)
        : host_(host), text_(std::move(text)), asked_(host.now_) {}
    void add_entries(std::vector<pollfd>*) const override {}
    net::Clock::time_point next() const override { return net::Clock::time_point::max(); }
    bool step(std::string* out) override {
      if (host_.now_ < asked_ + host_.answers_after) return false;
      *out += text_;
      return true;
    }

   private:
    const FakeHost& host_;
    const std::string text_;
    const milliseconds asked_;
  };
  std::string endpoint() const { return "status of rank " + std::to_string(rank_); }

  const int rank_, host_;
  net::SocketAddress address_;
  milliseconds now_{0};
  std::unique_ptr<status::LineServer> server_;
};

// Rank 0 is of this process, and its kernel waits; rank 1 has not entered the call; rank 2 has.
class GatherFromHosts : public testing::Test, public WatchedRanks {
 protected:
  void add_to(JobView* view) const override {
    RankView own = one_rank(0, true, 3);
    own.process = this_process()[0];
    view->merge(view_of_rank(std::move(own), size_));
  }
  void add_peers(std::vector<PeerProcessAddress>* peers) const override {
    if (knows_late_) peers->push_back(late_.address());
    if (took_ >= knows_second_after_) peers->push_back(second_.address());
    peers->push_back(other_.address());
  }
  void add_silent(const std::set<std::uint64_t>& hosts, JobView* view) const override {
    for (const std::uint64_t host : hosts) {
      const int rank = static_cast<int>(host);
      silent_.insert(host);
      RankView silent{.rank = rank, .pid = 100 + rank};
      silent.state = "silent";
      view->merge(view_of_rank(std::move(silent)));
      if (host != 1 || took_ < knows_second_after_) continue;
      RankView of_second{.rank = 3, .pid = 103};
      of_second.state = "silent";
      view->merge(view_of_rank(std::move(of_second)));
    }
  }
  std::vector<std::pair<auth::Tag, auth::Digest>> secrets() const override { return {}; }
  void look() override {}
  bool serves_metrics() const override { return false; }
  std::unique_ptr<auth::Acceptor> take_acceptor() override { return nullptr; }
  std::string meet(std::string_view) override { return ""; }

  // Gathers until it is over; `pauses`: at that time this thread does nothing for as long.
  void gather(milliseconds pauses_at = kNever, milliseconds pause = milliseconds(0)) {
    OwnRanks ranks;
    ranks.watch(this);
    Gather made(ranks, nullptr, {}, [this](const JobView& view) {
      blamed_ = diagnose(view);
      return std::string("x");
    });
    std::string out;
    while (!exchange_all(made, &out)) {
      const milliseconds by = took_ >= pauses_at && took_ < pauses_at + kTick ? pause : kTick;
      clock_.advance(by);
      took_ += by;
      ASSERT_LT(took_, milliseconds(60'000));
    }
  }
  // Until nothing arrives any more; the clock stands meanwhile.
  bool exchange_all(Gather& made, std::string* out) {
    constexpr int kQuietMs = 1, kTimesQuiet = 2;
    for (int quiet = 0; quiet < kTimesQuiet;) {
      late_.step(took_);
      second_.step(took_);
      other_.step(took_);
      if (made.step(out)) return true;
      std::vector<pollfd> entries;
      made.add_entries(&entries);
      quiet = poll(entries.data(), entries.size(), kQuietMs) > 0 ? 0 : quiet + 1;
    }
    return false;
  }
  void expect_silent() {
    ASSERT_FALSE(blamed_.empty());
    EXPECT_EQ(blamed_[0].kind, Blame::kSilent) << blamed_[0].text;
    EXPECT_EQ(blamed_[0].rank, 1);
    EXPECT_LE(took_, kBudget);
  }
  void expect_named() {
    ASSERT_FALSE(blamed_.empty());
    EXPECT_EQ(blamed_[0].kind, Blame::kNotEntered) << blamed_[0].text << ", " << took_.count();
    EXPECT_EQ(blamed_[0].rank, 1);
  }

  SteppedClock clock_{std::chrono::nanoseconds(1)};
  // Rank 1 is stopped, as the second process of its host says, which has rank 3.
  static JobView view_of_second() {
    RankView stopped = one_rank(1, false, 0);
    stopped.state = "stopped";
    JobView view = view_of_rank(std::move(stopped), 4);
    view.merge(view_of_rank(one_rank(3, true, 3), 4));
    return view;
  }
  FakeHost late_{1, false}, other_{2, true}, second_{3, 1, view_of_second()};
  milliseconds knows_second_after_ = kNever;
  int size_ = 3;  // of the communicator
  milliseconds took_{0};
  bool knows_late_ = true;
  mutable std::set<std::uint64_t> silent_;  // hosts
  std::vector<Blame> blamed_;
};

TEST_F(GatherFromHosts, NameOneThatDoesNotRun) {
  late_.runs_after = kNever;
  gather();
  expect_silent();
  EXPECT_LE(took_, Gather::kSilentAfter + Gather::kRoundAfter + kTick);
}

TEST_F(GatherFromHosts, NameOneThatDoesNotRunThoughTheOthersAreSlow) {
  late_.runs_after = kNever;
  other_.answers_after = milliseconds(200);
  gather();
  expect_silent();
  late_.runs_after = kNever;
  other_.answers_after = milliseconds(700);
  took_ = milliseconds(0);
  gather();
  expect_silent();
}

TEST_F(GatherFromHosts, NameOneThatFreezesWhileItIsAsked) {
  late_.answers_after = kNever;
  late_.freezes_after = milliseconds(300);
  gather();
  expect_silent();
}

// Processes of a host find each other within a second, those of several within seconds.
TEST_F(GatherFromHosts, CallNobodySilentWhoseHostHasAnswered) {
  knows_late_ = false;
  gather();
  EXPECT_TRUE(silent_.empty()) << *silent_.begin();
  knows_late_ = true;
  gather();
  expect_named();
  EXPECT_TRUE(silent_.empty()) << *silent_.begin();
  late_.runs_after = kNever;
  took_ = milliseconds(0);
  gather();
  EXPECT_EQ(silent_, std::set<std::uint64_t>{1});
}

TEST_F(GatherFromHosts, AskProcessesThatBecomeKnownMeanwhile) {
  size_ = 4;
  late_.runs_after = kNever;
  knows_second_after_ = milliseconds(1500);
  gather();
  ASSERT_FALSE(blamed_.empty());
  EXPECT_EQ(blamed_[0].kind, Blame::kStopped) << blamed_[0].text;
  EXPECT_EQ(blamed_[0].rank, 1);
}

TEST_F(GatherFromHosts, AskProcessesThatBecomeKnownAfterAnotherOneHasEnded) {
  size_ = 4;
  late_.end();
  knows_second_after_ = milliseconds(1500);
  gather();
  ASSERT_FALSE(blamed_.empty());
  EXPECT_EQ(blamed_[0].kind, Blame::kStopped) << blamed_[0].text;
}

TEST_F(GatherFromHosts, NameOneThatHasEndedAtOnce) {
  late_.end();
  gather();
  expect_silent();
  EXPECT_LE(took_, Gather::kRoundAfter);
}

TEST_F(GatherFromHosts, WaitForOneThatIsSlowAsTheOthersAre) {
  other_.answers_after = milliseconds(300);
  late_.runs_after = milliseconds(1100);
  gather();
  expect_named();
}

// It proves itself, then asks its own processes.
TEST_F(GatherFromHosts, WaitForOneThatHasBegunToAnswer) {
  late_.runs_after = milliseconds(600);
  late_.answers_after = milliseconds(700);
  gather();
  expect_named();
}

// As when this process gets no core for a while: so may the other one.
TEST_F(GatherFromHosts, WaitLongerWhereThisThreadIsLate) {
  late_.runs_after = milliseconds(1400);
  gather(milliseconds(100), milliseconds(600));
  expect_named();
}

}  // namespace
}  // namespace rondo::test
