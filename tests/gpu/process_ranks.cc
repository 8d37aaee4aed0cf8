#include "tests/gpu/process_ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace rondo::test {

ncclUniqueId GpuSeat::id() const {
  static_assert(sizeof(ncclUniqueId) == sizeof(seat.board.id));
  ncclUniqueId result;
  std::memcpy(&result, &seat.board.id, sizeof(result));
  return result;
}

void GpuSeat::join(int n, int as) {
  GPU_OK(gpu_api()->set_device(device));
  NCCL_OK(ncclCommInitRank(&comm, n, id(), as));
  GPU_OK(gpu_api()->create_stream(&stream, 0));
}

void GpuSeat::leave() {
  if (comm == nullptr) return;
  GPU_OK(gpu_api()->synchronize_stream(stream));
  NCCL_OK(ncclCommDestroy(comm));
  GPU_OK(gpu_api()->destroy_stream(stream));
  EXPECT_EQ(gpu_api()->peek_error(), kGpuSuccess) << "a sticky error was left behind";
  comm = nullptr;
}

int gpus_there() {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(gpu_api() != nullptr && gpu_api()->device_count(&count) == kGpuSuccess ? count : 0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 0;
  return WEXITSTATUS(status);
}

RankProcesses::Options gpu_options(const Environment& environment) {
  RankProcesses::Options options;
  options.create = false;
  options.environment = environment;
  return options;
}

RankProcesses::Body on_gpu(const GpuBody& body, Gpus gpus) {
  return [body, gpus](RankSeat& seat) {
    GpuSeat here{seat, seat.rank, seat.size};
    if (gpus == Gpus::kOneEach) here.device = seat.rank;
    if (gpus == Gpus::kTwoInTurns) here.device = seat.rank % 2;
    here.join(seat.size, seat.rank);
    if (here.comm != nullptr) body(here);
    if (!testing::Test::HasFailure()) here.leave();
    seat.expect(!testing::Test::HasFailure(), "an assertion failed in its process (printed above)");
  };
}

void run_on_gpu(int n, const Environment& environment, const GpuBody& body, Gpus gpus) {
  RankProcesses ranks(n, gpu_options(environment), on_gpu(body, gpus));
  ranks.wait_exits(120);
  ranks.check_expectations();
}

int ranks_of(const Places& places) {
  std::size_t ranks = 0;
  for (const auto& process : places) ranks += process.size();
  return static_cast<int>(ranks);
}

RankProcesses::Body on_gpus(const Places& places, const GpuBody& body) {
  return [&places, body, n = ranks_of(places)](RankSeat& seat) {
    int rank = 0;
    for (int p = 0; p < seat.rank; ++p) rank += static_cast<int>(places[p].size());
    std::vector<std::thread> threads;
    for (const int device : places[seat.rank])
      threads.emplace_back([&, device, as = rank++] {
        GpuSeat here{seat, as, n};
        here.device = device;
        here.join(n, as);
        if (here.comm != nullptr) body(here);
        if (!testing::Test::HasFailure()) here.leave();
      });
    for (std::thread& thread : threads) thread.join();
    seat.expect(!testing::Test::HasFailure(), "an assertion failed in its process (printed above)");
  };
}

void run_on_gpus(const Places& places, const Environment& environment, const GpuBody& body,
                 const std::vector<std::string>& hosts, double seconds) {
  RankProcesses::Options options = gpu_options(environment);
  options.hosts = hosts;
  RankProcesses processes(static_cast<int>(places.size()), options, on_gpus(places, body));
  processes.wait_exits(seconds);
  processes.check_expectations();
}

}  // namespace rondo::test
