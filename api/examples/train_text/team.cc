// SPDX-License-Identifier: Apache-2.0
#include "team.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <thread>

#include "launch_env.h"

namespace train {
namespace {

// Enough time for the kernel to end a large process.
constexpr double kPatienceSeconds = 10;
constexpr double kMeetSeconds = 60;

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(500)); }

}  // namespace

std::unique_ptr<Team> Team::join(bool reproducible) {
  rondo_launch_t launch;
  if (rondo_launch_read(&launch) < 0) return nullptr;
  ncclUniqueId id{};
  if (launch.rank == 0 && ncclGetUniqueId(&id) != ncclSuccess) {
    std::fprintf(stderr, "train_text: %s\n", ncclGetLastError(nullptr));
    return nullptr;
  }
  if (rondo_launch_broadcast(&launch, &id, sizeof id, kMeetSeconds) != 0) return nullptr;
  std::unique_ptr<Team> team(new Team);
  team->world_rank_ = team->rank_ = launch.rank;
  team->world_size_ = launch.size;
  team->members_.resize(launch.size);
  std::iota(team->members_.begin(), team->members_.end(), 0);
  rondoCommOptions_t options = RONDO_COMM_OPTIONS_INITIALIZER;
  options.device = rondoDeviceHost;
  if (reproducible) options.reproducible = 1;
  if (rondoCommInitRankOptions(&team->world_, launch.size, id, launch.rank, nullptr, &options) !=
          ncclSuccess ||
      rondoStreamCreate(&team->stream_) != ncclSuccess) {
    std::fprintf(stderr, "train_text: %s\n", ncclGetLastError(nullptr));
    return nullptr;
  }
  team->current_ = team->world_;
  return team;
}

Team::~Team() {
  if (current_ != nullptr && current_ != world_) ncclCommDestroy(current_);
  if (stream_ != nullptr) rondoStreamDestroy(stream_);
  if (world_ != nullptr) ncclCommDestroy(world_);
}

void Team::note(ncclResult_t result) {
  if (error_ == ncclSuccess && result != ncclInProgress) error_ = result;
}

void Team::sum(float* values, std::size_t count) {
  note(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, current_,
                     rondoStreamHandle(stream_)));
}

void Team::sum(double* values, std::size_t count) {
  note(ncclAllReduce(values, values, count, ncclFloat64, ncclSum, current_,
                     rondoStreamHandle(stream_)));
}

void Team::broadcast(void* bytes, std::size_t size, int root) {
  note(ncclBroadcast(bytes, bytes, size, ncclInt8, root, current_, rondoStreamHandle(stream_)));
}

void Team::gather(const std::uint64_t* mine, std::size_t count, std::uint64_t* all) {
  note(ncclAllGather(mine, all, count, ncclUint64, current_, rondoStreamHandle(stream_)));
}

void Team::barrier() { note(rondoBarrier(current_, rondoStreamHandle(stream_))); }

ncclResult_t Team::finish() {
  note(rondoStreamSynchronize(stream_));
  return error_;
}

// ---- After a death ----

std::string Team::fault_of(ncclComm_t comm) const {
  rondoFault_t fault{};
  fault.size = sizeof fault;
  if (rondoCommGetFault(comm, &fault) == ncclSuccess && fault.result != ncclSuccess)
    return fault.sentence;
  return ncclGetLastError(comm);
}

bool Team::more_are_gone() {
  std::vector<int> ended(world_size_);
  int count = 0;
  const std::size_t before = gone_.size();
  const auto add = [&](int rank) {
    if (std::find(gone_.begin(), gone_.end(), rank) == gone_.end()) gone_.push_back(rank);
  };
  if (rondoCommGetEnded(world_, ended.data(), &count) == ncclSuccess)
    std::for_each(ended.begin(), ended.begin() + count, add);
  // Deaths that only the current team has seen, for example on another host.
  if (current_ != nullptr && current_ != world_ &&
      rondoCommGetEnded(current_, ended.data(), &count) == ncclSuccess)
    for (int i = 0; i < count; ++i) add(members_[ended[i]]);
  std::sort(gone_.begin(), gone_.end());
  return gone_.size() > before;
}

bool Team::wait_for_more_gone(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!more_are_gone()) {
    if (std::chrono::steady_clock::now() > until) return false;
    pause();
  }
  return true;
}

// Aborts calls in flight; peers that wait for this rank get an error.
void Team::leave_current() {
  if (current_ != nullptr && current_ != world_) ncclCommAbort(current_);
  current_ = nullptr;
}

bool Team::recover() {
  last_fault_ = fault_of(current_);
  if (!wait_for_more_gone(kPatienceSeconds)) {
    std::fprintf(stderr, "train_text: nobody died, so nobody can be left out: %s\n",
                 last_fault_.c_str());
    return false;
  }
  leave_current();
  for (;;) {
    switch (shrink()) {
      case Attempt::kMade:
        return true;
      case Attempt::kHopeless:
        return false;
      case Attempt::kAgain:
        leave_current();
    }
  }
}

Team::Attempt Team::shrink() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that further deaths are detected during the shrink
  ncclComm_t child = nullptr;
  std::vector<int> gone = gone_;
  const ncclResult_t begun = ncclCommShrink(world_, gone.data(), static_cast<int>(gone.size()),
                                            &child, &config, NCCL_SHRINK_ABORT);
  (void)rondoStreamSynchronize(stream_);  // queued calls have failed
  error_ = ncclSuccess;
  if (begun != ncclSuccess && begun != ncclInProgress) {
    std::fprintf(stderr, "train_text: the survivors cannot meet: %s\n", ncclGetLastError(nullptr));
    return Attempt::kHopeless;
  }
  members_.clear();
  for (int r = 0; r < world_size_; ++r)
    if (std::find(gone.begin(), gone.end(), r) == gone.end()) members_.push_back(r);
  current_ = child;
  const bool made = wait_until_made(child);
  if (!made && gone_.size() > gone.size()) return Attempt::kAgain;
  if (made && ncclCommUserRank(child, &rank_) == ncclSuccess && meet_all()) return Attempt::kMade;
  const std::string fault = fault_of(child);
  if (gone_.size() > gone.size() || wait_for_more_gone(kPatienceSeconds)) return Attempt::kAgain;
  std::fprintf(stderr, "train_text: the survivors do not meet: %s\n", fault.c_str());
  return Attempt::kHopeless;
}

bool Team::wait_until_made(ncclComm_t child) {
  for (;;) {
    ncclResult_t state = ncclInProgress;
    if (ncclCommGetAsyncError(child, &state) != ncclSuccess) return false;
    if (state != ncclInProgress) return state == ncclSuccess;
    if (more_are_gone()) return false;
    pause();
  }
}

bool Team::meet_all() {
  barrier();
  while (error_ == ncclSuccess && rondoStreamQuery(stream_) == ncclInProgress) {
    if (more_are_gone()) return false;
    pause();
  }
  return finish() == ncclSuccess;
}

}  // namespace train
