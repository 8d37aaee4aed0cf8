// SPDX-License-Identifier: Apache-2.0
// gpu_probe: checks on a GPU what Rondo's code assumes, each question in its own process.
//
//   gpu_probe                  all questions, most valuable first; JSON on standard output
//   gpu_probe NAME...          only these
//   gpu_probe --list           their names, limits and questions
//   gpu_probe --json FILE      also writes the document to a file, again after each question
//   gpu_probe --seconds N      time for all (110); questions without time left are named as not run
//
// A short table goes to standard error. Exit status: 0 if all were answered, whatever the answers;
// 1 if a probe failed, hung or was not run; otherwise 77 if there is no device; 2 after misuse.
// Needs only the C library and, for answers, a driver.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "report.h"

namespace probe {
namespace {

volatile sig_atomic_t stop = 0;
void on_signal(int signal) { stop = signal; }

const Question* find(const char* name) {
  for (const Question& question : kQuestions)
    if (std::strcmp(name, question.name) == 0) return &question;
  return nullptr;
}

struct Options {
  std::vector<const Question*> questions;
  std::string json;
  double seconds = 110;
  bool list = false;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--list") {
      options.list = true;
    } else if (argument == "--json" && i + 1 < argc) {
      options.json = argv[++i];
    } else if (argument == "--seconds" && i + 1 < argc && std::atof(argv[i + 1]) > 0) {
      options.seconds = std::atof(argv[++i]);
    } else if (const Question* const question = find(argv[i]); question != nullptr) {
      options.questions.push_back(question);
    } else {
      std::fprintf(stderr,
                   "gpu_probe: '%s' is neither a probe (--list) nor an option with its "
                   "value (--json FILE, --seconds N)\n",
                   argv[i]);
      return false;
    }
  }
  if (options.questions.empty())
    for (const Question& question : kQuestions)
      if (!question.hidden) options.questions.push_back(&question);
  return true;
}

void list() {
  for (const Question& question : kQuestions)
    if (!question.hidden)
      std::printf("%-20s %3d s  %s\n", question.name, question.seconds, question.asks);
}

struct Clock {
  timespec begin = now();
  static timespec now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time;
  }
  double seconds() const {
    const timespec end = now();
    return static_cast<double>(end.tv_sec - begin.tv_sec) +
           static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-9;
  }
};

int ask_all(const Options& options) {
  const Clock clock;
  Report report;
  for (const Question* question : options.questions) report.expect(*question);
  const Question& present = *find("present");
  const Outcome presence = run_question(present, present.seconds, stop);
  const bool there = presence.status == "ok";
  report.set_device(there ? presence.values : Json(nullptr), presence.reason);
  if (!there) std::fprintf(stderr, "no CUDA device: %s\n", presence.reason.c_str());
  for (const Question* question : options.questions) {
    const double left = options.seconds - clock.seconds();
    if (stop != 0 || left < 1) {
      report.cannot(*question, "not run", stop != 0 ? "told to stop" : "no time was left");
    } else if (question->needs_device && !there) {
      report.cannot(*question, "unsupported", "no CUDA device: " + presence.reason);
    } else {
      const Outcome outcome =
          run_question(*question, std::min<double>(question->seconds, left), stop);
      report.add(*question, outcome);
      std::fprintf(stderr, "%-20s %-11s %5.1f s  %s\n", question->name, outcome.status.c_str(),
                   outcome.seconds,
                   (outcome.reason.empty() ? outcome.answer : outcome.reason).c_str());
    }
    if (!options.json.empty()) report.save(options.json, clock.seconds());
  }
  report.print_assumptions();
  const double seconds = clock.seconds();
  if (!options.json.empty()) report.save(options.json, seconds);
  std::printf("%s\n", report.text(seconds).c_str());
  std::fflush(stdout);
  if (!report.all_answered() || (!there && presence.status != "unsupported")) return 1;
  return there ? 0 : 77;
}

}  // namespace
}  // namespace probe

int main(int argc, char** argv) {
  using namespace probe;
  if (argc == 3 && std::strcmp(argv[1], "--ask") == 0) {
    const Question* const question = find(argv[2]);
    if (question == nullptr) return 2;
    question->ask();
    std::fflush(nullptr);
    _exit(0);  // skips the runtime's exit handlers, because a stuck context would never return
  }
  Options options;
  if (!parse(argc, argv, options)) return 2;
  if (options.list) {
    list();
    return 0;
  }
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, on_signal);
  return ask_all(options);
}
