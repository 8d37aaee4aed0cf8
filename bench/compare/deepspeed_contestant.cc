// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's shared-memory all-reduce in bench/compare.sh: its csrc/cpu/comm/shm.cpp, called as
// its own inference_all_reduce does, without PyTorch's dispatcher. Argument: the group's folder.
// RANK and WORLD_SIZE come from the launcher. It reduces in place and has no other operation.
// Its source does not say its version: rivals.sh defines DEEPSPEED_VERSION.
#include <torch/types.h>
#include <unistd.h>

#include "bench/compare/loop.h"
#include "shm.h"

namespace {

struct DeepSpeed {
  float* allocate(std::size_t bytes) { return compare::allocate_plain(bytes); }
  void release(float* memory) { std::free(memory); }

  void calls(const compare::Task& task, int count) {
    if (task.operation != compare::Operation::kAllReduce) std::exit(5);
    torch::Tensor tensor = torch::from_blob(task.receive, {static_cast<long>(task.count)});
    for (int i = 0; i < count; ++i)
      all_reduce_outer_loop(tensor, task.count, static_cast<int>(task.count * sizeof(float)));
  }

  void checked_call(const compare::Task& task) {
    std::memcpy(task.receive, task.send, task.count * sizeof(float));
    calls(task, 1);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const char* rank_text = std::getenv("RANK");
  const char* size_text = std::getenv("WORLD_SIZE");
  if (argc < 2 || rank_text == nullptr || size_text == nullptr) return 2;
  const int rank = std::atoi(rank_text), ranks = std::atoi(size_text);
  // Its segments are named after an address and a port: the parent's process is one per group.
  std::string address = "compare", port = std::to_string(getppid());
  shm_initialize(ranks, rank, address.data(), port.data());
  compare::bind(argv[1], rank);
  if (rank == 0) compare::report_version(argv[1], DEEPSPEED_VERSION);
  DeepSpeed library;
  compare::serve(library, argv[1], rank, ranks);
  return 0;
}
