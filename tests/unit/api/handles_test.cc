// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "collectives/communicator/call_order.h"

namespace rondo::api {
namespace {

// A table lives as long as the process, like the product's tables.
using Table = HandleTable<int>;

TEST(Handles, FindWhatWasInsertedUntilItIsRemoved) {
  static Table table(HandleKind::kComm);
  void* handle = table.insert(std::make_unique<int>(7));
  {
    auto found = table.pin(handle);
    ASSERT_EQ(found.state, HandleState::kAlive);
    EXPECT_EQ(*found.pin, 7);
  }
  HandleState state;
  EXPECT_EQ(*table.remove(handle, &state), 7);
  EXPECT_EQ(table.pin(handle).state, HandleState::kDestroyed);
  EXPECT_EQ(table.remove(handle, &state), nullptr);
  EXPECT_EQ(state, HandleState::kDestroyed);
}

TEST(Handles, AStaleOneIsKnownAfterItsPlaceWasUsedAgain) {
  static Table table(HandleKind::kComm);
  HandleState state;
  std::set<void*> seen;
  for (int i = 0; i < 1000; ++i) {
    void* handle = table.insert(std::make_unique<int>(i));
    EXPECT_TRUE(seen.insert(handle).second) << "round " << i;
    table.remove(handle, &state);
  }
  void* alive = table.insert(std::make_unique<int>(-1));
  for (void* handle : seen) EXPECT_EQ(table.pin(handle).state, HandleState::kDestroyed);
  EXPECT_EQ(table.pin(alive).state, HandleState::kAlive);
}

TEST(Handles, ForeignPointersAreNeverDereferenced) {
  static Table comms(HandleKind::kComm);
  static Table windows(HandleKind::kWindow);
  void* window = windows.insert(std::make_unique<int>(1));
  void* comm = comms.insert(std::make_unique<int>(2));
  int local = 0;
  const auto bits = reinterpret_cast<std::uint64_t>(comm);
  for (const void* foreign :
       {static_cast<const void*>(&local), static_cast<const void*>(nullptr),
        reinterpret_cast<const void*>(1), reinterpret_cast<const void*>(~0ull),
        static_cast<const void*>(window), reinterpret_cast<const void*>(bits + 1),
        reinterpret_cast<const void*>(bits + (1 << 20)),
        reinterpret_cast<const void*>(bits + 0xffff)})
    EXPECT_EQ(comms.pin(foreign).state, HandleState::kForeign) << foreign;
  EXPECT_EQ(comms.pin(comm).state, HandleState::kAlive);
}

TEST(Handles, RemovalWaitsForPinsAndHasOneWinner) {
  static Table table(HandleKind::kComm);
  void* handle = table.insert(std::make_unique<int>(3));
  auto found = table.pin(handle);
  std::atomic<int> winners{0}, woken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      HandleState state;
      if (table.remove(handle, &state, [&](int&) { ++woken; })) ++winners;
    });
  while (woken == 0) std::this_thread::yield();
  EXPECT_EQ(table.pin(handle).state, HandleState::kDestroyed);
  EXPECT_EQ(winners, 0);
  EXPECT_EQ(*found.pin, 3);  // still alive
  found.pin = Table::Pin();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
}

TEST(Handles, RemovalWaitsForWhoUsesItInsideACall) {
  static Table table(HandleKind::kComm);
  void* handle = table.insert(std::make_unique<int>(3));
  auto found = table.pin_here(handle);
  ASSERT_EQ(found.state, HandleState::kAlive);
  auto second = table.pin_here(handle);  // while the thread already has a pin
  EXPECT_EQ(second.state, HandleState::kAlive);
  std::atomic<bool> woken{false}, removed{false};
  std::thread remover([&] {
    HandleState state;
    removed = table.remove(handle, &state, [&](int&) { woken = true; }) != nullptr;
  });
  while (!woken) std::this_thread::yield();
  second.pin = Table::Pin();
  EXPECT_EQ(table.pin_here(handle).state, HandleState::kDestroyed);
  found.pin.keep();  // now another thread may use it
  std::thread([&, pin = std::move(found.pin)] {
    EXPECT_FALSE(removed);
    EXPECT_EQ(*pin, 3);
  }).join();
  remover.join();
  EXPECT_TRUE(removed);
}

// A user that sees the object alive never sees the writes that its remover makes later.
TEST(Handles, UsersAndRemoversNeverMissEachOther) {
  static Table table(HandleKind::kComm);
  constexpr int kRounds = 3000;
  std::atomic<void*> current{nullptr};
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::atomic<long> found{0};
  std::vector<std::thread> users;
  for (int i = 0; i < 3; ++i)
    users.emplace_back([&] {
      while (!done) {
        auto here = table.pin_here(current.load());
        if (here.state != HandleState::kAlive) {
          std::this_thread::yield();  // to the thread that makes the next object
          continue;
        }
        ++found;
        for (int look = 0; look < 20; ++look) wrong += *here.pin != 1;
      }
    });
  for (int round = 0; round < kRounds; ++round) {
    current = table.insert(std::make_unique<int>(1));
    for (const long before = found; round % 8 == 0 && found == before;) std::this_thread::yield();
    HandleState state;
    const auto object = table.remove(current, &state);
    *object = 2;
  }
  done = true;
  for (auto& user : users) user.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 0);
}

// The order follows the tickets, for sleeping and for running threads.
TEST(CallOrder, WakesTheNextTicket) {
  CallOrder order;
  constexpr int kThreads = 4, kTurns = 3000;
  std::vector<std::uint64_t> turns;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kTurns; ++i) {
        const std::uint64_t ticket = order.take();
        order.wait_turn(ticket);
        turns.push_back(ticket);
        order.finish(ticket);
      }
    });
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(turns.size(), static_cast<std::size_t>(kThreads * kTurns));
  for (std::size_t i = 0; i < turns.size(); ++i) ASSERT_EQ(turns[i], i);
  EXPECT_TRUE(order.idle());
}

TEST(Handles, BelongToTheProcessThatMadeThem) {
  static Table table(HandleKind::kComm);
  void* handle = table.insert(std::make_unique<int>(4));
  const pid_t child = fork();
  if (child == 0) {
    const bool known = table.pin(handle).state == HandleState::kForked;
    void* own = table.insert(std::make_unique<int>(5));
    _exit(known && table.pin(own).state == HandleState::kAlive ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(table.pin(handle).state, HandleState::kAlive);
}

}  // namespace
}  // namespace rondo::api
