// SPDX-License-Identifier: Apache-2.0
// State of one rank of a test: its number, its device and its seat on a board in shared memory. The
// board outlives a killed rank, so the test can still read what that rank had done.
//
// Guarantees: every wait ends after kLongestWait. Cost: 13 KB of shared memory per rank, allocated
// on first touch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "tests/support/layout.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::test {

// Seconds. A wait lasts this long only if the test fails, however busy the machine is.
inline constexpr double kLongestWait = 300;

struct BoardSeat {
  std::atomic<int> stage;     // set by the body
  std::atomic<int> reported;  // 1 when status and text are valid
  std::atomic<int> failures;  // failed calls of expect()
  int status;
  int culprit;
  char text[12'000];
  char failure[1000];                // text of the first failure
  std::atomic<std::uint64_t> value;  // set by the body
};

struct Board {
  int ranks;
  std::atomic<int> id_state;  // 0 none, 1 ready, 2 could not be made
  bootstrap::UniqueId id;
  std::atomic<int> flag;     // the test's signal to the bodies
  std::atomic<int> arrived;  // arrivals of ranks, over all meetings
  BoardSeat seats[1];        // one per rank

  // The job's id: one process makes it, the others wait for it.
  void make_id();
  void wait_id() const;
  // A barrier: adds `arriving` ranks and waits for all. False after kLongestWait.
  bool meet(int arriving = 1);
};

// Owns a board that is shared with processes forked later.
class SharedBoard {
 public:
  explicit SharedBoard(int ranks);
  ~SharedBoard();
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board& get() const { return *board_; }

 private:
  Board* board_;
  std::size_t bytes_;
};

struct Job;  // tests/support/ranks.h

class RankSeat {
 public:
  RankSeat(Board& board, int rank, int device)
      : rank(rank), size(board.ranks), device(device), board(board), mine_(board.seats[rank]) {}
  RankSeat(const RankSeat&) = delete;
  RankSeat& operator=(const RankSeat&) = delete;

  int rank, size;  // in its current communicator
  const int device;
  Board& board;

  BoardSeat& mine() { return mine_; }
  void mark(int stage) { mine_.stage.store(stage); }
  void report(const Status& result, int culprit = -1);
  void expect(bool condition, const std::string& text);
  // Sleeps until the test's flag is at least `flag`; false after kLongestWait.
  bool wait_flag(int flag);
  // Run before and after a body. begin() returns false if the body must not run. A RankSeat has no
  // communicator; EngineRank and NcclRank make and destroy theirs.
  bool begin(const Job&) { return true; }
  void end(const Job&) {}

 private:
  BoardSeat& mine_;
};

void nap(double seconds);
[[noreturn]] void sleep_until_killed();
// Returns false after `seconds`.
bool wait_until(const std::function<bool()>& holds, double seconds = kLongestWait);

}  // namespace rondo::test
