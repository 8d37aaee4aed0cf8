// SPDX-License-Identifier: Apache-2.0
// train_text: data-parallel training of a character model; uses only the public C API.
//
//   rondo run -n 4 --keep-going -- train_text --steps 500 --checkpoint text.ckpt
//
// The launcher's variables give the rank (launch_env.h): rondo run, torchrun, mpirun, srun.
#include <cstdio>
#include <cstring>
#include <string>

#include "trainer.h"

namespace {

using train::Options;

struct Number {
  const char* name;
  long Options::*value;
  long minimum, maximum;
  const char* help;
};

constexpr Number kNumbers[] = {
    {"--steps", &Options::steps, 1, 1L << 40, "train until this step"},
    {"--batch", &Options::batch, 1, 1 << 24, "characters predicted per step, over all ranks"},
    {"--shards", &Options::shards, 1, 4096, "parts of the batch, a power of two"},
    {"--seed", &Options::seed, 0, 1L << 52, "of parameters and samples"},
    {"--context", &Options::context, 1, 4096, "characters that the model sees"},
    {"--embedding", &Options::embedding, 1, 4096, "numbers per character"},
    {"--hidden", &Options::hidden, 1, 65536, "width of the two hidden layers"},
    {"--checkpoint-every", &Options::checkpoint_every, 1, 1L << 40, "steps between checkpoints"},
    {"--log-every", &Options::log_every, 1, 1L << 40, "steps between lines"},
};

int help() {
  std::printf(
      "train_text: data-parallel training of a character model over Rondo.\n"
      "  rondo run -n 4 --keep-going -- train_text --steps 500\n\n"
      "  %-20s a file, or a directory of files (%s)\n"
      "  %-20s save the state to a file; with --resume, go on from it\n"
      "  %-20s to try it out: RANK@STEP, the rank kills itself there; may be repeated\n",
      "--text PATH", Options().text.c_str(), "--checkpoint FILE", "--kill R@S");
  for (const Number& number : kNumbers)
    std::printf("  %-20s %s (%ld)\n", number.name, number.help, Options().*number.value);
  return 0;
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "train_text: %s\n", why.c_str());
  return 2;
}

// True if the value is right for the option of this name.
bool set(Options* options, const std::string& name, const char* text) {
  char rest = 0;
  for (const Number& number : kNumbers) {
    if (name != number.name) continue;
    long& value = options->*number.value;
    return std::sscanf(text, "%ld%c", &value, &rest) == 1 && value >= number.minimum &&
           value <= number.maximum;
  }
  train::Kill kill;
  if (name == "--kill") {
    if (std::sscanf(text, "%d@%ld%c", &kill.rank, &kill.step, &rest) != 2) return false;
    options->kills.push_back(kill);
  } else {
    (name == "--text" ? options->text : options->checkpoint) = text;
  }
  return *text != '\0';
}

bool is_option(const std::string& name) {
  for (const Number& number : kNumbers)
    if (name == number.name) return true;
  return name == "--text" || name == "--checkpoint" || name == "--kill";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") return help();
    if (name == "--resume") {
      options.resume = true;
      continue;
    }
    if (!is_option(name)) return refuse("'" + name + "' is no option; --help lists them");
    if (++i == argc) return refuse(name + " needs a value");
    if (!set(&options, name, argv[i]))
      return refuse("'" + std::string(argv[i]) + "' is no value for " + name);
  }
  const long shards = options.shards;
  if ((shards & (shards - 1)) != 0 || options.batch % shards != 0)
    return refuse("--shards " + std::to_string(shards) +
                  " is no power of two that divides --batch " + std::to_string(options.batch));
  if (options.resume && options.checkpoint.empty())
    return refuse("--resume needs --checkpoint FILE");
  std::string error;
  const train::Text text(options.text, options.context, &error);
  if (!error.empty()) return refuse(error);
  const auto team = train::Team::join();
  if (team == nullptr) return 1;
  if (team->rank() == 0)
    std::printf("%zu characters (%d different), %d rank%s, %ld shards of %ld samples\n",
                text.size(), text.vocabulary(), team->size(), team->size() == 1 ? "" : "s", shards,
                options.batch / shards);
  return train::Trainer(options, text, *team).run();
}
