// SPDX-License-Identifier: Apache-2.0
#include "api/group.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "api/export.h"
#include "base/gpu.h"
#include "base/guard.h"
#include "base/thread.h"
#include "collectives/profiler/call_events.h"
#include "transport/cuda/device.h"
#include "transport/cuda/stream_event.h"
#include "transport/cuda/streams.h"

namespace rondo::api {
namespace {

struct Group {
  std::vector<GroupEntry> entries;
  std::vector<SetUp> set_ups;
  std::vector<std::unique_ptr<Comm>> ended;
  std::shared_ptr<const profiler::GroupEvent> event;  // of the first profiled communicator

  void clear() {  // keeps the memory
    entries.clear();
    set_ups.clear();
    ended.clear();
    event.reset();
  }
};

// open: collects calls; closed: its calls are being run.
struct ThreadGroups {
  Group open, closed;
};

ThreadGroups& groups() {
  thread_local ThreadGroups of_thread;
  return of_thread;
}
Group& group() { return groups().open; }

// Takes the content of the thread's outermost group; clears it at the end of the scope.
class ClosedGroup {
 public:
  ClosedGroup()
      : first_error_(
            static_cast<ncclResult_t>(std::exchange(thread_words.group_error, ncclSuccess))),
        group_(groups().closed) {
    std::swap(group_, group());
  }
  ~ClosedGroup() { group_.clear(); }
  ClosedGroup(const ClosedGroup&) = delete;
  ClosedGroup& operator=(const ClosedGroup&) = delete;
  Group* operator->() { return &group_; }
  ncclResult_t first_error() const { return first_error_; }

 private:
  const ncclResult_t first_error_;
  Group& group_;
};

// A set-up with its turn in the parent's queue. The issuing thread takes the turn.
struct Issued {
  explicit Issued(SetUp from) : work(std::move(from)) {
    if (work.parent.get() == nullptr) return;
    turn = Turn(work.parent->order);
    parent = work.parent->handle;
  }
  Status run() {
    turn.wait();
    Status result = guarded("setting up", [this] { return work.run_now(); });
    turn.finish();
    work.parent = CommPin();
    return result;
  }

