#include "tests/gpu/process_ranks.h"

#include <unistd.h>

namespace rondo::test {

ncclUniqueId GpuSeat::id() const {
  static_assert(sizeof(ncclUniqueId) == sizeof(seat.board.id));
  ncclUniqueId result;
  std::memcpy(&result, &seat.board.id, sizeof(result));
  return result;
}

void GpuSeat::join(int n, int as) {
  int devices = 0;
  GPU_OK(gpu_api()->device_count(&devices));
  GPU_OK(gpu_api()->set_device(spread ? as % devices : 0));
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

RankProcesses::Options gpu_options(const Environment& environment) {
  RankProcesses::Options options;
  options.create = false;
  options.environment = environment;
  // An emulated machine of this test's own.
  options.environment.emplace_back("RONDO_SIMT_MACHINE", std::to_string(getpid()));
  return options;
}

RankProcesses::Body on_gpu(const GpuBody& body) {
  return [body](RankSeat& seat) {
    GpuSeat here{seat, seat.rank, seat.size};
    here.join(seat.size, seat.rank);
    if (here.comm != nullptr) body(here);
    if (!testing::Test::HasFailure()) here.leave();
    seat.expect(!testing::Test::HasFailure(), "an assertion failed in its process (printed above)");
  };
}

void run_on_gpu(int n, const Environment& environment, const GpuBody& body) {
  RankProcesses ranks(n, gpu_options(environment), on_gpu(body));
  ranks.wait_exits(120);
  ranks.check_expectations();
}

}  // namespace rondo::test
