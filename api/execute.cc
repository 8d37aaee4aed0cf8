// SPDX-License-Identifier: Apache-2.0
#include "api/execute.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "api/errors.h"
#include "api/streams.h"
#include "base/gpu.h"
#include "base/guard.h"
#include "collectives/gpu/calls/pointers.h"
#include "transport/cuda/device.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 at -O3 warns about empty pins of communicators; a batch has none.
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

namespace rondo::api {
namespace {

void read_late_scalar(Call& call) {
  if (call.late_scalar == nullptr) return;
  std::memcpy(call.scalar.data(), call.late_scalar,
              std::min(size_of(call.record.type), call.scalar.size()));
}

// Held while a batch takes its turns in all its communicators and its places in streams. Every
// batch therefore waits only for batches issued before it, and no deadlock cycle can form.
std::mutex issue_mutex;

Status run(CallBatch& batch) {
  batch.works.clear();
  for (Share& share : batch.shares()) {
    share.turn.wait();
    for (Call& call : share.calls) read_late_scalar(call);
    batch.works.push_back({share.comm->engine(), share.calls});
  }
  Status result = batch.works.size() == 1 ? batch.works[0].communicator->run(batch.works[0].calls)
                                          : Communicator::run_together(batch.works);
  for (Share& share : batch.shares()) share.turn.finish();
  return result;
}

void take_tickets(CallBatch& batch) {
  for (Share& share : batch.shares()) share.turn = Turn(share.comm->order);
}

// For batches that run on this thread. A batch of one communicator holds no turn while it waits for
// its own.
void issue(CallBatch& batch) {
  std::unique_lock lock(issue_mutex, std::defer_lock);
  if (batch.shares().size() > 1) lock.lock();
  take_tickets(batch);
}

bool on_device(const Comm& comm) { return comm.engine()->options().device >= 0; }

// The program's events of launchCompletionEvent: behind everything that the batch put on their
// streams.
Status record_launch_events(const Share& share) {
  if (share.launch_events.empty()) return ok_status();
  const gpu::DeviceScope scope(share.comm->engine()->options().device);
  RONDO_CHECK_OK(scope.entered());
  for (const Share::LaunchEvent& one : share.launch_events)
    RONDO_CHECK_OK(gpu::check(gpu_api()->record_event(one.event, one.stream, GpuEventUse::kPlain),
                              "cudaEventRecord of launchCompletionEvent"));
  return ok_status();
}

// Puts calls of CUDA communicators on the caller's streams now, whether blocking or nonblocking.
Status enqueue(CallBatch& batch) {
  batch.works.clear();
  for (Share& share : batch.shares()) {
    for (const Call& call : share.calls)
      if (is_host_stream(call.stream))
        return fail(StatusCode::kInvalidArgument,
                    "stream {} was made by rondoStreamCreate, but the communicator is on CUDA "
                    "device {}: give a cudaStream_t",
                    fmt::ptr(call.stream), share.comm->engine()->options().device);
    batch.works.push_back({share.comm->engine(), share.calls});
  }
  issue(batch);
  for (Share& share : batch.shares()) share.turn.wait();
  Status result = Communicator::enqueue_together(batch.works);
  for (const Share& share : batch.shares())
    if (result.ok()) result = record_launch_events(share);
  for (Share& share : batch.shares()) share.turn.finish();
  return result;
}

// Refuses device memory, which would crash a host call. Not needed on machines without GPUs.
Status check_host_buffers(const CallBatch& batch) {
  if (gpu_api() == nullptr) return ok_status();
  for (const Share& share : batch.shares())
    for (const Call& call : share.calls) {
      RONDO_CHECK_OK(gpu::check_host_call(call, share.comm->rank));
      if (!call.parts) continue;
      for (const Call& part : *call.parts)
        RONDO_CHECK_OK(gpu::check_host_call(part, share.comm->rank));
    }
  return ok_status();
}

// After run() on another thread than the caller's: keeps the result for ncclCommGetAsyncError.
void settle(CallBatch& batch, const Status& result) {
  for (Share& share : batch.shares()) {
    if (share.comm->blocking()) continue;
    if (!result.ok()) share.comm->note(result.error());
    share.comm->pending.fetch_sub(1, std::memory_order_release);
  }
}

// Runs the batch on the first stream. The other streams block at their place in the queue until it
// has finished and take its result, so each stream handles the group as one of its own jobs.
std::shared_future<Status> push_to_streams(const std::shared_ptr<CallBatch>& batch,
                                           std::vector<StreamPin>& streams,
                                           const std::shared_ptr<std::promise<Status>>& outcome) {
  std::shared_future<Status> finished = outcome->get_future().share();
  std::vector<std::shared_future<void>> arrivals;
  for (std::size_t i = 1; i < streams.size(); ++i) {
    auto here = std::make_shared<std::promise<void>>();
    arrivals.push_back(here->get_future().share());
    (void)streams[i]->submit([here, finished] {
      here->set_value();
      return finished.get();
    });
  }
  (void)streams[0]->submit([batch, outcome, arrivals] {
    for (const auto& arrival : arrivals) arrival.wait();
    Status result = guarded("a call on a stream", [&] { return run(*batch); });
    settle(*batch, result);
    batch->clear();
    outcome->set_value(result);
    return result;
  });
  return finished;
}

ncclResult_t run_inline(CallBatch& batch) {
  issue(batch);
  if (Status result = run(batch); !result.ok()) return remember(result.error());
  return ncclSuccess;
}

Result<std::shared_future<Status>> run_on_streams(const std::shared_ptr<CallBatch>& batch,
                                                  std::vector<StreamPin> streams) {
  const auto outcome = std::make_shared<std::promise<Status>>();
  std::lock_guard lock(issue_mutex);
  take_tickets(*batch);
  for (Share& share : batch->shares())
    if (!share.comm->blocking()) share.comm->pending.fetch_add(1, std::memory_order_relaxed);
  std::shared_future<Status> finished;
  const Status pushed = guarded("a call on a stream", [&] {
    finished = push_to_streams(batch, streams, outcome);
    return ok_status();
  });
  if (pushed.ok()) return finished;
  outcome->set_value(copy_of(pushed.error()));  // unblocks streams that already wait
  settle(*batch, pushed);
  return pushed.error();
}

ncclResult_t run_on_worker(const std::shared_ptr<CallBatch>& batch) {
  std::lock_guard lock(issue_mutex);
  auto& worker = batch->shares()[0].comm->worker;
  if (!worker) {
    auto made = HostStream::open();
    if (!made.ok()) return report(made);
    worker = std::move(*made);
  }
  take_tickets(*batch);
  for (Share& share : batch->shares()) share.comm->pending.fetch_add(1, std::memory_order_relaxed);
  const Status submitted = guarded("a nonblocking call", [&] {
    return worker->submit([batch] {
      settle(*batch, guarded("a nonblocking call", [&] { return run(*batch); }));
      batch->clear();
      return ok_status();
    });
  });
  if (submitted.ok()) return ncclInProgress;
  settle(*batch, submitted);
  return report(submitted);
}

Result<std::vector<StreamPin>> pin_streams(std::span<const GroupEntry> entries) {
  std::vector<cudaStream_t> distinct;
  for (const GroupEntry& entry : entries)
    if (entry.request.call.stream != nullptr &&
        std::find(distinct.begin(), distinct.end(), entry.request.call.stream) == distinct.end())
      distinct.push_back(entry.request.call.stream);
  std::vector<StreamPin> pins;
  for (cudaStream_t stream : distinct) {
    RONDO_TRY(StreamPin pin, find_stream(stream, "GroupEnd"));
    pins.push_back(std::move(pin));
  }
  return pins;
}

// Sorts a group's calls by communicator into an empty batch.
Status fill(CallBatch& batch, std::span<const GroupEntry> entries) {
  for (const GroupEntry& entry : entries) {
    const auto shares = batch.shares();
    const auto at = std::find_if(shares.begin(), shares.end(), [&](const Share& share) {
      return share.comm->handle == entry.comm;
    });
    if (at != shares.end()) {
      at->add(entry.request);
      continue;
    }
    RONDO_TRY(CommPin pin, find_usable_comm(entry.comm, "GroupEnd"));
    batch.add_share(std::move(pin)).add(entry.request);
  }
  return ok_status();
}

Status check_same_mode(const CallBatch& batch) {
  for (const Share& share : batch.shares())
    if (share.comm->blocking() != batch.shares()[0].comm->blocking())
      return fail(StatusCode::kInvalidArgument,
                  "Blocking and nonblocking communicators are not allowed in the same group.");
  return ok_status();
}

Status check_same_home(const CallBatch& batch) {
  for (const Share& share : batch.shares())
    if (on_device(*share.comm) != on_device(*batch.shares()[0].comm))
      return fail(
          StatusCode::kInvalidUsage,
          "Communicators on the host and on CUDA devices are not allowed in the same group.");
  return ok_status();
}

// A rank's messages to itself must come in pairs: no other rank can complete them.
Status check_self_messages(const Share& share) {
  int sends = 0, receives = 0;
  for (const Call& call : share.calls) {
    if (call.peer != share.comm->rank) continue;
    sends += call.record.collective == Collective::kSend;
    receives += call.record.collective == Collective::kRecv;
  }
  if (sends > receives)
    return fail(StatusCode::kInvalidUsage, "Trying to send to self without a matching recv");
  if (receives > sends)
    return fail(StatusCode::kInvalidUsage, "Trying to recv to self without a matching send");
  return ok_status();
}

bool any_on_device(std::span<const GroupEntry> entries) {
  if (gpu_api() == nullptr) return false;
  return std::any_of(entries.begin(), entries.end(), [](const GroupEntry& entry) {
    const auto pin = find_usable_comm(entry.comm, "GroupEnd");
    return pin.ok() && on_device(**pin);
  });
}

ncclResult_t execute_on_device(CallBatch& batch) {
  if (auto checked = check_same_home(batch); !checked.ok()) return report(checked);
  for (const Share& share : batch.shares())
    if (auto checked = check_self_messages(share); !checked.ok()) return report(checked);
  const Status result = enqueue(batch);
  return result.ok() ? ncclSuccess : remember(result.error());
}

// Runs a filled and checked batch on the host. Sets `finished` if streams run it.
ncclResult_t execute_on_host(CallBatch& batch, std::vector<StreamPin> streams,
                             std::shared_future<Status>* finished) {
  if (auto checked = check_host_buffers(batch); !checked.ok()) return report(checked);
  const bool blocking = batch.shares()[0].comm->blocking();
  if (streams.empty() && blocking) return run_inline(batch);
  auto kept = std::make_shared<CallBatch>(std::move(batch));
  if (streams.empty()) return run_on_worker(kept);
  auto queued = run_on_streams(kept, std::move(streams));
  if (queued.ok()) *finished = std::move(*queued);
  return report(queued);
}

}  // namespace

ncclResult_t execute_one(CommPin&& comm, Request&& request, const char* function) {
  const bool blocking = comm->blocking();
  const bool device = on_device(*comm);
  if (blocking && !device && request.call.stream == nullptr && request.more.empty() &&
      gpu_api() == nullptr && !is_point_to_point(request.call)) {
    Turn turn(comm->order);
    turn.wait();
    read_late_scalar(request.call);
    const Status result = comm->engine()->run({&request.call, 1});
    turn.finish();
    return result.ok() ? ncclSuccess : remember(result.error());
  }
  comm.keep();
  std::vector<StreamPin> streams;
  if (request.call.stream != nullptr && !device) {
    auto pin = find_stream(request.call.stream, function);
    if (!pin.ok()) return report(pin.error());
    streams.push_back(std::move(*pin));
  }
  CallBatch& batch = CallBatch::of_thread();
  const ClearedBatch cleared(batch);
  batch.add_share(std::move(comm)).add(request);
  if (device) return execute_on_device(batch);
  if (auto checked = check_self_messages(batch.shares()[0]); !checked.ok()) return report(checked);
  std::shared_future<Status> finished;
  return execute_on_host(batch, std::move(streams), &finished);
}

ncclResult_t execute_group(std::span<const GroupEntry> entries) {
  if (entries.empty()) return ncclSuccess;
  const bool device = any_on_device(entries);
  std::vector<StreamPin> streams;
  if (!device) {
    auto pins = pin_streams(entries);
    if (!pins.ok()) return report(pins.error());
    streams = std::move(*pins);
  }
  CallBatch& batch = CallBatch::of_thread();
  const ClearedBatch cleared(batch);
  if (auto filled = fill(batch, entries); !filled.ok()) return report(filled);
  if (device) return execute_on_device(batch);
  if (auto checked = check_same_mode(batch); !checked.ok()) return report(checked);
  for (const Share& share : batch.shares())
    if (auto checked = check_self_messages(share); !checked.ok()) return report(checked);

  const bool blocking = batch.shares()[0].comm->blocking();
  const bool wants_completion = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.request.call.stream == nullptr;
  });
  std::shared_future<Status> finished;
  const ncclResult_t started = execute_on_host(batch, std::move(streams), &finished);
  // Calls without a stream are complete on return, as they are outside groups.
  if (!finished.valid() || !wants_completion || !blocking) return started;
  const Status& result = finished.get();
  return result.ok() ? ncclSuccess : remember(result.error());
}

void Share::add(const Request& request) {
  if (request.event != nullptr) events.push_back(request.event);
  if (request.launch_event != nullptr)
    launch_events.push_back({request.launch_event, request.call.stream});
  calls.push_back(request.call);
  for (const Call& call : request.more) {
    calls.push_back(call);
    calls.back().stream = request.call.stream;
    calls.back().late_scalar = request.call.late_scalar;
    calls.back().api = request.call.api;
  }
}

CallBatch& CallBatch::of_thread() {
  thread_local CallBatch batch;
  return batch;
}

Share& CallBatch::add_share(CommPin&& comm) {
  if (used_ == shares_.size()) shares_.emplace_back();
  Share& share = shares_[used_++];
  share.comm = std::move(comm);
  return share;
}

void CallBatch::clear() {
  for (Share& share : shares()) {
    share.turn.finish();
    share.comm = CommPin();
    share.calls.clear();
    share.events.clear();
    share.launch_events.clear();
  }
  used_ = 0;
  works.clear();
}

}  // namespace rondo::api
