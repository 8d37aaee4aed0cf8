// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/process_context.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/atomics.h"
#include "base/seconds.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"
#include "collectives/host/rank_state.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

ProcessContext::ProcessContext(ProcessFacts agreed, std::unique_ptr<ControlSegment> made,
                               TeamMemory memory)
    : facts(std::move(agreed)), segment(std::move(made)), shared(std::move(memory)) {
  for (int r = 0; r < ranks(); ++r)
    if (is_local(r)) local.push_back(r);
}

Status ProcessContext::open(std::vector<ProcessSockets> sockets) {
  RONDO_CHECK_OK(order.open({.device = facts.device,
                             .ranks = static_cast<int>(local.size()),
                             .mixes_graphs = facts.mixes_graphs,
                             .takes_turns = facts.takes_turns}));
  exchange = std::make_unique<MemoryExchange>(*segment, facts.process, facts.around.process_of,
                                              std::move(sockets));
  device_memory = std::make_unique<DeviceMemory>(
      local, DeviceMemory::Others{*segment, *exchange, facts.process, facts.around.process_of,
                                  facts.beside});
  recall = std::make_shared<Recall>(segment, facts.process, facts.device, *device_memory);
  blocks = std::make_unique<SharedBlocks>(*exchange, facts.device, facts.process,
                                          [this] { return running_calls(); });
  memory = std::make_unique<LeaderMemory>(*segment, *exchange, *device_memory, facts.device,
                                          facts.process);
  slots = std::make_unique<MessageSlots>(*exchange, *device_memory, shared.connections.get(),
                                         facts.around, facts.device, facts.process,
                                         segment->staging_bytes());
  if (shared.connections) {
    shared.connections->list_in(*device_memory, facts.around.process_of);
    shared.connections->lazy().ask_by(
        [this](int rank, std::uint32_t what) { return lazy_block_of(rank, what); });
    RONDO_CHECK_OK(shared.connections->lazy().make_zeroed());
  }
  if (shared.multicast) shared.multicast->list_in(*device_memory);
  for (const int kernel : {cuda::kMessagesKernel, cuda::kCountedMessagesKernel})
    if (messages_are_kernels())
      RONDO_CHECK_OK(check(gpu_api()->load_kernel(kernel), "loading kernels"));
  return ok_status();
}

Result<MemoryHandle> ProcessContext::lazy_block_of(int rank, std::uint32_t what) {
  net::Deadline deadline = standing.deadline();
  deadline.aborted = [this, is_over = std::move(deadline.aborted)] {
    return is_over() || blames_an_ended_rank();
  };
  auto reply =
      exchange->ask(facts.around.process_of[rank], {MemoryNote::kLazyBlock, what}, {}, deadline);
  if (reply.ok()) return std::move(reply->handle);
  RONDO_CHECK_OK(standing.check());
  return reply.error();
}

bool ProcessContext::blames_an_ended_rank() {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (is_local(rank) || !standing.has_ended(rank)) continue;
    standing.blame(StatusCode::kRemoteError, rank,
                   fault_texts::gone_before(standing.name_of(rank), fault_texts::Parting::kEnded,
                                            "the first call that uses this memory", local[0]));
    return true;
  }
  return false;
}

void ProcessContext::forget() {
  (void)blocks.release();
  (void)memory.release();
  (void)slots.release();
  (void)new std::shared_ptr<Recall>(std::move(recall));
  (void)device_memory.release();
  (void)exchange.release();
}

void ProcessContext::answer(int process) {
  exchange->serve(process, [this](MemoryNote& asked, const MemoryHandle& with) {
    return memory_for(asked, with);
  });
}

std::optional<Result<MemoryHandle>> ProcessContext::memory_for(MemoryNote& asked,
                                                               const MemoryHandle& with) {
  if (asked.kind == MemoryNote::kSlots) return slots->answer(asked);
  if (asked.kind == MemoryNote::kStaging) return memory->answer(asked.what);
  if (asked.kind == MemoryNote::kRestore) {
    recall->settle();
    RONDO_CHECK_OK(device_memory->restore(asked.what));
    return MemoryHandle{};
  }
  if (asked.kind == MemoryNote::kLazyBlock && shared.connections)
    return shared.connections->lazy().give(asked.what);
  if (asked.kind != MemoryNote::kConnections) return blocks->answer(asked, with);
  if (!shared.connections || asked.what >= static_cast<std::uint32_t>(ranks()) ||
      !is_local(static_cast<int>(asked.what)))
    return fail(StatusCode::kInternalError, "rank {} was asked for here", asked.what);
  const RelaxedCapture relaxed;
  return memory_registry().export_range(shared.connections->ends(static_cast<int>(asked.what)), 1);
}

