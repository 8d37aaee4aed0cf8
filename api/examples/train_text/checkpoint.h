// Checkpoint: the state of training in a file, complete or absent.
//
// Layout, little endian: header (magic, version, sizes, what the run was started with, step,
// checksums), then parameters, mean and variance as float32. Written beside the file, flushed to
// the disk and renamed over it: a crash at any point leaves the old checkpoint or the new one.
// Reading verifies everything before it is believed, and says which check failed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.h"

namespace train {

// What must be equal for a run to go on as if it had never stopped.
struct RunFacts {
  std::int64_t batch, shards, context, embedding, hidden, vocabulary;
  std::uint64_t seed, text_hash;
  double learning_rate;
};

// Both return an empty text, or why it failed and what to do.
std::string save_checkpoint(const std::string& path, const RunFacts& facts, std::int64_t step,
                            const std::vector<float>& state);
std::string load_checkpoint(const std::string& path, const RunFacts& facts, std::int64_t* step,
                            std::vector<float>* state);

}  // namespace train
