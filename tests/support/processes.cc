#include "tests/support/processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

namespace rondo::test {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

template <std::size_t n>
void copy_text(char (&to)[n], const std::string& from) {
  const std::size_t length = std::min(from.size(), n - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

}  // namespace

void nap(double seconds) {
  timespec left{
      static_cast<time_t>(seconds),
      static_cast<long>((seconds - static_cast<double>(static_cast<long>(seconds))) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

// ---- in the rank's process ----

void RankSeat::report(const Done& result) {
  BoardSeat& seat = mine();
  seat.status = static_cast<int>(result.status());
  copy_text(seat.text, result.ok() ? "" : result.error().text);
  seat.culprit = -1;
  if (comm)
    if (const auto fault = comm->fault()) seat.culprit = fault->culprit;
  seat.reported.store(1);
}

void RankSeat::expect(bool condition, const std::string& text) {
  if (!condition && mine().failures.fetch_add(1) == 0) copy_text(mine().failure, text);
}

bool RankSeat::wait_flag(int flag, double seconds) {
  const auto deadline = after(seconds);
  while (board.flag.load() < flag) {
    if (Clock::now() > deadline) return false;
    usleep(500);
  }
  return true;
}

void RankProcesses::run_rank(int rank, const Options& options, const Body& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!options.hosts.empty()) setenv("NCCL_HOSTID", options.hosts[rank].c_str(), 1);
  RankSeat seat(rank, size(), *board_);
  if (rank == 0) {
    auto id = bootstrap::make_unique_id();
    if (id.ok()) board_->id = *id;
    board_->id_state.store(id.ok() ? 1 : 2);
  }
  while (board_->id_state.load() == 0) usleep(200);
  if (options.create) {
    CreateRequest request;
    request.rank = rank;
    request.size = size();
    request.id = board_->id;
    request.options = options.comm;
    auto comm = Communicator::create(request);
    if (comm.ok()) {
      seat.comm = *comm;
    } else {
      seat.expect(false, "create: " + comm.error().text);
    }
  }
  if (!options.create || seat.comm) body(seat);
  if (!options.leave_by_exit) _exit(0);
  seat.comm.reset();
  std::exit(0);
}

// ---- in the test's process ----

RankProcesses::RankProcesses(int n, const Options& options, const Body& body) {
  board_bytes_ = sizeof(Board) + static_cast<std::size_t>(n) * sizeof(BoardSeat);
  void* memory =
      mmap(nullptr, board_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  board_ = static_cast<Board*>(memory);
  pids_.assign(n, -1);
  exit_status_.assign(n, -1);
  for (int rank = 0; rank < n; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) run_rank(rank, options, body);
    pids_[rank] = pid;
  }
}

RankProcesses::~RankProcesses() {
  for (int rank = 0; rank < size(); ++rank) {
    if (reap(rank)) continue;
    kill(pids_[rank], SIGKILL);
    while (waitpid(pids_[rank], nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  munmap(board_, board_bytes_);
}

void RankProcesses::send(int rank, int signal) {
  if (!reap(rank)) kill(pids_[rank], signal);
}

bool RankProcesses::reap(int rank) {
  if (exit_status_[rank] >= 0) return true;
  int status = 0;
  if (waitpid(pids_[rank], &status, WNOHANG) != pids_[rank]) return false;
  exit_status_[rank] = status;
  return true;
}

bool RankProcesses::wait_for(const std::function<bool(int)>& holds, double seconds,
                             const std::set<int>& without, const char* what) {
  const auto deadline = after(seconds);
  for (int rank = 0; rank < size(); ++rank) {
    if (without.count(rank) != 0) continue;
    while (!holds(rank)) {
      if (reap(rank) && !holds(rank)) {
        ADD_FAILURE() << "rank " << rank << " of " << size() << " ended with wait status "
                      << exit_status_[rank] << " and did not " << what << " (stage "
                      << board_->seats[rank].stage.load() << ", " << board_->seats[rank].failure
                      << ")";
        return false;
      }
      if (Clock::now() > deadline) {
        ADD_FAILURE() << "rank " << rank << " of " << size() << " did not " << what << " within "
                      << seconds << " s (stage " << board_->seats[rank].stage.load() << ", "
                      << board_->seats[rank].failure << ")";
        return false;
      }
      usleep(500);
    }
  }
  return true;
}

bool RankProcesses::wait_stage(int stage, double seconds, const std::set<int>& without) {
  return wait_for([&](int r) { return board_->seats[r].stage.load() >= stage; }, seconds, without,
                  "get to its stage");
}

bool RankProcesses::wait_reports(double seconds, const std::set<int>& without) {
  return wait_for([&](int r) { return reported(r); }, seconds, without, "report");
}

bool RankProcesses::wait_exits(double seconds, const std::set<int>& without) {
  if (!wait_for([&](int r) { return reap(r); }, seconds, without, "exit")) return false;
  bool well = true;
  for (int rank = 0; rank < size(); ++rank) {
    if (without.count(rank) != 0 || exit_status_[rank] == 0) continue;
    ADD_FAILURE() << "rank " << rank << " ended with wait status " << exit_status_[rank];
    well = false;
  }
  return well;
}

void RankProcesses::check_expectations() {
  for (int rank = 0; rank < size(); ++rank)
    EXPECT_EQ(board_->seats[rank].failures.load(), 0)
        << "rank " << rank << ": " << board_->seats[rank].failure;
}

}  // namespace rondo::test
