// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/thread_ranks.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "bench/runner/job.h"
#include "bench/runner/rank_process.h"

namespace rondo::cli {
namespace {

constexpr int kCannotStart = 127;

using Variables = std::vector<std::pair<std::string, std::string>>;

// Variables of this thread's rank; they override the process's environment.
thread_local const Variables* of_rank = nullptr;

int free_port() {
  const Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(probe.get(), any, length) != 0 || ::getsockname(probe.get(), any, &length) != 0)
    return 29400;
  return ntohs(address.sin_port);
}

int report(const std::string& text) {
  fmt::print(stderr, "rondo run --threads: {}\n", text);
  return kCannotStart;
}

}  // namespace

int run_threads(const ThreadJob& job) {
  const std::string& program = job.argv[0];
  const std::string path =
      program.find('/') == std::string::npos && access(program.c_str(), R_OK) == 0 ? "./" + program
                                                                                   : program;
  void* const loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr)
    return report(fmt::format(
        "{}; threads of one process need a shared object (cc -shared -fPIC) whose main() is one "
        "rank; without --threads any program runs, as processes",
        dlerror()));
  using Main = int (*)(int, char**);
  const auto rank_main = reinterpret_cast<Main>(dlsym(loaded, "main"));
  if (rank_main == nullptr) return report(fmt::format("'{}' does not export main()", program));

  std::uint64_t name = 0;
  if (getrandom(&name, sizeof name, 0) != sizeof name) return report("no random bytes");
  const std::string secret = runner::secret_of_job();
  if (secret.empty()) return report("no random bytes");
  setenv("RONDO_SECRET", secret.c_str(), 1);
  const int port = job.master_port != 0 ? job.master_port : free_port();
  std::vector<Variables> variables;
  for (int rank = 0; rank < job.ranks; ++rank)
    variables.push_back({{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", std::to_string(job.ranks)},
                         {"LOCAL_RANK", std::to_string(rank)},
                         {"LOCAL_WORLD_SIZE", std::to_string(job.ranks)},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", std::to_string(port)},
                         {"RONDO_JOB", fmt::format("{:016x}", name)}});
  signal(SIGPIPE, SIG_DFL);  // as in a process of its own
  std::vector<int> statuses(static_cast<std::size_t>(job.ranks), 0);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < statuses.size(); ++rank)
    threads.emplace_back([&, rank] {
      of_rank = &variables[rank];
      std::vector<std::string> words = job.argv;
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      statuses[rank] = rank_main(static_cast<int>(words.size()), argv.data());
      if (statuses[rank] == 0 || job.keep_going) return;
      fmt::print(stderr, "rondo run --threads: rank {} returned {}; ending the others\n", rank,
                 statuses[rank]);
      std::fflush(nullptr);
      _exit(statuses[rank]);  // the others could wait without limit
    });
  for (std::thread& thread : threads) thread.join();
  for (const int status : statuses)
    if (status != 0) return status;
  return 0;
}

}  // namespace rondo::cli

// All libraries of this process call this getenv(): each rank's thread has its own variables.
extern "C" [[gnu::visibility("default")]] char* getenv(const char* name) noexcept {
  const std::string_view wanted = name;
  if (rondo::cli::of_rank != nullptr)
    for (const auto& [own, value] : *rondo::cli::of_rank)
      if (own == wanted) return const_cast<char*>(value.c_str());
  // Not by `environ`: in a program that can be a copy, which setenv() does not change.
  using GetEnv = char* (*)(const char*);
  static const auto of_libc = reinterpret_cast<GetEnv>(dlsym(RTLD_NEXT, "getenv"));
  return of_libc == nullptr ? nullptr : of_libc(name);
}
