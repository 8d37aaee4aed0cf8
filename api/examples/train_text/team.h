// SPDX-License-Identifier: Apache-2.0
// Team: the ranks that train together, and their recovery when some of them die.
//
// Calls are enqueued on one rondo stream and run in the background; finish() waits for all of them.
// After a call has failed because a rank died, recover() makes a smaller team of the survivors.
//
// How survivors agree: the first communicator is kept, and every smaller one is shrunk from it. The
// set of dead ranks only grows, and each survivor can query it at any time (rondoCommGetEnded), so
// survivors that saw different deaths reach the same set. If another rank dies during an attempt,
// the attempt is aborted and repeated. A new team is valid after all its ranks passed a barrier.
//
//   auto team = Team::join(false);
//   team->sum(gradients, count);       // enqueued
//   if (team->finish() != ncclSuccess && !team->recover()) exit(1);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rondo.h"

namespace train {

class Team {
 public:
  // Joins the ranks that a launcher started (launch_env.h). nullptr: failed; the reason was
  // printed.
  static std::unique_ptr<Team> join(bool reproducible);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  int first_rank() const { return world_rank_; }                 // before any death
  int first_size() const { return world_size_; }                 // before any death
  const std::vector<int>& gone() const { return gone_; }         // by their first_rank()
  const std::string& last_fault() const { return last_fault_; }  // why recover() was needed

  // Enqueue a call. The team uses the buffers until finish().
  void sum(float* values, std::size_t count);
  void sum(double* values, std::size_t count);
  void broadcast(void* bytes, std::size_t size, int root);
  void gather(const std::uint64_t* mine, std::size_t count, std::uint64_t* all);
  void barrier();
  // Waits for all calls. Returns the first error since the last recover().
  ncclResult_t finish();

  // false: the team cannot continue; the reason was printed.
  bool recover();

 private:
  Team() = default;
  void note(ncclResult_t result);
  bool more_are_gone();
  bool wait_for_more_gone(double seconds);
  void leave_current();
  enum class Attempt { kMade, kAgain, kHopeless };
  Attempt shrink();
  bool wait_until_made(ncclComm_t child);
  bool meet_all();
  std::string fault_of(ncclComm_t comm) const;

  ncclComm_t world_ = nullptr;    // of all first ranks; the parent of all smaller ones
  ncclComm_t current_ = nullptr;  // world_ or shrunk from it
  rondoStream_t stream_ = nullptr;
  int world_rank_ = 0, world_size_ = 1, rank_ = 0;
  std::vector<int> members_, gone_;
  ncclResult_t error_ = ncclSuccess;
  std::string last_fault_;
};

}  // namespace train
