#include "collectives/gpu/in_place_calls.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/atomics.h"
#include "base/env.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/gpu/launch/call_steps.h"
#include "collectives/gpu/launch/kernel_loading.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

}  // namespace

InPlaceCalls::InPlaceCalls(ProcessContext& context)
    : context_(context),
      possible_(context.facts.around.plan.shared_bytes > 0 &&
                env::get_bool("NCCL_LOCAL_REGISTER")) {}

void InPlaceCalls::register_memory(const void* memory, std::size_t bytes) {
  if (!possible_ || context_.standing.is_released()) return;
  const DeviceScope scope(context_.facts.device);
  if (!scope.entered().ok()) return;
  say_registered();
  std::vector<std::uint64_t> at(static_cast<std::size_t>(context_.segment->processes()));
  see({memory, bytes}, at);
}

// Kernels are loaded before anybody counts on this process.
void InPlaceCalls::say_registered() {
  if (said_.exchange(true)) return;
  const RelaxedCapture relaxed;
  for (const int rank : context_.local) {
    const DeviceScope scope(context_.facts.devices[rank]);
    const Status loaded = load_kernels(context_.api, {cuda::kAgreeKernel, cuda::kStoredCopyKernel},
                                       {cuda::stored_kernel});
    if (loaded.ok()) continue;
    RONDO_WARN("registered memory is not used in place: {}", loaded.error().text);
    return;
  }
  HostAtomics::store_release(context_.segment->process(context_.facts.process).registered,
                             std::uint64_t{1});
}

void InPlaceCalls::look() {
  if (!possible_ || seen_) return;
  for (int p = 0; p < context_.segment->processes(); ++p)
    if (HostAtomics::load_acquire(context_.segment->process(p).registered) == 0) return;
  seen_ = true;  // before the count is read: calls that are not in it will see this
  HostAtomics::store_release(context_.segment->process(context_.facts.process).agreed,
                             calls_.load() + 1);
}

Result<bool> InPlaceCalls::tries(bool may, const JointCall& call) {
  if (!possible_) return false;
  const std::uint64_t number = calls_.load() + 1;
  calls_.store(number);
  if (from_ == 0 && seen_) {
    RONDO_TRY(from_, first_tried());
  }
  if (from_ != 0) return may && number >= from_;
  if (!may || said_) return false;
  for (const int rank : context_.local) {
    const Ranges ranges = ranges_of(rank, call.posted[rank].call);
    for (const Range& range : {ranges.send, ranges.receive})
      if (range.at != nullptr && memory_registry().find(range.at, range.bytes)) say_registered();
  }
  return false;
}

bool InPlaceCalls::has_ended_unsaid(int process) {
  const ProcessLines& lines = context_.segment->process(process);
  if (HostAtomics::load_acquire(lines.left) == 0) {
    const auto& of = context_.facts.around.process_of;
    const auto rank = std::find(of.begin(), of.end(), process) - of.begin();
    if (!context_.standing.has_ended(static_cast<int>(rank))) return false;
  }
  return HostAtomics::load_acquire(lines.agreed) == 0;
}

Result<std::uint64_t> InPlaceCalls::first_tried() {
  std::uint64_t most = 0;
  Status standing = ok_status();
  poll_until([&] {
    most = 0;
    for (int p = 0; p < context_.segment->processes(); ++p) {
      const std::uint64_t one = HostAtomics::load_acquire(context_.segment->process(p).agreed);
      if (one == 0 && has_ended_unsaid(p)) return most = kNever, true;
      if (one == 0) return !(standing = context_.standing.check()).ok();
      most = std::max(most, one);
    }
    return true;
  });
  RONDO_CHECK_OK(standing);
  return most;
}

InPlaceCalls::Ranges InPlaceCalls::ranges_of(int rank, const Call& call) const {
  const CallRecord& record = call.record;
  const CallSteps steps(record, context_.ranks(), {context_.segment->staging_bytes()});
  const std::size_t block = record.count * size_of(record.type);
  Ranges found;
  if (steps.sends(rank))
    found.send = {call.send, block * static_cast<std::size_t>(steps.segments_sent())};
  if (steps.receives(rank, {-1, 0, record.count}))
    found.receive = {call.receive, block * static_cast<std::size_t>(steps.segments_received())};
  return found;
}

bool InPlaceCalls::see(const Range& range, std::span<std::uint64_t> at) {
  if (range.at == nullptr) return true;
  const Status seen =
      context_.blocks->addresses_in_all(range.at, range.bytes, context_.standing.deadline(), at);
  return seen.ok() && std::find(at.begin(), at.end(), 0) == at.end();
}

InPlaceCalls::Answers InPlaceCalls::says(int rank, const Call& call, bool reach) {
  const Ranges ranges = ranges_of(rank, call);
  const auto processes = static_cast<std::size_t>(context_.segment->processes());
  std::vector<std::uint64_t> send(processes), receive(processes);
  const bool all = reach && see(ranges.send, send) && see(ranges.receive, receive);
  Answers made{};
  for (int r = 0; all && r < context_.ranks(); ++r) {
    const auto p = static_cast<std::size_t>(context_.facts.around.process_of[r]);
    made[static_cast<std::size_t>(r)] = {send[p], receive[p], 1, 0};
  }
  return made;
}

}  // namespace rondo::gpu
