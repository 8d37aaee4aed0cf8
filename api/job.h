// SPDX-License-Identifier: Apache-2.0
// Job: calls that run together, sorted by communicator.
//
// Guarantees: clear() releases the communicators and the turns in their queues but keeps the
// memory. Refilling a job with no more calls than before allocates nothing (Job::of_thread()).
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "api/execute.h"

namespace rondo::api {

// One communicator's share of a job.
struct Share {
  CommPin comm;
  Turn turn;  // empty until the job is in the communicator's queue
  std::vector<Call> calls;
  std::vector<std::shared_ptr<const profiler::CallEvent>> events;  // to which calls point

  void add(const Request& request);
};

class Job {
 public:
  Job() = default;
  Job(Job&& other) noexcept
      : works(std::move(other.works)),
        shares_(std::move(other.shares_)),
        used_(std::exchange(other.used_, 0)) {}
  Job& operator=(Job&&) = delete;
  // The calling thread's reusable job. For calls that are complete when the API function returns.
  static Job& of_thread();

  std::span<Share> shares() { return {shares_.data(), used_}; }
  std::span<const Share> shares() const { return {shares_.data(), used_}; }
  Share& add_share(CommPin&& comm);
  void clear();

  std::vector<Communicator::Work> works;  // passed to the engine while the job runs

 private:
  std::vector<Share> shares_;  // only the first used_ are valid
  std::size_t used_ = 0;
};

// Clears the job at the end of a scope.
class ClearedJob {
 public:
  explicit ClearedJob(Job& job) : job_(job) {}
  ~ClearedJob() { job_.clear(); }
  ClearedJob(const ClearedJob&) = delete;
  ClearedJob& operator=(const ClearedJob&) = delete;

 private:
  Job& job_;
};

}  // namespace rondo::api
