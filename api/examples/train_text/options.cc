// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace train {
namespace {

struct Row {
  const char* name;
  const char* value;  // the value's name in the help; nullptr: a flag
  const char* help;
  std::function<bool(const char*)> set;  // false: invalid value
};

template <class Number>
std::function<bool(const char*)> number(Number* into, double minimum, double maximum) {
  return [=](const char* text) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= minimum) || !(value <= maximum)) return false;
    *into = static_cast<Number>(value);
    return static_cast<double>(*into) == value;  // integers: must be whole
  };
}

std::function<bool(const char*)> word(std::string* into) {
  return [=](const char* text) {
    *into = text;
    return *text != '\0';
  };
}

std::function<bool(const char*)> flag(bool* into) {
  return [=](const char*) { return *into = true; };
}

std::function<bool(const char*)> kills(std::vector<Kill>* into) {
  return [=](const char* text) {
    Kill kill;
    char rest = 0;
    long long step = 0;
    if (std::sscanf(text, "%d@%lld%c", &kill.rank, &step, &rest) != 2 || kill.rank < 0 || step < 1)
      return false;
    kill.step = step;
    into->push_back(kill);
    return true;
  };
}

std::vector<Row> rows(Options* o) {
  return {
      {"--steps", "N", "train until step N (200)", number(&o->steps, 1, 1e12)},
      {"--batch", "N", "characters predicted per step, over all ranks (256)",
       number(&o->batch, 1, 1 << 24)},
      {"--shards", "N", "fixed parts of the batch, at least one per rank (8)",
       number(&o->shards, 1, 4096)},
      {"--seed", "N", "of parameters and samples (1)", number(&o->seed, 0, 9e15)},
      {"--learning-rate", "X", "of Adam (0.003)", number(&o->learning_rate, 1e-12, 1e3)},
      {"--context", "N", "characters that the model sees (32)", number(&o->context, 1, 4096)},
      {"--embedding", "N", "numbers per character (16)", number(&o->embedding, 1, 4096)},
      {"--hidden", "N", "width of the two hidden layers (256)", number(&o->hidden, 1, 65536)},
      {"--text", "PATH", "a file, or a directory of files (/usr/share/common-licenses)",
       word(&o->text)},
      {"--checkpoint", "FILE", "save to FILE", word(&o->checkpoint)},
      {"--checkpoint-every", "K", "every K steps and at the end (100)",
       number(&o->checkpoint_every, 1, 1e12)},
      {"--resume", nullptr, "go on from --checkpoint", flag(&o->resume)},
      {"--log-json", "FILE", "one JSON object per step", word(&o->log_json)},
      {"--log-every", "K", "print every K steps (10)", number(&o->log_every, 1, 1e12)},
      {"--threads-per-rank", "N", "threads that compute (1)", number(&o->threads, 1, 1024)},
      {"--bucket", "KIB", "gradients per all-reduce (128)", number(&o->bucket_kib, 1, 1 << 20)},
      {"--reproducible", nullptr, "the communicator's reproducible mode", flag(&o->reproducible)},
      {"--sample", "N", "write N characters of its own at the end (0)",
       number(&o->sample, 0, 1 << 20)},
      {"--kill", "RANK@STEP", "to try it out: this rank kills itself there; may be repeated",
       kills(&o->kills)},
  };
}

void print_help(const std::vector<Row>& table) {
  std::printf(
      "train_text: data-parallel training of a character model over Rondo.\n"
      "  rondo run -n 4 --keep-going -- train_text --steps 500\n\n");
  for (const Row& row : table) {
    const std::string left =
        std::string(row.name) + (row.value ? std::string(" ") + row.value : "");
    std::printf("  %-24s %s\n", left.c_str(), row.help);
  }
}

}  // namespace

Parsed parse_options(int argc, char** argv, Options* options) {
  const std::vector<Row> table = rows(options);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      print_help(table);
      return Parsed::kHelp;
    }
    const Row* found = nullptr;
    for (const Row& row : table)
      if (std::strcmp(row.name, argv[i]) == 0) found = &row;
    if (found == nullptr) {
      std::fprintf(stderr, "train_text: '%s' is no option; --help lists them\n", argv[i]);
      return Parsed::kWrong;
    }
    const char* value = "";
    if (found->value != nullptr) {
      if (++i == argc) {
        std::fprintf(stderr, "train_text: %s needs a value: %s\n", found->name, found->value);
        return Parsed::kWrong;
      }
      value = argv[i];
    }
    if (!found->set(value)) {
      std::fprintf(stderr, "train_text: '%s' is no value for %s: %s\n", value, found->name,
                   found->help);
      return Parsed::kWrong;
    }
  }
  if (options->batch % options->shards != 0) {
    std::fprintf(stderr, "train_text: --batch %d is not a multiple of --shards %d\n",
                 options->batch, options->shards);
    return Parsed::kWrong;
  }
  if (options->resume && options->checkpoint.empty()) {
    std::fprintf(stderr, "train_text: --resume needs --checkpoint FILE\n");
    return Parsed::kWrong;
  }
  return Parsed::kRun;
}

}  // namespace train
