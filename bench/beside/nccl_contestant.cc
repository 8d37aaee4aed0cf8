// SPDX-License-Identifier: Apache-2.0
// One contestant of bench/beside/beside.py: the same calls on any library with NCCL's interface
// (--library). Ranks are processes, or threads (--threads), each on its own device if there are
// enough, else they share devices. Prints one line of JSON for every size and form:
//
//   {"version": 22809, "collective": "all_reduce", "ranks": 2, "bytes": 4, "form": "stream",
//   "us": 9.1}
//
// `us` is the time of one call by CUDA events on rank 0, the median over rounds: calls in sequence
// on a stream, or a graph of such calls. Bytes are those of nccl-tests' size column. All-reduces
// are checked against the sum; a wrong one ends the run.
#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "bench/beside/nccl_library.h"
#include "bench/command_line.h"

namespace rondo::bench {
namespace {

struct Options {
  std::string library, collective = "all_reduce";
  int ranks = 1, rounds = 5, iterations = 20;
  std::vector<std::size_t> sizes;
  bool separate_hosts = false, threads = false;
};

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}
#define MUST(call) must(call, #call)

class Rank {
 public:
  // Ranks get the id of rank 0 by pipes; threads, without pipes, have it already.
  Rank(const Options& options, int rank, const std::vector<int>& pipes, ncclUniqueId id = {})
      : options_(options), nccl_(options.library.c_str()), rank_(rank) {
    int devices = 0;
    MUST(cudaGetDeviceCount(&devices));
    MUST(cudaSetDevice(rank % std::max(devices, 1)));
    nccl_.must(nccl_.get_version(&version_), "ncclGetVersion");
    if (!pipes.empty()) {
      if (rank == 0) nccl_.must(nccl_.get_unique_id(&id), "ncclGetUniqueId");
      pass_on(id, pipes);
    }
    nccl_.must(nccl_.init_rank(&comm_, options.ranks, id, rank), "ncclCommInitRank");
    MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&begin_));
    MUST(cudaEventCreate(&end_));
    const std::size_t maximum = *std::max_element(options.sizes.begin(), options.sizes.end());
    MUST(cudaMalloc(&in_, maximum));
    MUST(cudaMalloc(&out_, maximum));
    MUST(cudaMemsetAsync(in_, 0, maximum, stream_));
  }

  void run() {
    for (const std::size_t bytes : options_.sizes) {
      call(bytes);
      MUST(cudaStreamSynchronize(stream_));
      if (options_.collective == "all_reduce") check(bytes);
      report(bytes, "stream", time([&](int calls) {
               for (int i = 0; i < calls; ++i) call(bytes);
             }));
      cudaGraphExec_t graph = record(bytes);
      report(bytes, "graph", time([&](int) { MUST(cudaGraphLaunch(graph, stream_)); }));
      MUST(cudaGraphExecDestroy(graph));
    }
    nccl_.must(nccl_.destroy(comm_), "ncclCommDestroy");
  }

 private:
  void pass_on(ncclUniqueId& id, const std::vector<int>& pipes) {
    for (int peer = 1; peer < options_.ranks; ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      if (rank_ == 0 && write(pipes[2 * p + 1], &id, sizeof(id)) != sizeof(id)) std::exit(4);
      if (rank_ == peer && read(pipes[2 * p], &id, sizeof(id)) != sizeof(id)) std::exit(4);
    }
  }

  void call(std::size_t bytes) {
    const auto n = static_cast<std::size_t>(options_.ranks);
    const std::size_t count = bytes / sizeof(float), part = count / n;
    const std::string& name = options_.collective;
    if (name == "all_reduce") {
      nccl_.must(nccl_.all_reduce(in_, out_, count, ncclFloat32, ncclSum, comm_, stream_),
                 "ncclAllReduce");
    } else if (name == "all_gather") {
      nccl_.must(nccl_.all_gather(in_, out_, part, ncclFloat32, comm_, stream_), "ncclAllGather");
    } else if (name == "reduce_scatter") {
      nccl_.must(nccl_.reduce_scatter(in_, out_, part, ncclFloat32, ncclSum, comm_, stream_),
                 "ncclReduceScatter");
    } else if (name == "broadcast") {
      nccl_.must(nccl_.broadcast(in_, out_, count, ncclFloat32, 0, comm_, stream_),
                 "ncclBroadcast");
    } else {
      all_to_all(part);
    }
  }

  // By messages: older libraries have no ncclAlltoAll.
  void all_to_all(std::size_t part) {
    nccl_.must(nccl_.group_start(), "ncclGroupStart");
    for (int peer = 0; peer < options_.ranks; ++peer) {
      const std::size_t at = static_cast<std::size_t>(peer) * part;
      nccl_.must(nccl_.send(in_ + at, part, ncclFloat32, peer, comm_, stream_), "ncclSend");
      nccl_.must(nccl_.recv(out_ + at, part, ncclFloat32, peer, comm_, stream_), "ncclRecv");
    }
    nccl_.must(nccl_.group_end(), "ncclGroupEnd");
  }

  void check(std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(i % 7) + static_cast<float>(rank_);
    // Not cudaMemcpy: from pageable memory it returns before its last bytes are on the device, and
    // this stream does not wait for it.
    MUST(cudaMemcpyAsync(in_, values.data(), bytes, cudaMemcpyHostToDevice, stream_));
    call(bytes);
    MUST(cudaMemcpyAsync(values.data(), out_, bytes, cudaMemcpyDeviceToHost, stream_));
    MUST(cudaStreamSynchronize(stream_));
    const auto n = static_cast<float>(options_.ranks);
    for (std::size_t i = 0; i < count; ++i) {
      const float wanted = n * static_cast<float>(i % 7) + n * (n - 1) / 2;
      if (values[i] == wanted) continue;
      std::fprintf(stderr, "rank %d, %zu bytes: element %zu is %g, not %g\n", rank_, bytes, i,
                   static_cast<double>(values[i]), static_cast<double>(wanted));
      std::exit(5);
    }
  }

  cudaGraphExec_t record(std::size_t bytes) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t made = nullptr;
    MUST(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < options_.iterations; ++i) call(bytes);
    MUST(cudaStreamEndCapture(stream_, &graph));
    MUST(cudaGraphInstantiate(&made, graph, 0));
    MUST(cudaGraphDestroy(graph));
    return made;
  }

  // Microseconds per call; work(n) enqueues n calls on the stream.
  template <class Work>
  double time(Work work) {
    std::vector<double> rounds;
    for (int round = -1; round < options_.rounds; ++round) {  // the first is a warm-up
      MUST(cudaEventRecord(begin_, stream_));
      work(options_.iterations);
      MUST(cudaEventRecord(end_, stream_));
      MUST(cudaStreamSynchronize(stream_));
      float milliseconds = 0;
      MUST(cudaEventElapsedTime(&milliseconds, begin_, end_));
      if (round >= 0)
        rounds.push_back(1e3 * static_cast<double>(milliseconds) / options_.iterations);
    }
    std::nth_element(rounds.begin(), rounds.begin() + options_.rounds / 2, rounds.end());
    return rounds[static_cast<std::size_t>(options_.rounds / 2)];
  }

  void report(std::size_t bytes, const char* form, double us) {
    if (rank_ != 0) return;
    fmt::print(
        "{{\"version\": {}, \"collective\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"form\": "
        "\"{}\", "
        "\"us\": {:.3f}}}\n",
        version_, options_.collective, options_.ranks, bytes, form, us);
    std::fflush(stdout);
  }

  const Options& options_;
  const NcclLibrary nccl_;
  const int rank_;
  int version_ = 0;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  float *in_ = nullptr, *out_ = nullptr;
};