  SetUp work;
  Turn turn;
  ncclComm_t parent = nullptr;
};

ncclResult_t run_detached(std::vector<Issued> all) {
  for (Issued& issued : all) {
    auto started = Thread::start(
        "a nonblocking set-up",
        [issued = std::move(issued)]() mutable {
          gpu::DeviceScope::keep_device_of_thread();
          (void)issued.run().ok();
        },
        [](const Error&) {});
    if (!started.ok()) return report(started);
    started->detach();
  }
  return ncclInProgress;
}

// Starts several threads. If one cannot be started, none runs its body.
class Starters {
 public:
  ~Starters() {
    open(kNever);
    for (Thread& thread : threads_) thread.join();
  }
  template <class Body>
  Status add(Body body) {
    threads_.emplace_back();
    auto started = Thread::start(
        "a rank's set-up",
        [this, body = std::move(body)] {
          gate_.wait(kClosed);
          gpu::DeviceScope::keep_device_of_thread();
          if (gate_.load() == kNow) body();
        },
        [](const Error&) {});
    if (started.ok())
      threads_.back() = std::move(*started);
    else
      threads_.pop_back();
    return started.ok() ? ok_status() : Status(started.error());
  }
  void begin() { open(kNow); }
  void join() {
    for (Thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  enum Gate : int { kClosed, kNow, kNever };
  void open(Gate how) {
    int closed = kClosed;
    gate_.compare_exchange_strong(closed, how);
    gate_.notify_all();
  }
  std::atomic<int> gate_{kClosed};
  std::vector<Thread> threads_;
};

// Ranks wait for each other, so each needs a thread; the first one uses the caller's.
ncclResult_t run_attached(std::vector<Issued> all) {
  std::vector<Status> results(all.size());
  {
    Starters others;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (auto added = others.add([&, i] { results[i] = all[i].run(); }); !added.ok())
        return report(added);
    others.begin();
    results[0] = all[0].run();
    others.join();
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (results[i].ok()) continue;
    const ncclResult_t reported = report(results[i].error());
    if (all[i].parent != nullptr) note_failed_child(all[i].parent);
    return reported;
  }
  return ncclSuccess;
}

ncclResult_t run_set_ups(std::vector<SetUp> works) {
  const bool blocking = works[0].blocking;
  for (const SetUp& work : works)
    if (work.blocking != blocking)
      return report(
          fail(StatusCode::kInvalidArgument,
               "Blocking and nonblocking communicators are not allowed in the same group."));
  std::vector<Issued> all;
  for (SetUp& work : works) all.emplace_back(std::move(work));
  return blocking ? run_attached(std::move(all)) : run_detached(std::move(all));
}

bool is_captured(const Comm& comm, const Call& call) {
  if (comm.options.device < 0 || gpu_api() == nullptr) return false;
  const auto capture = gpu::capture_of(call.stream);
  return capture.ok() && gpu::capturing(*capture);
}

// Tells a profiler plugin of the program's call. `group`: its group; null: it is the group's first.
void profile(const Comm& comm, std::shared_ptr<const profiler::GroupEvent>& group,
             Request& request) {
  const auto profiler = comm.engine()->profiler();
  if (profiler == nullptr || is_one_sided(request.call)) return;
  const bool captured = is_captured(comm, request.call);
  if (group == nullptr)
    group = std::make_shared<const profiler::GroupEvent>(profiler, thread_words.group_depth + 1,
                                                         captured);
  request.event =
      std::make_shared<const profiler::CallEvent>(*profiler, group, request.call, captured);
  request.call.api = request.event.get();
}

// A call outside groups is a group of its own.
ncclResult_t execute_profiled(CommPin&& comm, Request&& request, const char* function) {
  std::shared_ptr<const profiler::GroupEvent> group;
  profile(*comm, group, request);
  if (group != nullptr) group->end_begins();
  return execute_one(std::move(comm), std::move(request), function);
}

// Not inlined: GCC 12 would warn about a null communicator.
[[gnu::noinline]] double ns_of(const Comm& comm, const Call& call) {
  double ns = comm.engine()->predicted_ns(call.record);
  if (call.parts)
    for (const Call& part : *call.parts) ns += comm.engine()->predicted_ns(part.record);
  return ns;
}

// ncclGroupSimulateEnd's estimate: the sum of the planner's predicted times of a group's calls.
// Fills info. NULL: only checks the calls.
Status simulate(const std::vector<GroupEntry>& entries, ncclSimInfo_t* info) {
  double ns = 0;
  for (const GroupEntry& entry : entries) {
    RONDO_TRY(const CommPin comm, find_usable_comm(entry.comm, "GroupSimulateEnd"));
    ns += ns_of(*comm, entry.request.call);
    for (const Call& call : entry.request.more) ns += ns_of(*comm, call);
  }
  if (info == nullptr) return ok_status();
  constexpr unsigned kMagic = 0x74685283;
  constexpr std::size_t kNeeded = offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float);
  if (info->magic != kMagic || info->size < kNeeded)
    return fail(StatusCode::kInvalidArgument,
                "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
  info->estimatedTime = static_cast<float>(ns / 1000);
  return ok_status();
}

// Leaves one level of the group. True if it was the outermost.
Result<bool> leave(const char* function) {
  if (!in_group()) return fail(StatusCode::kInvalidUsage, "{}: not in a group call.", function);
  return --thread_words.group_depth == 0;
}

}  // namespace

ncclResult_t start_group() {
  ++thread_words.group_depth;
  return ncclSuccess;
}

ncclResult_t end_group() {
  const auto outermost = leave("ncclGroupEnd");
  if (!outermost.ok()) return report(outermost.error());
  if (!*outermost) return ncclSuccess;
  ClosedGroup closed;
  if (closed->event != nullptr) closed->event->end_begins();
  if (closed.first_error() != ncclSuccess) return closed.first_error();
  ncclResult_t result = ncclSuccess;
  if (!closed->set_ups.empty()) result = run_set_ups(std::move(closed->set_ups));
  if (closed->entries.empty() || (result != ncclSuccess && result != ncclInProgress)) return result;
  const ncclResult_t executed = execute_group(closed->entries);
  return executed == ncclSuccess ? result : executed;
}

ncclResult_t submit(CommPin&& comm, Request&& request, const char* function) {
  const bool plain = comm->is_plain();
  if (!in_group() && !plain) return execute_profiled(std::move(comm), std::move(request), function);
  if (!in_group()) return execute_one(std::move(comm), std::move(request), function);
  if (!plain) profile(*comm, group().event, request);
  group().entries.push_back({comm->handle, std::move(request)});
  return ncclSuccess;
}

ncclResult_t submit_set_up(SetUp work) {
  if (!in_group()) {
    std::vector<SetUp> works;
    works.push_back(std::move(work));
    return run_set_ups(std::move(works));
  }
  group().set_ups.push_back(std::move(work));
  return ncclSuccess;
}

void tear_down(std::unique_ptr<Comm> comm) {
  if (in_group()) group().ended.push_back(std::move(comm));
}

void drop_from_group(ncclComm_t comm) {
  std::erase_if(group().entries, [&](const GroupEntry& entry) { return entry.comm == comm; });
}

}  // namespace rondo::api

using namespace rondo;
using namespace rondo::api;

RONDO_API_FUNCTION(ncclResult_t, GroupStart, void) {
  RONDO_ENTER(GroupStart);
  return start_group();
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, GroupEnd, void) {
  RONDO_ENTER(GroupEnd);
  return end_group();
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, GroupSimulateEnd, ncclSimInfo_t* simInfo) {
  RONDO_ENTER(GroupSimulateEnd);
  const auto outermost = leave("ncclGroupSimulateEnd");
  if (!outermost.ok()) return report(outermost.error());
  if (!*outermost) return report(simulate({}, simInfo));
  ClosedGroup closed;
  closed->set_ups.clear();
  if (closed.first_error() != ncclSuccess) return closed.first_error();
  return report(simulate(closed->entries, simInfo));
}
RONDO_CATCH

namespace rondo::api {

namespace {

void discard(ncclComm_t* out, ncclComm_t handle) {
  HandleState state;
  comms().remove(handle, &state);
  *out = nullptr;
}

Status make(ncclComm_t* out, ncclComm_t handle, bool blocking, const Maker& maker) {
  auto found = comms().pin(handle);
  if (found.state != HandleState::kAlive)
    return fail(StatusCode::kInvalidUsage, "comm {} was ended while it was being initialized",
                fmt::ptr(handle));
  Comm* comm = found.pin.get();
  Made made =
      guarded("making a communicator", [&] { return maker([comm] { return comm->ended(); }); });
  if (made.ok()) {
    comm->set_engine(std::move(made).value());
    return ok_status();
  }
  comm->note(made.error());
  found.pin = CommPin();
  if (blocking) discard(out, handle);
  return made.error();
}

}  // namespace

ncclResult_t make_comm(ncclComm_t* out, NewComm description, const Maker& maker) {
  const bool blocking = description.config.fields.blocking != 0;
  SetUp work;
  work.parent = std::move(description.parent);
  work.blocking = blocking;
  *out = nullptr;
  if (description.member) {
    auto comm =
        std::make_unique<Comm>(std::move(description.config), std::move(description.options));
    Comm* raw = comm.get();
    const auto handle = static_cast<ncclComm_t>(comms().insert(std::move(comm)));
    if (handle == nullptr)
      return note_in_group(
          report(fail(StatusCode::kInvalidUsage, "too many communicators are alive")));
    raw->handle = handle;
    const auto kept = guarded("making a communicator", [&] {
      work.cancel = [=] { discard(out, handle); };
      work.run = [=] { return make(out, handle, blocking, maker); };
      return ok_status();
    });
    if (!kept.ok() && !work.cancel) discard(out, handle);
    if (!kept.ok()) return note_in_group(report(kept));
    *out = handle;
  } else {
    work.run = [=]() -> Status {
      const Made nothing = maker([] { return false; });
      return nothing.ok() ? ok_status() : Status(nothing.error());
    };
    work.cancel = [] {};
  }
  return submit_set_up(std::move(work));
}

}  // namespace rondo::api
