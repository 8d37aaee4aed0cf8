// SPDX-License-Identifier: Apache-2.0
// Options: the trainer's command line. `train_text --help` prints it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace train {

// --kill RANK@STEP: the rank (as numbered at the start) kills itself in the middle of that step.
struct Kill {
  int rank = 0;
  std::int64_t step = 0;
};

struct Options {
  std::int64_t steps = 200;
  int batch = 256;  // characters predicted per step, over all ranks
  int shards = 8;   // parts of the batch; independent of the number of ranks
  std::uint64_t seed = 1;
  double learning_rate = 0.003;
  int context = 32;  // characters that the model sees
  int embedding = 16;
  int hidden = 256;
  std::string text = "/usr/share/common-licenses";  // a file, or a directory of files
  std::string checkpoint;
  std::int64_t checkpoint_every = 100;
  bool resume = false;
  std::string log_json;
  std::int64_t log_every = 10;
  int threads = 1;  // per rank
  int bucket_kib = 128;
  bool reproducible = false;
  int sample = 0;  // characters to write after training
  std::vector<Kill> kills;
};

enum class Parsed { kRun, kHelp, kWrong };

// kWrong: wrong command line; the reason was printed.
Parsed parse_options(int argc, char** argv, Options* options);

}  // namespace train
