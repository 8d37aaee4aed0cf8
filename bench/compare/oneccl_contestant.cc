// SPDX-License-Identifier: Apache-2.0
// oneCCL's side of bench/compare.sh, by its C API. Argument: the group's folder. RANK and
// WORLD_SIZE come from the launcher; rank 0's id reaches the others as a file in the folder. Calls
// on host memory have no stream: they return when they are complete. The API has no gather and no
// barrier.
#include <oneapi/ccl.h>

#include <filesystem>
#include <fstream>

#include "bench/compare/loop.h"

namespace {

void must(onecclResult_t result) {
  if (result == onecclSuccess) return;
  std::fprintf(stderr, "oneCCL: %s\n", onecclGetErrorString(result));
  std::exit(5);
}

struct OneCcl {
  float* allocate(std::size_t bytes) { return compare::allocate_plain(bytes); }
  void release(float* memory) { std::free(memory); }

  void calls(const compare::Task& task, int count) {
    for (int i = 0; i < count; ++i) must(call(task));
  }

  onecclResult_t call(const compare::Task& t) {
    using compare::Operation;
    switch (t.operation) {
      case Operation::kAllReduce:
        return onecclAllReduce(t.send, t.receive, t.count, onecclFloat, onecclSum, comm, nullptr);
      case Operation::kReduce:
        return onecclReduce(t.send, t.receive, t.count, onecclFloat, onecclSum, 0, comm, nullptr);
      case Operation::kBroadcast: {
        float* buffer = rank == 0 ? t.send : t.receive;
        return onecclBroadcast(buffer, buffer, t.count, onecclFloat, 0, comm, nullptr);
      }
      case Operation::kAllGather:
        return onecclAllGather(t.send, t.receive, t.count, onecclFloat, comm, nullptr);
      case Operation::kReduceScatter:
        return onecclReduceScatter(t.send, t.receive, t.count, onecclFloat, onecclSum, comm,
                                   nullptr);
      case Operation::kAllToAll:
        return onecclAllToAll(t.send, t.receive, t.count, onecclFloat, comm, nullptr);
      case Operation::kScatter:
        return onecclScatter(t.send, t.receive, t.count, onecclFloat, 0, comm, nullptr);
      default:
        return onecclNotImplemented;
    }
  }

  onecclComm_t comm;
  int rank;
};

onecclUniqueId meet(const std::string& folder, int rank) {
  const std::string path = folder + "/address";
  onecclUniqueId id;
  if (rank == 0) {
    must(onecclGetUniqueId(&id));
    std::ofstream(path + ".new", std::ios::binary).write(id.data, sizeof id.data);
    std::filesystem::rename(path + ".new", path);
    return id;
  }
  while (!std::filesystem::exists(path)) sched_yield();  // the driver ends a group without answer
  std::ifstream(path, std::ios::binary).read(id.data, sizeof id.data);
  return id;
}

std::string version() {
  int code = 0, major = 0, minor = 0, patch = 0;
  must(onecclGetVersion(&code));
  must(onecclExtractVersionComponents(code, &major, &minor, &patch));
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const char* rank_text = std::getenv("RANK");
  const char* size_text = std::getenv("WORLD_SIZE");
  if (rank_text == nullptr || size_text == nullptr) return 2;
  const int rank = std::atoi(rank_text), ranks = std::atoi(size_text);
  OneCcl library{nullptr, rank};
  must(
      onecclCommInitRank(&library.comm, static_cast<std::size_t>(ranks), meet(folder, rank), rank));
  compare::bind(folder, rank);
  if (rank == 0) compare::report_version(folder, version());
  compare::serve(library, folder, rank, ranks);
  return 0;
}
