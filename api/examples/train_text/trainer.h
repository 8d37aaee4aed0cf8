// SPDX-License-Identifier: Apache-2.0
// Trainer: one rank's part of the training; run() returns after the last step.
//
// A step: the forward pass of every shard of this rank. Then, layer by layer from the output, the
// shards' gradients are computed and summed in the tree of shards.h. Each bucket's all-reduce is
// enqueued as soon as the bucket is complete, so that it overlaps with the computation of the next
// one. After the last bucket the rank waits for unfinished calls (the exposed communication) and
// updates its parameters. So the parameters always belong to a whole number of steps.
//
// After a death the survivors continue with the parameters of the rank with the most steps (ranks
// differ by at most one), and all shards are assigned to the survivors.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "buckets.h"
#include "checkpoint.h"
#include "model.h"
#include "options.h"
#include "run_log.h"
#include "team.h"
#include "text.h"
#include "thread_pool.h"

namespace train {

// Adam (Kingma and Ba, 2015) over flat arrays: deterministic, element by element.
// The state that training keeps between steps: three arrays of equal length, back to back.
struct State {
  float* parameters;
  float* mean;      // of the gradients
  float* variance;  // of the gradients, uncentred
};

// `step` counts from 1.
inline void adam_update(const State& state, const float* gradients, std::size_t count,
                        std::int64_t step, double learning_rate) {
  constexpr float kMean = 0.9f, kVariance = 0.999f, kLeast = 1e-8f;
  const auto t = static_cast<double>(step);
  const auto rate = static_cast<float>(learning_rate / (1 - std::pow(0.9, t)));
  const auto correction = static_cast<float>(1 / (1 - std::pow(0.999, t)));
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradients[i];
    state.mean[i] = kMean * state.mean[i] + (1 - kMean) * g;
    state.variance[i] = kVariance * state.variance[i] + (1 - kVariance) * g * g;
    state.parameters[i] -=
        rate * state.mean[i] / (std::sqrt(state.variance[i] * correction) + kLeast);
  }
}

class Trainer {
 public:
  Trainer(const Options& options, const Text& text, Team& team);

  // Returns the exit status of the program.
  int run();

 private:
  enum class Outcome { kDone, kDeath, kStop };

  Outcome train();
  Outcome align();  // brings all ranks to one step, with equal parameters
  Outcome fetch_state(int root);
  Outcome step();
  void deal_shards();
  void backward();
  void reduce_bucket(const Bucket& bucket, bool first);
  bool become_first();  // sets initial parameters, or those of the checkpoint
  void save_if_due(bool last);
  void report(const StepReport& report);
  void summarize() const;
  void write_sample() const;
  std::uint64_t fingerprint() const;
  State state();
  bool leads() const { return team_.rank() == 0; }

  const Options& options_;
  const Text& text_;
  Team& team_;
  Model model_;
  RunFacts facts_;
  ThreadPool pool_;
  RunLog log_;
  std::vector<Bucket> buckets_;
  std::vector<float> state_;               // parameters, mean, variance
  std::vector<float> gradients_;           // after the all-reduce: of all shards of all ranks
  std::vector<Shard> shards_;              // this rank's
  std::vector<std::vector<float>> parts_;  // one bucket's gradient, per shard
  int first_shard_ = 0;
  std::int64_t completed_ = -1;  // steps in the parameters; -1: no parameters yet
  std::int64_t saved_ = -1;
  bool save_failed_ = false;  // training continues; the exit status reports it
  double loss_ = 0;           // of the last step
  std::size_t gone_ = 0;      // number of reported deaths
  bool leading_ = false;      // has opened the log as the first rank

  double seconds_ = 0, exposed_ = 0;  // time in steps since this process started
  double seconds_reported_ = 0, exposed_reported_ = 0;
  std::int64_t steps_here_ = 0, steps_reported_ = 0;
};

}  // namespace train
