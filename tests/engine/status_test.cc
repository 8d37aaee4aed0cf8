// SPDX-License-Identifier: Apache-2.0
// The status of a job as its readers get it: a job that makes progress is accused of nothing,
// NCCL's protocol, the monitor, lists of jobs. Hung jobs: status_faults_test.cc.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <utility>

#include "base/seconds.h"
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "collectives/status/inspect.h"
#include "collectives/trace/rank_trace.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/status_job.h"
#include "transport/socket/tcp.h"
#include "transport/status/question.h"
#include "transport/status/user_folder.h"

namespace rondo::test {
namespace {

// One question after another, while the ranks compute between calls of every size. A rank that a
// busy machine does not run for a second is late, so a wait as long as that call is no accusation.
TEST(StatusOfAJob, ThatMakesProgressAccusesNobody) {
  const StatusJob status;
  RankProcesses ranks(3, status.job(), [](EngineRank& seat) {
    seat.mark(1);
    for (int call = 0, ends = 0; ends == 0; ++call) {
      SampleCall sample(Collective::kAllReduce, std::size_t{1} << call % 16, 3);
      sample.input()[0] = seat.board.flag.load();
      const std::int64_t begun = now_ns();
      seat.expect(seat.comm->run({&sample.call, 1}).ok(), "a call");
      const auto took = static_cast<std::uint64_t>(now_ns() - begun);
      seat.mine().value.store(std::max(seat.mine().value.load(), took));
      ends = sample.output()[0];
      nap(0.03 * ((call + seat.rank) % 3));
    }
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  std::vector<Blame> blamed;
  for (int question = 0; question < 100; ++question) {
    const auto view = ask_process(ranks.pid(question % 3), true);
    ASSERT_TRUE(view.ok()) << view.error().text;
    for (Blame& blame : diagnose(*view)) blamed.push_back(std::move(blame));
    nap(0.01);
  }
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
  std::uint64_t longest_call_ns = 0;
  for (int rank = 0; rank < 3; ++rank)
    longest_call_ns = std::max(longest_call_ns, ranks.board().seats[rank].value.load());
  for (const Blame& blame : blamed) {
    EXPECT_GT(blame.seconds, 0) << blame.text;
    EXPECT_LE(blame.seconds, static_cast<double>(longest_call_ns) * 1e-9) << blame.text;
  }
}

// Counts and identities over NCCL's protocol, from any of the processes.
TEST(StatusOfAJob, IsServedAsNcclsServiceDoes) {
  const StatusJob status;
  RankProcesses ranks(2, status.job({"a", "b"}), [](EngineRank& seat) {
    for (int call = 0; call < 5; ++call) {
      SampleCall sample(call < 3 ? Collective::kAllReduce : Collective::kBroadcast, 10, 2);
      seat.expect(seat.comm->run({&sample.call, 1}).ok(), "a call");
    }
    seat.mark(1);
    seat.wait_flag(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  const unsigned char loopback[] = {127, 0, 0, 1};
  const net::SocketAddress at = net::SocketAddress::v4(loopback, status.port);
  const auto converse_once = [&](const std::string& lines) {
    const net::Deadline deadline = net::Deadline::of(std::chrono::minutes(5));
    auto socket = net::connect_tcp({&at, 1}, deadline);
    if (!socket.ok()) return socket.error().text;
    EXPECT_EQ(send(socket->get(), lines.data(), lines.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(lines.size()));
    std::string answer;
    for (char buffer[4096];;) {
      pollfd entry{socket->get(), POLLIN, 0};
      if (!net::wait_ready({&entry, 1}, deadline, "the answer").ok()) return answer + "...";
      const ssize_t count = recv(socket->get(), buffer, sizeof(buffer), 0);
      if (count <= 0) return answer;
      answer.append(buffer, static_cast<std::size_t>(count));
    }
  };
  // The service drops a client that asks too late, as this one may on a busy machine.
  const auto converse = [&](const std::string& lines) {
    std::string answer;
    wait_until([&] { return !(answer = converse_once(lines)).empty(); });
    return answer;
  };
  for (int turn = 0; turn < 4; ++turn) {
    const std::string answer =
        converse("client protocol 2\r\nTIMEOUT 60\nSET FORMAT json\nVERBOSE STATUS\n");
    const auto begin = answer.find('{');
    ASSERT_EQ(answer.substr(0, begin), "SERVER PROTOCOL 2\nOK\nOK\n") << answer;
    const Json report = Json::parse(answer.substr(begin));
    const Json& communicator = report.at("communicators").elements().at(0);
    EXPECT_EQ(communicator.at("ranks_count").number(), 2);
    EXPECT_EQ(communicator.at("missing_ranks_count").number(), 0);
    const auto shown_by_ps = inspect_process(ranks.pid(0));
    ASSERT_TRUE(shown_by_ps.ok()) << shown_by_ps.error().text;
    EXPECT_EQ(communicator.at("hash").string(), hash_text(shown_by_ps->front().hash));
    for (const Json& rank : communicator.at("ranks").elements()) {
      EXPECT_EQ(rank.at("pid").number(), ranks.pid(static_cast<int>(rank.at("rank").number())));
      EXPECT_EQ(rank.at("collective_counts").at("AllReduce").number(), 3);
      EXPECT_EQ(rank.at("collective_counts").at("Broadcast").number(), 2);
      EXPECT_NE(rank.at("host").string(), "unknown");
    }
  }
  EXPECT_NE(converse("TIMEOUT 60\nSTATUS\n").find("RUNNING"), std::string::npos);
  const std::string settings = converse("TIMEOUT 60\ndiagnostics\n");
  EXPECT_NE(settings.find("NCCL DIAG [INFO] NCCL_HOSTID is b here\n"), std::string::npos)
      << settings;
  EXPECT_TRUE(converse("SET FORMAT json\nDIAGNOSTICS\nSET FORMAT text\nDIAGNOSTICS\n")
                  .starts_with("OK\nERROR: diagnostics only supports text output\nOK\n"));
  const std::string errors = converse("TIMEOUT x\nSET FORMAT xml\nSTATUS\n");
  EXPECT_TRUE(errors.starts_with(
      "ERROR: Invalid timeout value x\nERROR: Invalid format xml\nRondo, NCCL version"))
      << errors;
  EXPECT_EQ(converse("CONTROL MASK 1\nCONTROL PROFILER_MASK coll,x\nCONTROL PROFILER_MASK 0x3\n"),
            "ERROR: Unknown CONTROL subcommand 'MASK'\n"
            "ERROR: Invalid profiler mask value 'coll,x'\nOK\n");
  ranks.send(1, SIGKILL);
  std::string dead;
  wait_until([&] {
    dead = converse("TIMEOUT 2\nSET FORMAT json\nSTATUS\n");
    return dead.find("\"considered_dead\"") != std::string::npos;
  });
  EXPECT_NE(dead.find("\"missing_ranks_count\": 1"), std::string::npos) << dead;
  ranks.board().flag.store(1);
}

// Ranks 0 and 1 enter a call of the first group, then one of the second; 2 and 3 the other way
// round. One id stands for a group wherever it is shown.
TEST(StatusOfAJob, ReportsTheOrderInWhichRanksEnteredTwoGroups) {
  const StatusJob status;
  RankProcesses ranks(4, status.job(), [](EngineRank& seat) {
    std::vector<std::shared_ptr<Communicator>> groups;
    for (const char* name : {"data", "tensor"}) {
      CommOptions options = short_timeouts();
      options.name = name;
      auto group = seat.comm->split(0, seat.rank, options, {});
      seat.expect(group.ok(), "a group");
      if (!group.ok()) return;
      groups.push_back(*group);
      SampleCall sample(Collective::kAllReduce, 10, 4);
      seat.expect(groups.back()->run({&sample.call, 1}).ok(), "a call");
    }
    seat.mark(1);
    if (seat.rank >= 2) std::swap(groups[0], groups[1]);
    SampleCall sample(Collective::kAllReduce, 10, 4);
    (void)groups[0]->run({&sample.call, 1}).ok();
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  JobView view;
  std::string text;
  EXPECT_TRUE(wait_until([&] {
    const auto asked = ask_process(ranks.pid(0), false);
    if (!asked.ok()) return false;
    view = *asked;
    const auto blamed = diagnose(view);
    text = blamed.empty() ? "" : blamed.front().text;
    return text.starts_with(
        "ranks entered data and tensor in different order: 0, 1 first data; 2, 3 first tensor: 4 "
        "ranks wait for each other, ");
  })) << text;
  std::map<std::string, std::uint64_t> ids;  // by name
  for (const CommunicatorView& one : view.communicators) ids[one.name] = one.hash;
  const auto traces = trace::traces_of_process(ranks.pid(0));
  const auto read = inspect_process(ranks.pid(0));
  ASSERT_TRUE(traces.ok() && read.ok());
  for (const trace::RankTrace& one : *traces) EXPECT_EQ(one.communicator, ids[one.name]);
  for (const CommunicatorView& one : *read)
    EXPECT_TRUE(one.name.empty() || one.hash == ids[one.name]) << one.name;
  for (int rank = 0; rank < 4; ++rank) ranks.send(rank, SIGKILL);
}

// A client in monitor mode gets the death of a process, and nothing of what was before.
TEST(StatusOfAJob, IsMonitored) {
  const StatusJob status;
  RankProcesses ranks(5, status.job(), [](EngineRank& seat) {
    seat.mark(1);
    sleep_until_killed();
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  const auto folder = status::UserFolder::find(geteuid());
  ASSERT_TRUE(folder.ok()) << folder.error().text;
  std::string path;
  for (const auto& name : folder->sockets())
    if (name.pid == ranks.pid(0)) path = folder->path_of(name);
  const status::StatusConnection client = status::connect_status(path);
  ASSERT_EQ(client.error, 0);
  std::string lines = "MONITOR noise\nSET FORMAT json\nMONITOR all\n", events;
  ASSERT_EQ(send(client.socket.get(), lines.data(), lines.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(lines.size()));
  const auto read_until = [&](const std::string& text, double seconds = kLongestWait) {
    return wait_until(
        [&] {
          char buffer[4096];
          const ssize_t count = recv(client.socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
          if (count > 0) events.append(buffer, static_cast<std::size_t>(count));
          return events.find(text) != std::string::npos;
        },
        seconds);
  };
  EXPECT_TRUE(read_until("ERROR: Invalid event group 'noise'\nOK\nOK\n")) << events;
  // Its first look reports nothing. Later ones report a process that stops or goes on.
  bool has_looked = false, stopped = false;
  for (int turn = 0; turn < 60 && !has_looked; ++turn) {
    ranks.send(3, (stopped = !stopped) ? SIGSTOP : SIGCONT);
    has_looked = read_until("\"PEER_", kLongestWait / 60);
  }
  ASSERT_TRUE(has_looked) << events;
  ranks.send(3, SIGCONT);
  ranks.send(4, SIGKILL);
  ASSERT_TRUE(read_until("\"PEER_DEAD\"")) << events;
  const auto pid_of = [&](int rank) { return fmt::format("\"pid\": {}", ranks.pid(rank)); };
  EXPECT_TRUE(read_until(pid_of(4))) << events;
  EXPECT_EQ(events.find("PEER_NEW"), std::string::npos) << events;
}

TEST(StatusOfAJob, IsListedWithTheOtherJobsOfTheUser) {
  const StatusJob status;
  EXPECT_TRUE(list_jobs()->empty());
  const auto body = [](EngineRank& seat) {
    seat.mark(1);
    seat.wait_flag(1);
  };
  RankProcesses first(3, status.job(), body), second(2, status.job(), body);
  ASSERT_TRUE(first.wait_stage(1) && second.wait_stage(1));
  first.send(1, SIGSTOP);
  std::vector<std::size_t> processes;
  Result<std::vector<ListedJob>> jobs = list_jobs();
  wait_until([&] {  // on a busy machine, others do not answer in time, too
    std::size_t silent = 0;
    for (const ListedJob& job : *jobs) silent += job.silent.size();
    if (silent > 1) jobs = list_jobs();
    return silent <= 1 || !jobs.ok();
  });
  ASSERT_TRUE(jobs.ok()) << jobs.error().text;
  ASSERT_EQ(jobs->size(), 2u);
  for (const ListedJob& job : *jobs) {
    ASSERT_EQ(job.view.communicators.size(), 1u);
    const auto& communicator = job.view.communicators[0];
    EXPECT_EQ(communicator.ranks.size(), static_cast<std::size_t>(communicator.size));
    const bool is_first = communicator.size == 3;
    EXPECT_EQ(job.view.processes.size(), 2u);
    EXPECT_EQ(job.silent, is_first ? std::vector<int>{first.pid(1)} : std::vector<int>());
    if (is_first) {
      EXPECT_EQ(communicator.ranks[1].state, "stopped");
    }
  }
  first.send(1, SIGCONT);
  first.board().flag.store(1);
  second.board().flag.store(1);
  EXPECT_TRUE(first.wait_exits() && second.wait_exits());
}

// A taken port, and a folder of another user: the job goes on, and ps reads its shared memory.
TEST(StatusOfAJob, IsReadFromMemoryWhereNoSocketCanBeOpened) {
  StatusJob status;
  const unsigned char loopback[] = {127, 0, 0, 1};
  const auto holder = net::listen_tcp(net::SocketAddress::v4(loopback, status.port));
  ASSERT_TRUE(holder.ok()) << holder.error().text;
  const std::string log = status.folder.path() + "/log.%p";
  status.folder.file("status", "not a folder");
  Job job = status.job();
  job.environment.emplace_back("NCCL_DEBUG", "INFO");
  job.environment.emplace_back("NCCL_DEBUG_FILE", log);
  RankProcesses ranks(2, job, [](EngineRank& seat) {
    SampleCall sample(Collective::kAllReduce, 10, 2);
    seat.expect(seat.comm->run({&sample.call, 1}).ok(), "a call");
    seat.mark(1);
    seat.wait_flag(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  const auto view = ask_process(ranks.pid(0), false);
  ASSERT_TRUE(view.ok()) << view.error().text;
  EXPECT_EQ(view->communicators.at(0).ranks.size(), 2u);
  ranks.board().flag.store(1);
  EXPECT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

TEST(StatusOfAJob, HasNoThreadAndNoSocketWhereItIsDisabled) {
  const StatusJob status;
  Job job = status.job();
  job.environment.emplace_back("NCCL_RAS_ENABLE", "0");
  RankProcesses ranks(2, job, [](EngineRank& seat) {
    seat.mark(1);
    seat.wait_flag(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  EXPECT_TRUE(list_jobs()->empty());
  EXPECT_TRUE(ask_process(ranks.pid(0), true).ok());  // from its memory
  ranks.board().flag.store(1);
  EXPECT_TRUE(ranks.wait_exits());
}

}  // namespace
}  // namespace rondo::test
