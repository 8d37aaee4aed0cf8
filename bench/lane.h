// SPDX-License-Identifier: Apache-2.0
// Lane: one rank of the benchmark: its communicator, its buffers, and the preparation and check of
// their data. A thread drives one lane, or several by group calls (-g).
#pragma once

#include <memory>
#include <string>

#include "bench/backend.h"
#include "bench/buffers.h"
#include "bench/options.h"
#include "bench/reference.h"
#include "bench/split.h"

namespace rondo::bench {

// One measurement; the same on all ranks.
struct Test {
  Kind kind;
  ncclDataType_t type;
  Op op;
  int root = 0;
  bool in_place;
};

class Lane {
 public:
  // number: rank in the run. place: its group, and its rank in that group.
  Lane(std::unique_ptr<Backend> backend, int number, const Split::Member& place)
      : backend_(std::move(backend)),
        number_(number),
        group_(place.group),
        rank_(place.rank),
        ranks_(place.ranks) {}

  Backend& backend() { return *backend_; }
  int number() const { return number_; }
  int group() const { return group_; }
  int rank() const { return rank_; }  // in its group
  int ranks() const { return ranks_; }

  Status allocate(const Options& options, std::size_t send_bytes, std::size_t recv_bytes);
  // Collective for windows (-R 2): the lanes of one thread call it in one group.
  Status register_buffers(const Options& options);
  std::size_t buffer_bytes() const { return send_.capacity() + recv_.capacity(); }

  // Prepares this rank's layout, pointers and operation for a test of `bytes`.
  Status begin(const Test& test, const Options& options, std::size_t bytes);
  void end();
  const Layout& layout() const { return layout_; }
  const Recipe& recipe() const { return recipe_; }

  // The call of iteration `turn`, which selects the position in the buffers with --rotate.
  Call call(std::size_t turn) const;
  std::size_t turns() const { return turns_; }

  // Writes the recipe's inputs, garbage where the call must write, and the guards.
  Status prepare(const Recipe& recipe);
  // The same, but all zeros if repeated calls in place would accumulate.
  Status prepare_timed(const Recipe& recipe);
  // Number of wrong elements and guard bytes after one call (if timed: after any number of calls).
  Result<std::size_t> wrong(bool timed, std::string* example);

 private:
  void fill_in(const Recipe& recipe);
  // Copy the used parts of both buffers to the memory for calls, or from it.
  Status send();
  Status fetch();
  bool accumulates() const { return test_.in_place && info(test_.kind).reduces; }
  std::size_t wrong_zeros(std::string* example) const;

  std::unique_ptr<Backend> backend_;
  const int number_, group_, rank_, ranks_;
  Area send_, recv_;
  Test test_{};
  Layout layout_;
  Recipe recipe_;
  ncclRedOp_t op_ = ncclSum;
  std::size_t element_ = 1;
  std::size_t shift_ = 0;    // bytes: -u
  std::size_t send_at_ = 0;  // bytes from the start of its area
  std::size_t recv_at_ = 0;
  std::size_t turns_ = 1, stride_ = 0;
};

}  // namespace rondo::bench
