// SPDX-License-Identifier: Apache-2.0
// train_text: data-parallel training of a character model; uses only the public C API.
//
//   rondo run -n 4 --keep-going -- train_text --steps 500 --checkpoint text.ckpt
//
// The launcher's variables give the rank (launch_env.h): rondo run, torchrun, mpirun, srun.
#include <cstdio>

#include "options.h"
#include "team.h"
#include "text.h"
#include "trainer.h"

int main(int argc, char** argv) {
  train::Options options;
  switch (train::parse_options(argc, argv, &options)) {
    case train::Parsed::kHelp:
      return 0;
    case train::Parsed::kWrong:
      return 2;
    case train::Parsed::kRun:
      break;
  }
  std::string error;
  const train::Text text = train::Text::load(options.text, options.context, &error);
  if (!error.empty()) {
    std::fprintf(stderr, "train_text: %s\n", error.c_str());
    return 1;
  }
  const auto team = train::Team::join(options.reproducible);
  if (team == nullptr) return 1;
  if (team->size() > options.shards) {
    std::fprintf(stderr, "train_text: %d ranks need --shards %d or more, not %d\n", team->size(),
                 team->size(), options.shards);
    return 1;
  }
  train::Trainer trainer(options, text, *team);
  if (team->rank() == 0) {
    std::printf("%zu characters (%d different), %d rank%s, %d shards of %d samples\n", text.size(),
                text.vocabulary(), team->size(), team->size() == 1 ? "" : "s", options.shards,
                options.batch / options.shards);
    std::fflush(stdout);
  }
  return trainer.run();
}