Status ProcessContext::write(GpuStream stream, std::uint32_t& word, std::uint32_t value) const {
  return check(gpu_api()->stream_write32(stream, segment->on_device(word), value),
               "cuStreamWriteValue32 (several processes on one GPU need stream memory operations)");
}
Status ProcessContext::await(GpuStream stream, std::uint32_t& word, std::uint32_t value,
                             GpuWait how) const {
  return check(gpu_api()->stream_wait32(stream, segment->on_device(word), value, how),
               "cuStreamWaitValue32 (several processes on one GPU need stream memory operations)");
}

SharedBlocks::Calls ProcessContext::running_calls() {
  struct Channel {
    const cuda::ChannelProgress* progress;
    std::uint64_t begun;
  };
  std::vector<Channel> channels;
  for (const int rank : local)
    for (int c = 0; shared.connections && c < shared.connections->layout().counted_ctas(); ++c) {
      const auto* const progress = &shared.connections->host_control(rank).progress[c];
      channels.push_back({progress, HostAtomics::load_acquire(progress->begun)});
    }
  // The leader's stream marks its call; the next one has another descriptor.
  const auto leader_call = [this]() -> std::optional<std::uint32_t> {
    if (!leads() || HostAtomics::load_acquire(segment->process(0).ready) == 0) return std::nullopt;
    return HostAtomics::load_acquire(segment->call_slot(local[0]).descriptor);
  };
  return [this, channels = std::move(channels), leader_call, newest = leader_call()] {
    if (!standing.check().ok()) return SharedBlocks::State::kFaulted;
    const bool over = (!newest || leader_call() != newest) &&
                      std::all_of(channels.begin(), channels.end(), [](const Channel& channel) {
                        return HostAtomics::load_acquire(channel.progress->done) >= channel.begun;
                      });
    return over ? SharedBlocks::State::kOver : SharedBlocks::State::kRun;
  };
}

void TeamStanding::join(RankState& rank) {
  std::lock_guard lock(mutex_);
  ranks_.push_back(&rank);
}

void TeamStanding::leave(RankState& rank) {
  std::lock_guard lock(mutex_);
  if (!rank.faults.standing().ok()) released_ = true;
  std::erase(ranks_, &rank);
}

Status TeamStanding::check() {
  std::lock_guard lock(mutex_);
  for (RankState* const rank : ranks_) RONDO_CHECK_OK(rank->faults.standing());
  return ok_status();
}

net::Deadline TeamStanding::deadline() {
  double seconds = 60;
  {
    std::lock_guard lock(mutex_);
    if (!ranks_.empty()) seconds = ranks_[0]->timeout_seconds.load(std::memory_order_relaxed);
  }
  return net::Deadline::of(to_nanoseconds(seconds), [this] { return !check().ok(); });
}

double TeamStanding::device_seconds() {
  std::lock_guard lock(mutex_);
  return ranks_.empty() ? 0 : ranks_[0]->options.kernel_seconds;
}

void TeamStanding::blame(Fault fault) {
  std::lock_guard lock(mutex_);
  released_ = true;
  if (ranks_.empty()) return;
  fault.rank = ranks_[0]->members.rank;
  ranks_[0]->faults.raise(std::move(fault));
}

void TeamStanding::blame(StatusCode status, int culprit, std::string text) {
  blame(Fault::found_by(-1, status, culprit, std::move(text)));
}

bool TeamStanding::has_ended(int rank) {
  std::lock_guard lock(mutex_);
  if (ranks_.empty()) return false;
  const Membership& members = ranks_[0]->members;
  const int local = members.local_of(rank);
  return local >= 0 && rondo::has_ended(members.process_of(local));
}

void TeamStanding::show(std::uint64_t begun, const std::optional<LongWait>& wait) {
  std::lock_guard lock(mutex_);
  for (const RankState* const rank : ranks_) rank->show_device_wait(begun, wait);
}

std::string TeamStanding::name_of(int rank) {
  std::lock_guard lock(mutex_);
  return ranks_.empty() ? fmt::format("rank {}", rank) : ranks_[0]->members.name_of(rank);
}

}  // namespace rondo::gpu
