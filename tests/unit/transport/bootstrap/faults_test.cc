// SPDX-License-Identifier: Apache-2.0
// Errors that ranks return if one of them is wrong, late, dead, or not a rank at all.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>

#include "tests/support/enough_time.h"
#include "tests/unit/transport/bootstrap/ranks.h"
#include "transport/auth/acceptor.h"
#include "transport/auth/handshake.h"
#include "transport/bootstrap/connect.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/tcp.h"

namespace rondo::bootstrap {
namespace {

using namespace std::chrono_literals;

Status exchange_one(Session& session) {
  const std::vector<std::byte> mine(100, static_cast<std::byte>(session.rank()));
  RONDO_TRY(const auto table, session.all_gather(mine));
  if (table.back() != std::vector<std::byte>(100, static_cast<std::byte>(session.size() - 1)))
    return fail(StatusCode::kInternalError, "wrong bytes");
  return ok_status();
}

Status join_and_gather(const UniqueId& id, int rank, int size) {
  RONDO_TRY(const auto session,
            Session::join({.rank = rank, .size = size, .id = id, .timeout = 100s}));
  return exchange_one(*session);
}

net::SocketAddress place_of(const UniqueId& id) { return decode_id(id).value().addresses.at(0); }

TEST(BootstrapFaults, MissingRanksAreNamedAtTheDeadline) {
  test::with_enough_time(500ms, [](auto time) {
    const auto id = make_unique_id().value();
    for (const Status& result : as_threads(3, [&](int i) { return join_as(id, i * 2, 6, time); }))
      if (result.code() != StatusCode::kTimeout ||
          !contains(result, "ranks 1, 3, 5 of 6 have not joined within "))
        return shown(result);
    return std::string();
  });
}

TEST(BootstrapFaults, ARankThatDoesNotEnterAnExchangeIsNamed) {
  test::with_enough_time(1s, [](auto time) {
    const auto id = make_unique_id().value();
    std::atomic<int> left{12};
    const auto results = as_threads(12, [&](int rank) -> Status {
      const auto session = Session::join({.rank = rank, .size = 12, .id = id, .timeout = time});
      if (!session.ok()) return --left, session.error();
      if (rank == 10) {
        while (left.load() > 1) std::this_thread::sleep_for(1ms);
        return ok_status();
      }
      const auto table = (*session)->all_gather({});
      --left;
      return table.ok() ? ok_status() : Status(table.error());
    });
    for (std::size_t rank = 0; rank < 12; ++rank)
      if (rank != 10 && (results[rank].code() != StatusCode::kTimeout ||
                         !contains(results[rank], "rank 10 gave nothing")))
        return shown(results[rank]);
    return std::string();
  });
}

TEST(BootstrapFaults, AnAbortedRankReturnsAndIsNamedToTheOthers) {
  test::with_enough_time(250ms, [](auto time) {
    const auto id = make_unique_id().value();
    std::atomic<bool> abort{false};
    const auto results = as_threads(3, [&](int i) -> Status {
      if (i == 2) {
        std::this_thread::sleep_for(time);  // so that rank 1 has joined
        abort = true;
        return ok_status();
      }
      JoinRequest request{.rank = i, .size = 3, .id = id, .timeout = 4 * time};
      if (i == 1) request.aborted = [&] { return abort.load(); };
      const auto session = Session::join(request);
      return session.ok() ? ok_status() : Status(session.error());
    });
    if (results[1].code() != StatusCode::kInvalidUsage ||
        !contains(results[1], "aborted by this process"))
      return shown(results[1]);
    return results[0].code() == StatusCode::kRemoteError && contains(results[0], "rank 1 aborted")
               ? std::string()
               : shown(results[0]);
  });
}

// A rank is killed `after` it began to join. Returns what the other two got.
std::vector<Status> results_after_a_kill(std::chrono::milliseconds after) {
  const auto id = make_unique_id().value();
  int ends[2];
  int hold[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT_EQ(pipe(hold), 0);
  RankProcess victim(2, [&](int) -> Status {
    // A grandchild outlives its parent, keeps the inherited descriptors, and ends when the pipe
    // closes.
    std::thread([&] {
      std::this_thread::sleep_for(after);
      if (fork() == 0) {
        alarm(300);
        const char ready = 1;
        [[maybe_unused]] const auto written = write(ends[1], &ready, 1);
        close(hold[1]);
        [[maybe_unused]] char end = 0;
        _exit(static_cast<int>(read(hold[0], &end, 1)));
      }
    }).detach();
    (void)join_as(id, 2, 4);
    for (;;) pause();  // even if the others gave up first, it stays until it is killed
  });
  std::thread killer([&] {
    char ready = 0;
    [[maybe_unused]] const auto size = read(ends[0], &ready, 1);
    victim.kill(SIGKILL);
  });
  auto results = as_threads(2, [&](int rank) { return join_as(id, rank, 4, 4 * after + 2s); });
  killer.join();
  for (const int end : {hold[0], hold[1], ends[0], ends[1]}) close(end);
  return results;
}

TEST(BootstrapFaults, AProcessKilledWhileJoiningIsNamedThoughItsChildLivesOn) {
  test::with_enough_time(100ms, [](auto time) {  // for it to arrive before it is killed
    for (const Status& result : results_after_a_kill(time))
      if (result.code() != StatusCode::kRemoteError || !contains(result, "rank 2 (at "))
        return shown(result);
    return std::string();
  });
}

TEST(BootstrapFaults, AProcessKilledBetweenExchangesIsNamedToAll) {
  const auto id = make_unique_id().value();
  constexpr int kSize = 11;
  std::vector<std::unique_ptr<RankProcess>> processes;
  for (int rank = 0; rank < kSize; ++rank)
    processes.push_back(std::make_unique<RankProcess>(rank, [&](int self) -> Status {
      RONDO_TRY(const auto session,
                Session::join({.rank = self, .size = kSize, .id = id, .timeout = 100s}));
      RONDO_TRY(const auto first, session->all_gather({}));
      if (self == 9) ::kill(getpid(), SIGKILL);
      RONDO_TRY(const auto second, session->all_gather({}));
      return ok_status();
    }));
  for (int rank = 0; rank < kSize; ++rank) {
    const Status result = processes[static_cast<std::size_t>(rank)]->wait();
    if (rank == 9) continue;
    EXPECT_EQ(result.code(), StatusCode::kRemoteError) << shown(result);
    EXPECT_TRUE(contains(result, "rank 9 ended")) << rank << ": " << shown(result);
  }
}

TEST(BootstrapFaults, TheEndOfTheIdsMakerProcessIsNoticed) {
  UniqueId id;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  RankProcess maker(0, [&](int) -> Status {
    const auto made = make_unique_id().value();
    [[maybe_unused]] const auto size = write(ends[1], made.bytes, sizeof(made.bytes));
    pause();
    return ok_status();
  });
  ASSERT_EQ(read(ends[0], id.bytes, sizeof(id.bytes)), static_cast<ssize_t>(sizeof(id.bytes)));
  std::thread killer([&] {
    std::this_thread::sleep_for(100ms);
    maker.kill(SIGKILL);
  });
  const auto results = as_threads(2, [&](int rank) { return join_as(id, rank, 3); });
  killer.join();
  for (const Status& result : results)
    EXPECT_EQ(result.code(), StatusCode::kRemoteError) << shown(result);
  // The rendezvous has stopped listening.
  const Status late = join_as(id, 2, 3);
  EXPECT_EQ(late.code(), StatusCode::kRemoteError) << shown(late);
  EXPECT_TRUE(contains(late, "no process listens")) << shown(late);
  close(ends[0]);
  close(ends[1]);
}

TEST(BootstrapFaults, StrangersDoNotDisturb) {
  const auto id = make_unique_id().value();
  const auto place = place_of(id);
  std::atomic<bool> stop{false};
  // Garbage, silence, half a greeting, a greeting for another rendezvous, and a wrong secret.
  std::thread strangers([&] {
    std::vector<net::Socket> silent;
    const std::vector<std::byte> garbage(3000, std::byte{0x5a});
    const auto foreign = auth::Handshake::connector(auth::random_digest(), kRendezvous);
    const Bytes hello(foreign.unsent().begin(), foreign.unsent().end());
    for (int i = 0; !stop.load() && i < 200; ++i) {
      auto socket = net::start_connect(place);
      if (!socket.ok()) continue;
      pollfd entry{socket->get(), POLLOUT, 0};
      poll(&entry, 1, 1000);
      if (i % 4 == 0) (void)::send(entry.fd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
      if (i % 4 == 1) (void)::send(entry.fd, hello.data(), hello.size(), MSG_NOSIGNAL);
      if (i % 4 == 2) (void)::send(entry.fd, hello.data(), 7, MSG_NOSIGNAL);
      if (i % 8 != 0) silent.emplace_back(::dup(entry.fd));
    }
    while (!stop.load()) std::this_thread::sleep_for(1ms);
  });
  std::thread wrong_secret([&] {
    auto contents = decode_id(id).value();
    contents.secret[0] ^= std::byte{1};
    const Status result = join_as(encode_id(contents), 1, 8, 300ms);
    EXPECT_EQ(result.code(), StatusCode::kTimeout) << shown(result);
  });
  std::this_thread::sleep_for(50ms);
  expect_all_ok(as_threads(8, [&](int rank) { return join_and_gather(id, rank, 8); }));
  wrong_secret.join();
  stop = true;
  strangers.join();
}

// More visitors than this process has descriptors; each stays as long as the server allows.
TEST(BootstrapFaults, AThousandSilentVisitorsDoNotFailAJoin) {
  int ends[2], crowded[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(pipe(crowded), 0);
  RankProcess job(0, [&](int) -> Status {
    const rlimit limit{1024, 1024};
    setrlimit(RLIMIT_NOFILE, &limit);
    const auto id = make_unique_id().value();
    [[maybe_unused]] auto size = write(ends[1], id.bytes, sizeof(id.bytes));
    char all_came = 0;
    size = read(crowded[0], &all_came, 1);  // or they wait in the server's backlog
    for (int turn = 0; turn < 3; ++turn) {
      const auto again = turn == 0 ? id : make_unique_id().value();
      for (const Status& one :
           as_threads(4, [&](int rank) { return join_and_gather(again, rank, 4); }))
        RONDO_CHECK_OK(one);
    }
    return ok_status();
  });
  UniqueId id;
  ASSERT_EQ(read(ends[0], id.bytes, sizeof(id.bytes)), static_cast<ssize_t>(sizeof(id.bytes)));
  const rlimit many{4096, 4096};
  setrlimit(RLIMIT_NOFILE, &many);
  std::vector<net::Socket> crowd;
  for (int i = 0; i < 1010; ++i) {
    auto socket = net::start_connect(place_of(id));
    if (socket.ok()) crowd.push_back(std::move(*socket));
  }
  EXPECT_EQ(crowd.size(), 1010u);
  const char all_came = 1;
  ASSERT_EQ(write(crowded[1], &all_came, 1), 1);
  const Status result = job.wait();
  EXPECT_TRUE(result.ok()) << shown(result);
  for (const int end : {ends[0], ends[1], crowded[0], crowded[1]}) close(end);
}

// An endpoint that holds the secret but is the wrong one: here a rank in place of the rendezvous.
TEST(BootstrapFaults, AnotherEndpointOfTheSameSecretIsRefused) {
  const auth::Digest secret = auth::random_digest();
  const auto lo = net::resolve({"127.0.0.1", 0}, AF_INET).value();
  auto listening = net::listen_at(lo).value();
  const auto port = listening.addresses[0].port();
  auto acceptor =
      auth::Acceptor::open(std::move(listening.sockets), {.endpoint = endpoint_of(3)}).value();
  std::atomic<bool> stop{false};
  std::size_t arrived = 0;
  std::thread other([&] {
    while (!stop) {
      pollfd entry{acceptor->poll_fd(), POLLIN, 0};
      poll(&entry, 1, 10);
      arrived +=
          acceptor->serve([&](const auth::Tag&) { return auth::KnownSecret{&secret}; }).size();
    }
  });
  const Endpoint place{port, lo};
  const auto ask = [&](std::string endpoint, std::chrono::milliseconds time) {
    const auto link =
        connect({.place = place, .key = secret, .endpoint = std::move(endpoint), .what = "testing"},
                net::Deadline::of(time));
    return link.ok() ? ok_status() : Status(link.error());
  };
  test::with_enough_time(300ms, [&](auto time) {
    const Status refused = ask(std::string(kRendezvous), time);
    const bool named = refused.code() == StatusCode::kTimeout &&
                       contains(refused, "or is not 'bootstrap rendezvous'");
    return named ? std::string() : shown(refused);
  });
  EXPECT_TRUE(ask(endpoint_of(3), 100s).ok());
  stop = true;
  other.join();
  EXPECT_EQ(arrived, 1u);
}

// Between two exchanges a rank learns, without waiting for it, that another rank cannot continue.
TEST(BootstrapFaults, ARankThatGivesUpIsNamedBeforeTheNextExchange) {
  const auto id = make_unique_id().value();
  constexpr int kRanks = 20;
  const auto results = as_threads(kRanks, [&](int rank) -> Status {
    RONDO_TRY(const auto session,
              Session::join({.rank = rank, .size = kRanks, .id = id, .timeout = 100s}));
    RONDO_CHECK_OK(session->standing());
    RONDO_CHECK_OK(exchange_one(*session));
    if (rank == 11) return session->give_up(fail(StatusCode::kSystemError, "no room"));
    for (int turn = 0; turn < 100'000; ++turn) {
      RONDO_CHECK_OK(session->standing());
      std::this_thread::sleep_for(1ms);
    }
    return ok_status();
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    const Status& result = results[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(contains(result, rank == 11 ? "no room" : "rank 11 could not set up: no room"))
        << "rank " << rank << ": " << shown(result);
  }
}

}  // namespace
}  // namespace rondo::bootstrap
