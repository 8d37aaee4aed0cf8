// SPDX-License-Identifier: Apache-2.0
// Checkpoint: the state of training in a file. The file is always complete or absent.
//
// Layout, little endian: header (magic, version, sizes, the run's RunFacts, step, checksums), then
// parameters, mean and variance as float32. It is written to a temporary file, flushed to the disk
// and renamed: a crash at any point leaves the old checkpoint or the new one. Reading verifies
// everything before use, and reports which check failed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.h"

namespace train {

// Values that must be equal for a resumed run to continue as if it had never stopped.
struct RunFacts {
  std::int64_t batch, shards, context, embedding, hidden, vocabulary;
  std::uint64_t seed, text_hash;
  double learning_rate;
};

// Both return "" on success, else why it failed and what to do.
std::string save_checkpoint(const std::string& path, const RunFacts& facts, std::int64_t step,
                            const std::vector<float>& state);
std::string load_checkpoint(const std::string& path, const RunFacts& facts, std::int64_t* step,
                            std::vector<float>* state);

}  // namespace train
