// SPDX-License-Identifier: Apache-2.0
// oneCCL's side of bench/compare.sh. Argument: the group's folder. RANK and WORLD_SIZE come from
// the launcher; rank 0's address reaches the others as a file in the folder. oneCCL has no gather
// and no scatter.
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <oneapi/ccl.hpp>

#include "bench/compare/loop.h"

namespace {

constexpr auto kFloat = ccl::datatype::float32;
constexpr auto kSum = ccl::reduction::sum;

struct OneCcl {
  float* allocate(std::size_t bytes) { return compare::allocate_plain(bytes); }
  void release(float* memory) { std::free(memory); }

  void calls(const compare::Task& task, int count) {
    for (int i = 0; i < count; ++i) call(task).wait();
  }

  ccl::event call(const compare::Task& t) {
    using compare::Operation;
    switch (t.operation) {
      case Operation::kAllReduce:
        return ccl::allreduce(t.send, t.receive, t.count, kFloat, kSum, comm);
      case Operation::kReduce:
        return ccl::reduce(t.send, t.receive, t.count, kFloat, kSum, 0, comm);
      case Operation::kBroadcast:
        return ccl::broadcast(rank == 0 ? t.send : t.receive, t.count, kFloat, 0, comm);
      case Operation::kAllGather:
        return ccl::allgather(t.send, t.receive, t.count, kFloat, comm);
      case Operation::kReduceScatter:
        return ccl::reduce_scatter(t.send, t.receive, t.count, kFloat, kSum, comm);
      case Operation::kAllToAll:
        return ccl::alltoall(t.send, t.receive, t.count, kFloat, comm);
      case Operation::kBarrier:
        return ccl::barrier(comm);
      default:
        std::fprintf(stderr, "oneCCL has no such operation\n");
        std::exit(5);
    }
  }

  ccl::communicator& comm;
  int rank;
};

ccl::shared_ptr_class<ccl::kvs> meet(const std::string& folder, int rank) {
  const std::string path = folder + "/address";
  if (rank == 0) {
    auto kvs = ccl::create_main_kvs();
    const auto address = kvs->get_address();
    std::ofstream(path + ".new", std::ios::binary).write(address.data(), address.size());
    std::filesystem::rename(path + ".new", path);
    return kvs;
  }
  while (!std::filesystem::exists(path)) sched_yield();  // the driver ends a group without answer
  ccl::kvs::address_type address;
  std::ifstream(path, std::ios::binary).read(address.data(), address.size());
  return ccl::create_kvs(address);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const char* rank_text = std::getenv("RANK");
  const char* size_text = std::getenv("WORLD_SIZE");
  if (rank_text == nullptr || size_text == nullptr) return 2;
  const int rank = std::atoi(rank_text), ranks = std::atoi(size_text);
  ccl::init();
  auto comm = ccl::create_communicator(ranks, rank, meet(folder, rank));
  rondo::bench::bind_to_cpu(rank);
  OneCcl library{comm, rank};
  compare::serve(library, folder, rank, ranks);
  return 0;
}
