// SPDX-License-Identifier: Apache-2.0
// Trainer: one rank's part of the training; run() returns after the last step.
//
// A step: the forward pass of every shard of this rank. Then, layer by layer from the output, the
// shards' gradients, whose average over all ranks is enqueued as soon as the layer is complete, so
// that it overlaps with the computation of the next one. Then the rank waits for unfinished calls
// (the exposed communication) and updates its parameters, by Adam (Kingma and Ba, 2015). So the
// parameters always belong to a whole number of steps, and have the same bits on any number of
// ranks.
//
// After a death the survivors continue with the parameters of the rank with the most steps (ranks
// differ by at most one), and share all shards among them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data.h"
#include "model.h"
#include "team.h"

namespace train {

// The rank (as numbered at the start) kills itself in the middle of that step.
struct Kill {
  int rank = 0;
  long step = 0;
};

struct Options {
  long steps = 200;
  long batch = 256;  // characters predicted per step, over all ranks
  long shards = 8;   // parts of the batch; independent of the number of ranks
  long seed = 1;
  long context = 32;  // characters that the model sees
  long embedding = 16;
  long hidden = 256;
  long checkpoint_every = 100;
  long log_every = 10;
  std::string text = "/usr/share/common-licenses";  // a file, or a directory of files
  std::string checkpoint;
  bool resume = false;
  std::vector<Kill> kills;
};

class Trainer {
 public:
  Trainer(const Options& options, const Text& text, Team& team);

  // Returns the exit status of the program.
  int run();

 private:
  enum class Outcome { kDone, kDeath, kStop };

  Outcome train();
  Outcome align();  // brings all ranks to one step, with equal parameters
  bool step();      // false: a call has failed
  void update();
  bool begin();  // sets initial parameters, or those of the checkpoint
  void save();
  std::uint64_t facts() const;  // what must be equal for a resumed run to go on
  void report(double seconds, double exposed);

  const Options& options_;
  const Text& text_;
  Team& team_;
  Model model_;
  std::vector<float> state_;      // parameters, then mean and variance of the gradients
  std::vector<float> gradients_;  // averages over all shards
  std::vector<float> parts_;      // of this rank's shards: layer by layer, in it shard by shard
  std::vector<Pass> passes_;      // of this rank's shards
  std::vector<double> losses_;    // the same
  Share mine_;
  long completed_ = -1;  // steps in the parameters; -1: no parameters yet
  long saved_ = -1;
  double loss_ = 0;      // of the last step
  bool failed_ = false;  // to save; training goes on, the exit status reports it
};

}  // namespace train
