// SPDX-License-Identifier: Apache-2.0
// The ranks of a job that run in one process: this process, or a process of the job
// (tests/support/processes.h). The type says what a rank has: RankSeat no communicator; EngineRank
// one of the engine itself; NcclRank one of nccl.h, on a device or on host memory.
//
//   Ranks<NcclRank> ranks(Layout{{{0, 1}}});
//   ranks.each([](NcclRank& rank) { ... });   // each on a thread of its own
// Guarantees: gtest's assertions in a body are those of the test; each() returns when all bodies
// have returned. Cost: one thread per rank and call.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "tests/support/layout.h"
#include "tests/support/rank_seat.h"
#include "tests/support/threads.h"

namespace rondo::test {

// Placement of a job's ranks, and how they start and end. A layout or options alone convert to a
// job.
struct Job : Layout {
  Job() = default;
  Job(Layout layout) : Layout(std::move(layout)) {}
  Job(CommOptions options) : comm(std::move(options)) {}

  CommOptions comm;            // for EngineRank
  bool create = true;          // make the communicators before the bodies run
  bool leave_by_exit = false;  // processes end by exit(): static objects are destroyed
};

template <class R>
class Ranks {
 public:
  // The whole job in this process. No rank has a communicator yet.
  explicit Ranks(const Layout& layout) : own_(std::make_unique<SharedBoard>(layout.ranks())) {
    own_->get().make_id();
    for (std::size_t p = 0; p < layout.processes.size(); ++p)
      add(own_->get(), layout, static_cast<int>(p));
  }
  // The ranks of one process of a job.
  Ranks(Board& board, const Layout& layout, int process) { add(board, layout, process); }

  int size() const { return static_cast<int>(ranks_.size()); }
  R& operator[](int i) { return *ranks_[i]; }
  const R& operator[](int i) const { return *ranks_[i]; }
  // A barrier over all ranks of the job, called by one thread per process.
  bool meet() { return ranks_[0]->board.meet(size()); }

  // A process with one rank has no second thread.
  void each(const std::function<void(R&)>& body) {
    if (size() == 1) return body(*ranks_[0]);
    on_threads(size(), [&](int i) { body(*ranks_[i]); });
  }

 private:
  void add(Board& board, const Layout& layout, int process) {
    int rank = layout.first_of(process);
    for (const int device : layout.processes[process])
      ranks_.push_back(std::make_unique<R>(board, rank++, device));
  }

  std::unique_ptr<SharedBoard> own_;
  std::vector<std::unique_ptr<R>> ranks_;
};

// The parameter of a body: a rank, or all ranks of its process, which the body then begins and ends
// itself. run() returns an object that owns the ranks, because a process may end before they do.
template <class R>
struct BodyOf {
  template <class Body>
  static std::shared_ptr<void> run(Board& board, const Job& job, int process, const Body& body) {
    const auto ranks = std::make_shared<Ranks<R>>(board, job, process);
    ranks->each([&](R& rank) {
      if (!rank.begin(job)) return;
      body(rank);
      rank.end(job);
    });
    return ranks;
  }
};
template <class R>
struct BodyOf<Ranks<R>> {
  template <class Body>
  static std::shared_ptr<void> run(Board& board, const Job& job, int process, const Body& body) {
    const auto ranks = std::make_shared<Ranks<R>>(board, job, process);
    body(*ranks);
    return ranks;
  }
};

namespace detail {
template <class A>
A argument(void (*)(A&));
template <class F, class A>
A argument(void (F::*)(A&));
template <class F, class A>
A argument(void (F::*)(A&) const);
}  // namespace detail

// The type of a body's only parameter, a reference.
template <class Body>
struct Taken {
  using Type = decltype(detail::argument(&Body::operator()));
};
template <class A>
struct Taken<void(A&)> {
  using Type = A;
};
template <class A>
struct Taken<void (*)(A&)> {
  using Type = A;
};

}  // namespace rondo::test
