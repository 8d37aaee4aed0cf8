#include "api/execute.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>

#include "api/errors.h"
#include "api/streams.h"
#include "collectives/gpu/pointers.h"

namespace rondo::api {
namespace {

// One communicator's share of a job.
struct Share {
  CommPin comm;
  std::uint64_t ticket = 0;
  std::vector<Call> calls;
  std::vector<const void*> late_scalars;  // as long as calls
  std::vector<cudaStream_t> streams;      // as long as calls
};

struct Job {
  std::vector<Share> shares;
};

void read_late_scalar(Call& call, const void* from) {
  if (from != nullptr) std::memcpy(call.scalar.data(), from, size_of(call.record.type));
}

// Tickets of several communicators are taken at once, together with places in streams: so every job
// waits only for jobs that were issued before it, and no circle can close.
std::mutex issue_mutex;

Done run(Job& job) {
  std::vector<Communicator::Work> works;
  works.reserve(job.shares.size());
  for (Share& share : job.shares) {
    share.comm->order.wait_turn(share.ticket);
    for (std::size_t i = 0; i < share.calls.size(); ++i)
      read_late_scalar(share.calls[i], share.late_scalars[i]);
    works.push_back({share.comm->engine(), share.calls});
  }
  Done result = works.size() == 1 ? works[0].communicator->run(works[0].calls)
                                  : Communicator::run_together(works);
  for (Share& share : job.shares) share.comm->order.finish(share.ticket);
  return result;
}

void add_to(Share& share, Request request) {
  share.calls.push_back(std::move(request.call));
  for (Call& call : request.more) share.calls.push_back(std::move(call));
  share.late_scalars.resize(share.calls.size(), request.late_scalar);
  share.streams.resize(share.calls.size(), request.stream);
}

void take_tickets(Job& job) {
  for (Share& share : job.shares) share.ticket = share.comm->order.take();
}

bool on_device(const Comm& comm) { return comm.engine()->device() >= 0; }

// Calls of CUDA communicators go onto the caller's streams now, whether blocking or not.
Done enqueue(Job& job) {
  std::vector<Communicator::GpuWork> works;
  for (const Share& share : job.shares) {
    for (cudaStream_t stream : share.streams)
      if (stream != nullptr && find_stream(stream, "").ok())
        return fail(Status::kInvalidArgument,
                    "stream {} is one of rondoStreamCreate, and the communicator lives on CUDA "
                    "device {}: give a cudaStream_t",
                    fmt::ptr(stream), share.comm->engine()->device());
    works.push_back({share.comm->engine(), share.calls, share.streams, share.late_scalars});
  }
  {
    std::lock_guard lock(issue_mutex);
    for (Share& share : job.shares) share.ticket = share.comm->order.take();
  }
  for (Share& share : job.shares) share.comm->order.wait_turn(share.ticket);
  Done result = Communicator::enqueue_together(works);
  for (Share& share : job.shares) share.comm->order.finish(share.ticket);
  return result;
}

// Device memory given to the host would crash where it is read; only machines with devices have it.
Done check_host_buffers(const Job& job) {
  if (gpu_api() == nullptr) return done();
  for (const Share& share : job.shares)
    for (const Call& call : share.calls)
      RONDO_CHECK_OK(gpu::check_host_call(call, share.comm->rank));
  return done();
}

// After run() by a thread other than the caller's: who asks later must still learn it.
void settle(Job& job, const Done& result) {
  for (Share& share : job.shares) {
    if (share.comm->blocking()) continue;
    if (!result.ok()) share.comm->note(result.error());
    share.comm->pending.fetch_sub(1, std::memory_order_release);
  }
}

// Runs on the first stream; the others stand still from their place in the queue until it is done,
// so that each stream sees the group as one of its own jobs.
std::shared_future<Done> push_to_streams(std::shared_ptr<Job> job,
                                         std::vector<StreamPin>& streams) {
  auto outcome = std::make_shared<std::promise<Done>>();
  std::shared_future<Done> finished = outcome->get_future().share();
  std::vector<std::shared_future<void>> arrivals;
  for (std::size_t i = 1; i < streams.size(); ++i) {
    auto here = std::make_shared<std::promise<void>>();
    arrivals.push_back(here->get_future().share());
    (void)streams[i]->submit([here, finished] {
      here->set_value();
      finished.wait();
      return done();
    });
  }
  (void)streams[0]->submit([job, outcome, arrivals] {
    for (const auto& arrival : arrivals) arrival.wait();
    const Done result = run(*job);
    settle(*job, result);
    job->shares.clear();
    outcome->set_value(result);
    return result;
  });
  return finished;
}

ncclResult_t run_inline(Job& job) {
  if (job.shares.size() == 1) {
    take_tickets(job);
  } else {
    std::lock_guard lock(issue_mutex);
    take_tickets(job);
  }
  if (Done result = run(job); !result.ok()) return remember(result.error());
  return ncclSuccess;
}

std::shared_future<Done> run_on_streams(std::shared_ptr<Job> job, std::vector<StreamPin> streams) {
  std::lock_guard lock(issue_mutex);
  take_tickets(*job);
  for (Share& share : job->shares)
    if (!share.comm->blocking()) share.comm->pending.fetch_add(1, std::memory_order_relaxed);
  return push_to_streams(std::move(job), streams);
}

ncclResult_t run_on_worker(std::shared_ptr<Job> job) {
  std::lock_guard lock(issue_mutex);
  take_tickets(*job);
  for (Share& share : job->shares) share.comm->pending.fetch_add(1, std::memory_order_relaxed);
  auto& worker = job->shares[0].comm->worker;
  if (!worker) worker = std::make_unique<HostStream>();
  (void)worker->submit([job] {
    settle(*job, run(*job));
    job->shares.clear();
    return done();
  });
  return ncclInProgress;
}

Result<std::vector<StreamPin>> pin_streams(const std::vector<GroupEntry>& entries) {
  std::vector<cudaStream_t> distinct;
  for (const GroupEntry& entry : entries)
    if (entry.request.stream != nullptr &&
        std::find(distinct.begin(), distinct.end(), entry.request.stream) == distinct.end())
      distinct.push_back(entry.request.stream);
  std::vector<StreamPin> pins;
  for (cudaStream_t stream : distinct) {
    RONDO_TRY(StreamPin pin, find_stream(stream, "GroupEnd"));
    pins.push_back(std::move(pin));
  }
  return pins;
}

Result<std::shared_ptr<Job>> make_job(std::vector<GroupEntry>& entries) {
  auto job = std::make_shared<Job>();
  std::vector<ncclComm_t> order;
  for (GroupEntry& entry : entries) {
    auto at = std::find(order.begin(), order.end(), entry.comm) - order.begin();
    if (at == static_cast<std::ptrdiff_t>(order.size())) {
      RONDO_TRY(CommPin pin, find_usable_comm(entry.comm, "GroupEnd"));
      order.push_back(entry.comm);
      job->shares.push_back(Share{std::move(pin), 0, {}, {}, {}});
    }
    Share& share = job->shares[static_cast<std::size_t>(at)];
    add_to(share, std::move(entry.request));
  }
  return job;
}

Done check_same_mode(const Job& job) {
  for (const Share& share : job.shares)
    if (share.comm->blocking() != job.shares[0].comm->blocking())
      return fail(Status::kInvalidArgument,
                  "Blocking and nonblocking communicators are not allowed in the same group.");
  return done();
}

Done check_same_home(const Job& job) {
  for (const Share& share : job.shares)
    if (on_device(*share.comm) != on_device(*job.shares[0].comm))
      return fail(
          Status::kInvalidUsage,
          "Communicators on the host and on CUDA devices are not allowed in the same group.");
  return done();
}

// A rank's messages to itself must come in pairs: nobody else could complete them.
Done check_self_messages(const Share& share) {
  int sends = 0, receives = 0;
  for (const Call& call : share.calls) {
    if (call.peer != share.comm->rank) continue;
    sends += call.record.collective == Collective::kSend;
    receives += call.record.collective == Collective::kRecv;
  }
  if (sends > receives)
    return fail(Status::kInvalidUsage, "Trying to send to self without a matching recv");
  if (receives > sends)
    return fail(Status::kInvalidUsage, "Trying to recv to self without a matching send");
  return done();
}

bool any_on_device(const std::vector<GroupEntry>& entries) {
  if (gpu_api() == nullptr) return false;
  return std::any_of(entries.begin(), entries.end(), [](const GroupEntry& entry) {
    const auto pin = find_usable_comm(entry.comm, "GroupEnd");
    return pin.ok() && on_device(**pin);
  });
}

ncclResult_t execute_on_device(std::vector<GroupEntry>& entries) {
  auto made = make_job(entries);
  if (!made.ok()) return report(made.error());
  if (auto checked = check_same_home(**made); !checked.ok()) return report(checked);
  for (const Share& share : (*made)->shares)
    if (auto checked = check_self_messages(share); !checked.ok()) return report(checked);
  const Done result = enqueue(**made);
  return result.ok() ? ncclSuccess : remember(result.error());
}

}  // namespace

ncclResult_t execute_one(CommPin&& comm, Request&& request, const char* function) {
  const bool blocking = comm->blocking();
  const bool device = on_device(*comm);
  if (blocking && !device && request.stream == nullptr && request.more.empty() &&
      gpu_api() == nullptr && !is_point_to_point(request.call)) {
    const auto ticket = comm->order.take();
    comm->order.wait_turn(ticket);
    read_late_scalar(request.call, request.late_scalar);
    const Done result = comm->engine()->run({&request.call, 1});
    comm->order.finish(ticket);
    return result.ok() ? ncclSuccess : remember(result.error());
  }
  comm.keep();
  std::vector<StreamPin> streams;
  if (request.stream != nullptr && !device) {
    auto pin = find_stream(request.stream, function);
    if (!pin.ok()) return report(pin.error());
    streams.push_back(std::move(*pin));
  }
  auto job = std::make_shared<Job>();
  job->shares.push_back(Share{std::move(comm), 0, {}, {}, {}});
  add_to(job->shares[0], std::move(request));
  if (auto checked = check_self_messages(job->shares[0]); !checked.ok()) return report(checked);
  if (device) {
    const Done result = enqueue(*job);
    return result.ok() ? ncclSuccess : remember(result.error());
  }
  if (auto checked = check_host_buffers(*job); !checked.ok()) return report(checked);
  if (!streams.empty()) {
    run_on_streams(std::move(job), std::move(streams));
    return ncclSuccess;
  }
  return blocking ? run_inline(*job) : run_on_worker(std::move(job));
}

ncclResult_t execute_group(std::vector<GroupEntry> entries) {
  if (entries.empty()) return ncclSuccess;
  if (any_on_device(entries)) return execute_on_device(entries);
  auto streams = pin_streams(entries);
  if (!streams.ok()) return report(streams.error());
  const bool wants_completion = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.request.stream == nullptr;
  });
  auto made = make_job(entries);
  if (!made.ok()) return report(made.error());
  std::shared_ptr<Job> job = std::move(*made);
  if (auto checked = check_same_mode(*job); !checked.ok()) return report(checked);
  for (const Share& share : job->shares)
    if (auto checked = check_self_messages(share); !checked.ok()) return report(checked);

  if (auto checked = check_host_buffers(*job); !checked.ok()) return report(checked);

  const bool blocking = job->shares[0].comm->blocking();
  if (streams->empty()) return blocking ? run_inline(*job) : run_on_worker(std::move(job));
  const auto finished = run_on_streams(std::move(job), std::move(*streams));
  // Where some of the calls named no stream, they are complete on return, as they would be alone.
  if (!wants_completion || !blocking) return ncclSuccess;
  const Done& result = finished.get();
  return result.ok() ? ncclSuccess : remember(result.error());
}

}  // namespace rondo::api
