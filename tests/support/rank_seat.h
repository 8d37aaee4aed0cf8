// What every rank of a test has, wherever it is: its number, its device, and its seat on a board of
// shared memory, so that what a killed rank had done can still be read.
//
// Guarantees: every wait is bounded. Cost: 13 KB of shared memory a rank, touched as it is used.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "tests/support/layout.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::test {

struct BoardSeat {
  std::atomic<int> stage;     // the body's own marks
  std::atomic<int> reported;  // 1 once status and text are there
  std::atomic<int> failures;  // of expect()
  int status;
  int culprit;
  char text[12'000];
  char failure[1000];                // the first one
  std::atomic<std::uint64_t> value;  // the body's own
};

struct Board {
  int ranks;
  std::atomic<int> id_state;  // 0 none, 1 there, 2 could not be made
  bootstrap::UniqueId id;
  std::atomic<int> flag;     // the test's own signal to the bodies
  std::atomic<int> arrived;  // ranks that came to a meeting, of all meetings
  BoardSeat seats[1];        // as many as ranks

  // The job's id: one process makes it, the others wait for it.
  void make_id();
  void wait_id() const;
  // These many more ranks are here; waits until all are. False after a minute.
  bool meet(int arriving = 1);
};

// Owns a board that processes forked from now on share.
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

  int rank, size;  // of the communicator that the rank has now
  const int device;
  Board& board;

  BoardSeat& mine() { return mine_; }
  void mark(int stage) { mine_.stage.store(stage); }
  void report(const Status& result, int culprit = -1);
  void expect(bool condition, const std::string& text);
  // Sleeps until the test has set its flag to at least `flag`; false after `seconds`.
  bool wait_flag(int flag, double seconds);
  // Before and after a body of a process of its own; false: the body shall not run. A RankSeat has
  // no communicator; EngineRank and NcclRank make and end theirs.
  bool begin(const Job&) { return true; }
  void end(const Job&) {}

 private:
  BoardSeat& mine_;
};

void nap(double seconds);
// False after `seconds`.
bool wait_until(const std::function<bool()>& holds, double seconds);

}  // namespace rondo::test