int start_threads(const Options& options) {
  const NcclLibrary nccl(options.library.c_str());
  ncclUniqueId id{};
  nccl.must(nccl.get_unique_id(&id), "ncclGetUniqueId");
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < options.ranks; ++rank)
    ranks.emplace_back([&options, rank, id] { Rank(options, rank, {}, id).run(); });
  for (std::thread& rank : ranks) rank.join();
  return 0;
}

int start_ranks(const Options& options) {
  std::vector<int> pipes(2 * static_cast<std::size_t>(options.ranks));
  for (std::size_t i = 0; i < pipes.size(); i += 2)
    if (pipe(&pipes[i]) != 0) return 4;
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank)
    if (const pid_t child = fork(); child == 0) {
      // NVIDIA's library then treats ranks of one device as ranks of several hosts.
      if (options.separate_hosts) setenv("NCCL_HOSTID", fmt::format("beside-{}", rank).c_str(), 1);
      Rank(options, rank, pipes).run();
      std::exit(0);
    } else if (child > 0) {
      children.push_back(child);
    } else {
      return 4;
    }
  for (const int end : pipes) close(end);
  int worst = 0;
  for (int rank = 0; rank < options.ranks; ++rank) {
    int status = 0;
    wait(&status);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code != 0 && worst == 0) {
      worst = code;
      // The others would wait for it without limit.
      for (const pid_t child : children) kill(child, SIGKILL);
    }
  }
  return worst;
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
  rondo::bench::Options o;
  rondo::CommandLine line(
      "Times the collectives of one library with NCCL's interface on CUDA devices.", argc, argv, 2);
  line.option("--library", o.library, "path of a libnccl.so.2").required();
  line.option("--collective", o.collective)
      .one_of({"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"});
  line.option("--ranks", o.ranks, "processes, or threads").within(1, 64);
  line.flag("--threads", o.threads, "ranks are threads of one process");
  line.option("--sizes", o.sizes, "bytes, with commas").commas().required();
  line.option("--iterations", o.iterations, "calls a round").within(1, 10000);
  line.option("--rounds", o.rounds).within(1, 1000);
  line.flag("--separate-hosts", o.separate_hosts, "NCCL_HOSTID differs from rank to rank");
  if (const auto ended = line.parse()) return *ended;
  for (const std::size_t bytes : o.sizes)
    if (bytes < sizeof(float) * static_cast<std::size_t>(o.ranks) ||
        bytes > (std::size_t{1} << 34)) {
      std::fprintf(stderr, "size %zu: from 4 bytes a rank to 16 GiB\n", bytes);
      return 2;
    }
  return o.threads ? rondo::bench::start_threads(o) : rondo::bench::start_ranks(o);
}
