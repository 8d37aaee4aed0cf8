// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/put_bodies.h"

namespace rondo::test {
namespace {

std::byte put_pattern(int from, int to, int round, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(from * 41 + to * 13 + round * 7) + i * 3);
}

}  // namespace

PutExchange::PutExchange(const Member& member, std::size_t block, bool sources)
    : me(member),
      block(block),
      memory(block * static_cast<std::size_t>(me.size), 0, true),
      outgoing(block * static_cast<std::size_t>(me.size), 0, sources) {
  memory.put({}, 0, me.stream);
  const std::size_t bytes = block * static_cast<std::size_t>(me.size);
  EXPECT_EQ(ncclCommWindowRegister(me.comm, memory.data(), bytes, &window, NCCL_WIN_DEFAULT),
            ncclSuccess)
      << ncclGetLastError(me.comm);
  if (!sources) return;
  EXPECT_EQ(ncclCommWindowRegister(me.comm, outgoing.data(), bytes, &source, NCCL_WIN_DEFAULT),
            ncclSuccess)
      << ncclGetLastError(me.comm);
}

PutExchange::~PutExchange() {
  EXPECT_EQ(gpu_api()->synchronize_stream(me.stream), kGpuSuccess);
  EXPECT_EQ(ncclCommWindowDeregister(me.comm, window), ncclSuccess);
  if (source != nullptr) {
    EXPECT_EQ(ncclCommWindowDeregister(me.comm, source), ncclSuccess);
  }
}

void PutExchange::fill(int round) {
  Bytes content(block * static_cast<std::size_t>(me.size));
  for (int to = 0; to < me.size; ++to)
    for (std::size_t i = 0; i < block; ++i)
      content[to * block + i] = put_pattern(me.rank, to, round, i);
  outgoing.put(content, 0, me.stream);
}

void PutExchange::put_and_wait() {
  std::vector<ncclWaitSignalDesc_t> wanted;
  for (int step = 0; step < me.size; ++step) {
    const int to = (me.rank + step) % me.size;
    NCCL_OK(ncclPutSignal(outgoing.data() + to * block, block, ncclUint8, to, window,
                          me.rank * block, 1, 0, 0, me.comm, me.cuda_stream()));
    wanted.push_back({1, to, 1, 0});
  }
  NCCL_OK(ncclWaitSignal(me.size, wanted.data(), me.comm, me.cuda_stream()));
}

void PutExchange::signal_all() {
  std::vector<ncclWaitSignalDesc_t> wanted;
  for (int to = 0; to < me.size; ++to) {
    NCCL_OK(ncclSignal(to, 2, 0, 0, me.comm, me.cuda_stream()));
    wanted.push_back({1, to, 2, 0});
  }
  NCCL_OK(ncclWaitSignal(me.size, wanted.data(), me.comm, me.cuda_stream()));
}

void PutExchange::check(int round) {
  memory.get(me.stream);
  for (int from = 0; from < me.size; ++from)
    for (std::size_t i = 0; i < block; ++i)
      ASSERT_EQ(memory.host()[from * block + i], put_pattern(from, me.rank, round, i))
          << "rank " << me.rank << " from " << from << " byte " << i << " round " << round;
  EXPECT_TRUE(memory.guards_intact());
}

Bytes PutExchange::block_of(int from, int round) const {
  Bytes wanted(block);
  for (std::size_t i = 0; i < block; ++i) wanted[i] = put_pattern(from, me.rank, round, i);
  return wanted;
}

bool PutExchange::holds_block_of(int from, int round) {
  memory.get(me.stream);
  const Bytes wanted = block_of(from, round);
  return std::equal(wanted.begin(), wanted.end(),
                    memory.host() + static_cast<std::size_t>(from) * block);
}

namespace {

void exchange_of_sizes(const Member& me, bool sources) {
  for (const std::size_t block : {std::size_t{1}, std::size_t{1001}, std::size_t{100'000}}) {
    PutExchange all(me, block, sources);
    for (int round = 0; round < 4; ++round) {
      all.fill(round);
      const bool grouped = round % 2 == 1;
      NCCL_OK(grouped ? ncclGroupStart() : ncclSuccess);
      all.put_and_wait();
      NCCL_OK(grouped ? ncclGroupEnd() : ncclSuccess);
      all.check(round);
      all.signal_all();
    }
  }
}

}  // namespace

NcclBody as_member(void (*body)(const Member&)) {
  return [body](NcclRank& seat) { body({seat.comm, seat.stream, seat.rank, seat.size}); };
}

void exchange_blocks(const Member& me) { exchange_of_sizes(me, false); }
void exchange_blocks_of_windows(const Member& me) { exchange_of_sizes(me, true); }

void replay_puts(const Member& me) {
  PutExchange all(me, 500);
  DeviceBuffer sum(4, 0);
  void* graph = nullptr;
  GPU_OK(gpu_api()->begin_capture(me.stream, GpuCaptureMode::kThreadLocal));
  all.put_and_wait();
  GPU_OK(gpu_api()->end_capture(me.stream, &graph));
  for (int round = 0; round < 6; ++round) {
    all.fill(round);
    if (round % 3 == 2) {
      all.put_and_wait();
    } else {
      GPU_OK(gpu_api()->launch_graph(graph, me.stream));
    }
    all.check(round);
    all.signal_all();
    NCCL_OK(
        ncclAllReduce(sum.data(), sum.data(), 1, ncclInt32, ncclSum, me.comm, me.cuda_stream()));
  }
  GPU_OK(gpu_api()->synchronize_stream(me.stream));
  GPU_OK(gpu_api()->destroy_graph(graph));
}

}  // namespace rondo::test
