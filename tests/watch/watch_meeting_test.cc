// SPDX-License-Identifier: Apache-2.0
// Watched processes of several hosts find each other at the port of the host that MASTER_ADDR
// names; only those that prove the secret.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "collectives/watch/host_meeting.h"
#include "collectives/watch/watched_process.h"
#include "tests/support/ports.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_folder.h"
#include "tests/watch/simulated_nccl.h"

namespace rondo::test {
namespace {

using watch::HostMeeting;
using watch::MeetingRequest;
using watch::WatchedProcess;

constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";

// As HostMeeting derives it from RONDO_WATCH_SECRET.
auth::Digest proven(const std::string& text) {
  return auth::derive(auth::sha256({std::as_bytes(std::span(text))}), "watched hosts");
}

// Hosts are simulated, as in WatchOfHosts: all of them have the address of MASTER_ADDR.
class WatchOfMeetings : public testing::Test {
 protected:
  Job job() const {
    Job made(as_processes(4));
    made.hosts = {"a", "a", "b", "b"};
    made.create = false;
    for (const std::string& host : made.hosts)
      made.of_process.push_back({{"RONDO_STATUS_DIR", sockets_of(host)},
                                 {"MASTER_ADDR", "127.0.0.1"},
                                 {"RONDO_WATCH_PORT", std::to_string(port_)},
                                 {"RONDO_WATCH_SECRET", kSecret},
                                 {"NCCL_SOCKET_IFNAME", "lo"},
                                 {"NCCL_SOCKET_FAMILY", "AF_INET"}});
    return made;
  }
  std::string sockets_of(const std::string& host) const { return folder_.path() + "/" + host; }
  Result<JobView> ask(const RankProcesses& ranks, int rank) const {
    const WithEnvironment folder("RONDO_STATUS_DIR", sockets_of(rank < 2 ? "a" : "b"));
    return ask_process(ranks.pid(rank), true);
  }
  std::vector<Blame> await_blame(const RankProcesses& ranks, int asked, std::string* seen) const {
    std::vector<Blame> blamed;
    wait_until([&] {
      const auto view = ask(ranks, asked);
      if (view.ok()) blamed = diagnose(*view);
      *seen = view.ok() ? view->to_json().text(1) : view.error().text;
      return !blamed.empty() && blamed[0].kind != Blame::kElsewhere;  // until they have met
    });
    return blamed;
  }
  // The answer to a stranger that asks as a process of host "c".
  Result<Json> meet(const std::string& secret) const {
    const MeetingRequest request{0, 0, {0x1234}, WatchedProcess::own()};
    std::vector<net::SocketAddress> places;
    for (int i = 0; i < HostMeeting::kPorts; ++i)
      places.push_back(
          net::resolve({"127.0.0.1", static_cast<std::uint16_t>(port_ + i)}, AF_INET)->front());
    std::vector<status::Question> questions;
    questions.push_back(status::Question::to_rank({places, proven(secret), HostMeeting::kEndpoint},
                                                  "MEET " + request.text(),
                                                  net::Clock::now() + kQuestionLimit));
    status::await_answers(questions);
    if (!questions[0].answer().ok()) return questions[0].answer().error();
    return Json::parse(*questions[0].answer());
  }
  // The process that listens, once it knows four processes. 0: not yet.
  std::uint64_t listener(std::size_t known = 4) const {
    const auto answer = meet(kSecret);
    return answer.ok() && answer->at("processes").elements().size() >= known
               ? watch::number_of(answer->at("reported_by").string())
               : 0;
  }
  static void make_calls(RankSeat& seat, const std::shared_ptr<SimulatedComm>& comm, int culprit) {
    SimulatedRank rank(
        {.plugin = RONDO_TEST_WATCH_PLUGIN, .rank = seat.rank, .ranks = seat.size, .hosts = 2},
        comm);
    for (int call = 0;; ++call) {
      if (call == 5) seat.mark(1);
      if (call >= 5 && seat.rank == culprit) return void(seat.wait_flag(1));
      rank.collective("AllReduce", 100);
      rank.wait_for_gpu();
    }
  }
  // Another process of its host takes the port, or the next one.
  void expect_takeover(int signal) const {
    const auto comm = make_simulated_comm();
    RankProcesses ranks(job(), [&](RankSeat& seat) { make_calls(seat, comm, -1); });
    ASSERT_TRUE(ranks.wait_stage(1));
    std::uint64_t first = 0;
    ASSERT_TRUE(wait_until([&] { return (first = listener()) != 0; }));
    int holder = -1;
    for (int rank = 0; rank < 4; ++rank) {
      const auto view = ask(ranks, rank);
      ASSERT_TRUE(view.ok()) << view.error().text;
      for (const RankView& each : view->communicators.at(0).ranks)
        if (each.process == first) holder = each.rank;
    }
    ASSERT_GE(holder, 0);
    ranks.send(holder, signal);
    std::uint64_t second = 0;
    EXPECT_TRUE(wait_until([&] { return (second = listener(3)) != 0 && second != first; }));
  }
  static constexpr std::chrono::seconds kQuestionLimit{5};
  const TemporaryFolder folder_;
  const std::uint16_t port_ = reserved_port();
};

TEST_F(WatchOfMeetings, NameTheRankOfAnotherHostThatDoesNotEnter) {
  const auto comm = make_simulated_comm();
  RankProcesses ranks(job(), [&](RankSeat& seat) { make_calls(seat, comm, 2); });
  ASSERT_TRUE(ranks.wait_stage(1));
  for (const int asked : {0, 3}) {
    std::string seen;
    const auto blamed = await_blame(ranks, asked, &seen);
    ASSERT_FALSE(blamed.empty()) << seen;
    EXPECT_EQ(blamed[0].rank, 2) << blamed[0].text << '\n' << seen;
    EXPECT_EQ(blamed[0].kind, Blame::kNotEntered) << blamed[0].text;
  }
}

// Process 3 answers where the others of its host do not find it, as in a container of its own: what
// they do not know of it is no silence.
TEST_F(WatchOfMeetings, CallNobodySilentWhoseHostAnswers) {
  const auto comm = make_simulated_comm();
  Job made = job();
  made.of_process[3][0].second = sockets_of("apart");
  ASSERT_EQ(made.of_process[3][0].first, "RONDO_STATUS_DIR");
  RankProcesses ranks(made, [&](RankSeat& seat) { make_calls(seat, comm, 2); });
  ASSERT_TRUE(ranks.wait_stage(1));
  ASSERT_TRUE(wait_until([&] { return listener() != 0; }));  // all have reported
  std::string seen;
  const auto blamed = await_blame(ranks, 0, &seen);
  ASSERT_FALSE(blamed.empty()) << seen;
  EXPECT_EQ(blamed[0].rank, 2) << blamed[0].text << '\n' << seen;
  EXPECT_EQ(blamed[0].kind, Blame::kNotEntered) << blamed[0].text;
}

TEST_F(WatchOfMeetings, AnswerNoProcessWithoutTheSecret) {
  const auto comm = make_simulated_comm();
  RankProcesses ranks(job(), [&](RankSeat& seat) { make_calls(seat, comm, -1); });
  ASSERT_TRUE(ranks.wait_stage(1));
  ASSERT_TRUE(wait_until([&] { return listener() != 0; }));
  const auto answer = meet("another secret of many characters");
  ASSERT_FALSE(answer.ok()) << answer->text(1);
}

TEST_F(WatchOfMeetings, GoOnWhereTheProcessThatListensStops) { expect_takeover(SIGSTOP); }
TEST_F(WatchOfMeetings, GoOnWhereTheProcessThatListensEnds) { expect_takeover(SIGKILL); }

}  // namespace
}  // namespace rondo::test
