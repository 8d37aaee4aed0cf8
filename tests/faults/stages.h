// SPDX-License-Identifier: Apache-2.0
// The stages of one rank of a job, through the C API.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "api/rondo.h"
#include "tests/faults/job.h"

namespace rondo::test {

// Where rank 0 publishes the ticket of a round.
struct Meeting {
  std::atomic<int> state;  // 0: none yet, 1: available, 2: there will be none
  ncclUniqueId ticket;
};

class Rank {
 public:
  Rank(int rank, int size) : rank_(rank), size_(size) { requests_.reserve(16); }

  bool run(Stage stage, Meeting& meeting);
  // Finishes the rest of the round.
  void finish();

  std::string error;       // of the round: the call that failed, and the last error
  bool has_fault = false;  // the round

 private:
  double patience() const;
  bool init(Meeting& meeting);
  bool call(ncclComm_t comm);
  bool stream();
  bool message();
  bool split();
  bool destroy();
  bool succeeded(ncclResult_t result, const char* what);
  bool sums(ncclComm_t comm, std::size_t count, cudaStream_t stream);

  const int rank_, size_;
  ncclComm_t comm_ = nullptr;
  std::vector<rondoRequest_t> requests_;
  // Messages can still arrive in these buffers after a stage has failed.
  std::vector<float> in_ = std::vector<float>(kMaxFloats, 1.0f);
  std::vector<float> out_ = std::vector<float>(kMaxFloats);
  static constexpr std::size_t kMaxFloats = 1 << 18;
};

// One thread per rank; the threads exist before go() and have ended after it.
class OnThreads {
 public:
  OnThreads(std::size_t count, std::function<void(std::size_t)> body);
  void go();

 private:
  std::atomic<bool> open_{false};
  std::atomic<std::size_t> done_{0};
  std::atomic<bool> leave_{false};
  std::function<void(std::size_t)> body_;
  std::vector<std::thread> threads_;
};

}  // namespace rondo::test
