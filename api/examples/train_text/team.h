// SPDX-License-Identifier: Apache-2.0
// Team: the ranks that train together, and their recovery when some of them die.
//
// Calls are enqueued on one rondo stream and run in the background; finish() waits for all of them.
// After a call has failed because a rank died, recover() makes a smaller team of the survivors. The
// survivors name the ranks that have ended; a try fails for all of them if another rank ends
// meanwhile or somebody does not know yet, and all try again (docs/start/cpp.md). A smaller
// communicator counts once its first call has succeeded; until then the larger one is kept.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "launch_env.h"
#include "rondo.h"

namespace train {

// This rank's share of the shards of a batch.
struct Share {
  int total = 0, first = 0, count = 0;
};

class Team {
 public:
  // Joins the ranks that a launcher started (launch_env.h). nullptr: failed; the reason was
  // printed.
  static std::unique_ptr<Team> join() {
    std::unique_ptr<Team> team(new Team);
    rondo_launch_t launch;
    if (rondo_launch_read(&launch) < 0) return nullptr;
    ncclUniqueId id{};
    if (launch.rank == 0 && ncclGetUniqueId(&id) != ncclSuccess) return team->refuse("no id");
    if (rondo_launch_broadcast(&launch, &id, sizeof id, 60.0) != 0) return nullptr;
    rondoCommOptions_t options = RONDO_COMM_OPTIONS_INITIALIZER;
    options.device = rondoDeviceHost;
    if (rondoCommInitRankOptions(&team->comm_, launch.size, id, launch.rank, nullptr, &options) !=
            ncclSuccess ||
        rondoStreamCreate(&team->stream_) != ncclSuccess)
      return team->refuse("cannot join");
    team->rank_ = team->first_rank_ = launch.rank;
    team->members_.resize(launch.size);
    std::iota(team->members_.begin(), team->members_.end(), 0);
    return team;
  }
  ~Team() {
    if (stream_ != nullptr) rondoStreamDestroy(stream_);
    if (comm_ != nullptr) ncclCommDestroy(comm_);
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  int first_rank() const { return first_rank_; }  // before any death

  // Contiguous; sizes differ by at most one, lower ranks have more.
  Share share_of(int total) const {
    const int each = total / size(), more = total % size();
    return {total, each * rank_ + (rank_ < more ? rank_ : more), each + (rank_ < more ? 1 : 0)};
  }

  // Enqueue a call. The team uses the buffers until finish().
  // mean[i]: of all shards' part[i]; a rank passes its own shards' parts, one behind the other. The
  // sum goes along a fixed tree over shards, so its bits depend on no number of ranks.
  void average(const float* parts, float* mean, std::size_t count, const Share& mine) {
    average(parts, mean, count, ncclFloat32, mine);
  }
  void average(const double* parts, double* mean, std::size_t count, const Share& mine) {
    average(parts, mean, count, ncclFloat64, mine);
  }
  void broadcast(void* bytes, std::size_t size, int root) {
    note(ncclBroadcast(bytes, bytes, size, ncclInt8, root, comm_, rondoStreamHandle(stream_)));
  }
  void barrier() { note(rondoBarrier(comm_, rondoStreamHandle(stream_))); }
  // all[r]: rank r's number.
  void gather(const std::int64_t& mine, std::vector<std::int64_t>* all) {
    all->resize(members_.size());
    note(ncclAllGather(&mine, all->data(), 1, ncclInt64, comm_, rondoStreamHandle(stream_)));
  }

  // Waits for all calls. False: one has failed.
  bool finish() {
    note(rondoStreamSynchronize(stream_));
    return error_ == ncclSuccess;
  }

  // After a failed call: goes on without the ranks that have ended. False: the team cannot; the
  // reason was printed.
  bool recover() {
    (void)rondoStreamSynchronize(stream_);  // queued calls have failed
    const std::string fault = ncclGetLastError(comm_);
    for (int tries = 1; tries <= kTries; ++tries) {
      std::vector<int> ended(members_.size());
      int count = 0;
      if (rondoCommGetEnded(comm_, ended.data(), &count) != ncclSuccess || count == 0) break;
      ended.resize(count);
      if (shrink(ended)) {
        if (rank_ == 0) std::printf("  (the team until then said: %s)\n", fault.c_str());
        return true;
      }
    }
    std::fprintf(stderr, "train_text: rank %d cannot go on: %s\n", first_rank_, fault.c_str());
    return false;
  }

 private:
  static constexpr int kTries = 20;

  Team() = default;
  std::nullptr_t refuse(const char* what) {
    std::fprintf(stderr, "train_text: %s: %s\n", what, ncclGetLastError(nullptr));
    return nullptr;
  }
  void note(ncclResult_t result) {
    if (error_ == ncclSuccess && result != ncclInProgress) error_ = result;
  }

  void average(const void* parts, void* mean, std::size_t count, ncclDataType_t type,
               const Share& mine) {
    note(rondoAllReduceOrdered(parts, mean, count, type, ncclAvg, mine.total, mine.first,
                               mine.count, rondoRoundNode, comm_, rondoStreamHandle(stream_)));
  }

  // One try, which ends by RONDO_INIT_TIMEOUT. False: the team is as before.
  bool shrink(std::vector<int>& ended) {
    ncclComm_t smaller = nullptr;
    ncclResult_t result = ncclCommShrink(comm_, ended.data(), static_cast<int>(ended.size()),
                                         &smaller, nullptr, NCCL_SHRINK_ABORT);
    if (result == ncclSuccess) result = rondoBarrier(smaller, nullptr);
    if (result != ncclSuccess) {
      if (smaller != nullptr) ncclCommAbort(smaller);
      return false;
    }
    ncclCommAbort(comm_);
    comm_ = smaller;
    error_ = ncclSuccess;
    std::string dead;
    for (const int r : ended) {
      dead += (dead.empty() ? "" : ", ") + std::to_string(members_[r]);
      members_[r] = -1;
    }
    std::erase(members_, -1);
    ncclCommUserRank(comm_, &rank_);
    if (rank_ == 0) std::printf("without rank %s: %d go on\n", dead.c_str(), size());
    return true;
  }

  ncclComm_t comm_ = nullptr;
  rondoStream_t stream_ = nullptr;
  int first_rank_ = 0, rank_ = 0;
  std::vector<int> members_;  // first ranks, by rank
  ncclResult_t error_ = ncclSuccess;
};

}  // namespace train
