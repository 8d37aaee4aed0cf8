// Ranks as processes: each is forked before this process made any communicator, is one rank, and
// reports on a board of shared memory, so that what a killed rank had done can still be read.
//
//   RankProcesses ranks(4, options, [](RankSeat& seat) { seat.report(seat.comm->run(...)); });
//   ranks.wait_stage(1, 10);  ranks.send(2, SIGKILL);  ranks.wait_reports(10, {2});
//   EXPECT_EQ(ranks.status(0), Status::kRemoteError) << ranks.text(0);
// Guarantees: every wait is bounded; whatever still runs at the end is killed and reaped.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"

namespace rondo::test {

// What a rank shares with the test.
struct BoardSeat {
  std::atomic<int> stage;     // the body's own marks
  std::atomic<int> reported;  // 1 once status and text are there
  std::atomic<int> failures;  // of expect()
  int status;
  int culprit;
  char text[8000];
  char failure[1000];                // the first one
  std::atomic<std::uint64_t> value;  // the body's own
};

struct Board {
  std::atomic<int> id_state;  // 0 none, 1 there, 2 could not be made
  bootstrap::UniqueId id;
  std::atomic<int> flag;  // the test's own signal to the bodies
  BoardSeat seats[1];     // as many as ranks
};

// A rank's place, in its own process.
class RankSeat {
 public:
  RankSeat(int rank, int size, Board& board) : rank(rank), size(size), board(board) {}
  const int rank, size;
  Board& board;
  std::shared_ptr<Communicator> comm;

  BoardSeat& mine() { return board.seats[rank]; }
  void mark(int stage) { mine().stage.store(stage); }
  void report(const Done& result);
  void expect(bool condition, const std::string& text);
  // Sleeps until the test has set its flag to at least `flag`; false after `seconds`.
  bool wait_flag(int flag, double seconds);
};

class RankProcesses {
 public:
  using Body = std::function<void(RankSeat&)>;
  struct Options {
    CommOptions comm;
    bool create = true;          // make the communicator before the body runs
    bool leave_by_exit = false;  // end by exit(): static objects are destroyed
    std::vector<std::pair<std::string, std::string>> environment;
    std::vector<std::string> hosts;  // NCCL_HOSTID of each rank; empty: all on this host
  };

  RankProcesses(int n, const Options& options, const Body& body);
  RankProcesses(int n, const CommOptions& options, const Body& body)
      : RankProcesses(n, with(options), body) {}
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int size() const { return static_cast<int>(pids_.size()); }
  Board& board() { return *board_; }
  pid_t pid(int rank) const { return pids_[rank]; }
  void send(int rank, int signal);

  // All ranks but those of `without`. False (and a test failure) after `seconds`.
  bool wait_stage(int stage, double seconds, const std::set<int>& without = {});
  bool wait_reports(double seconds, const std::set<int>& without = {});
  bool wait_exits(double seconds, const std::set<int>& without = {});  // with status 0

  Status status(int rank) const { return static_cast<Status>(board_->seats[rank].status); }
  std::string text(int rank) const { return board_->seats[rank].text; }
  int culprit(int rank) const { return board_->seats[rank].culprit; }
  bool reported(int rank) const { return board_->seats[rank].reported.load() != 0; }
  // Test failures for everything that the bodies expected in vain.
  void check_expectations();

 private:
  static Options with(const CommOptions& comm) {
    Options options;
    options.comm = comm;
    return options;
  }
  [[noreturn]] void run_rank(int rank, const Options& options, const Body& body);
  bool wait_for(const std::function<bool(int)>& holds, double seconds, const std::set<int>& without,
                const char* what);
  bool reap(int rank);

  Board* board_ = nullptr;
  std::size_t board_bytes_ = 0;
  std::vector<pid_t> pids_;
  std::vector<int> exit_status_;  // as of waitpid, or -1 while it runs
};

void nap(double seconds);

}  // namespace rondo::test
