// Lane: one rank of the benchmark: its end of the communicator, its buffers, and the judge's work
// on them. A thread drives one lane, or several by group calls (-g).
#pragma once

#include <memory>
#include <string>

#include "bench/backend.h"
#include "bench/buffers.h"
#include "bench/options.h"
#include "bench/reference.h"
#include "bench/split.h"

namespace rondo::bench {

// One measurement: the same on all ranks but for the layout.
struct Test {
  Kind kind;
  ncclDataType_t type;
  Op op;
  int root = 0;
  bool in_place;
};

class Lane {
 public:
  // Rank `number` of the run has this place in its group.
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
  // Collective for windows (-R 2): lanes of one thread do it in one group.
  Status register_buffers(const Options& options);
  std::size_t buffer_bytes() const { return send_.capacity() + recv_.capacity(); }

  // Prepares this rank's layout, pointers and operation for a test of that many bytes.
  Status begin(const Test& test, const Options& options, std::size_t bytes);
  void end();
  const Layout& layout() const { return layout_; }
  const Recipe& recipe() const { return recipe_; }

  // The call; `turn` chooses the place where buffers rotate.
  Call call(std::size_t turn) const;
  std::size_t turns() const { return turns_; }

  // Inputs of this recipe, garbage in what the call must write, guards around.
  Status prepare(const Recipe& recipe);
  // Zeros where repeated calls in place would otherwise add up.
  Status prepare_timed(const Recipe& recipe);
  // Elements and guard bytes that are wrong after one call (after any number, if timed).
  Result<std::size_t> wrong(bool timed, std::string* example);

 private:
  void fill_in(const Recipe& recipe);
  // Both buffers, as far as this test uses them, to where calls work, or from there.
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
  std::size_t send_at_ = 0;  // bytes in the area that the send side lives in
  std::size_t recv_at_ = 0;
  std::size_t turns_ = 1, stride_ = 0;
};

}  // namespace rondo::bench
