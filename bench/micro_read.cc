// SPDX-License-Identifier: Apache-2.0
// Reads of another process's private memory, as peers make them, beside a copy in shared memory.
//
//   build/release/bin/micro_read
// The second argument is the number of processes that read the same memory at the same time; times
// are those of one of them. Staging costs two copies, of which the writer makes one.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <vector>

#include "base/process.h"
#include "kernels/host/simd/reduce_kernels.h"

namespace {

constexpr std::size_t kMaxBytes = 16 << 20;

// Processes that run `body` until they are ended.
class Processes {
 public:
  template <class Body>
  void add(const Body& body) {
    const pid_t child = fork();
    if (child != 0) return pids_.push_back(child);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) body();
  }
  ~Processes() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  pid_t first() const { return pids_[0]; }

 private:
  std::vector<pid_t> pids_;
};

void read(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  const rondo::ProcessId& id = rondo::this_process();
  Processes processes;
  processes.add([&] {
    std::fill(from.begin(), from.end(), std::byte{2});  // its own pages
    pause();
  });
  const rondo::ProcessMemory memory{processes.first(), reinterpret_cast<std::uintptr_t>(&id), id};
  const auto at = reinterpret_cast<std::uintptr_t>(from.data());
  const auto read_once = [&] { return memory.read(to.data(), at, bytes); };
  while (read_once() == 0 && to[bytes - 1] != std::byte{2}) usleep(1000);
  for (int reader = 1; reader < state.range(1); ++reader) processes.add(read_once);
  for (auto _ : state)
    if (read_once() != 0) state.SkipWithError("process_vm_readv is forbidden here");
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}
BENCHMARK(read)
    ->ArgsProduct({{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, kMaxBytes}, {1, 2}})
    ->ArgsProduct({{64 << 10, 1 << 20}, {3, 4}})
    ->UseRealTime();

void copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> to(bytes);
  void* const shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (shared == MAP_FAILED) return state.SkipWithError("no memory");
  for (auto _ : state) {
    rondo::host::copy_bytes(to.data(), shared, bytes, false);
    benchmark::ClobberMemory();
  }
  munmap(shared, bytes);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}
BENCHMARK(copy)->Arg(4 << 10)->Arg(16 << 10)->Arg(64 << 10)->Arg(1 << 20)->Arg(kMaxBytes);

}  // namespace

BENCHMARK_MAIN();
