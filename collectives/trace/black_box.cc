// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/black_box.h"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>

#include "base/env.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/thread.h"
#include "collectives/trace/trace_file.h"
#include "transport/shm/memfd.h"

namespace rondo::trace {
namespace {

// The boxes of this process that write files, for its end and for the signal. One file is written
// at a time, because several ranks of a process may write the same one. A forked child has its own.
struct OpenBoxes {
  std::recursive_mutex mutex;
  std::set<const BlackBox*> boxes;
  const std::uint32_t made_in = fork_generation();

  void write_all(std::string_view reason) {
    std::lock_guard lock(mutex);
    for (const BlackBox* box : boxes) box->write(reason);
  }
};

std::atomic<OpenBoxes*>& newest_boxes() {
  static std::atomic<OpenBoxes*> newest{nullptr};
  return newest;
}

// Null: no box of this process writes files.
OpenBoxes* own_boxes() {
  OpenBoxes* const newest = newest_boxes().load(std::memory_order_acquire);
  return newest != nullptr && newest->made_in == fork_generation() ? newest : nullptr;
}

void write_at_exit() {
  if (OpenBoxes* const own = own_boxes()) own->write_all("end");
}

OpenBoxes& open_boxes() {
  OpenBoxes* before = newest_boxes().load(std::memory_order_acquire);
  if (OpenBoxes* const own = own_boxes()) return *own;
  auto made = std::make_unique<OpenBoxes>();
  if (!newest_boxes().compare_exchange_strong(before, made.get())) return open_boxes();
  OpenBoxes& boxes = *made.release();  // used at the end of the process
  [[maybe_unused]] static const int registered = std::atexit(write_at_exit);
  if (const std::string signal = env::get_string("RONDO_TRACE_SIGNAL"); !signal.empty()) {
    const Status set = on_trace_signal(signal, [&boxes] { boxes.write_all("signal"); });
    if (!set.ok()) notice(set.error().text);
  }
  return boxes;
}

void warn_once(const std::string& folder, const Error& error) {
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true))
    notice(
        fmt::format("RONDO_TRACE={}: {}; calls go on, no trace is written: name a folder that "
                    "this user can write",
                    folder, error.text));
}

void warn_of_signal() {
  static std::atomic<bool> warned{false};
  const std::string signal = env::get_string("RONDO_TRACE_SIGNAL");
  if (!signal.empty() && !warned.exchange(true))
    notice(fmt::format("RONDO_TRACE_SIGNAL={} has no effect: RONDO_TRACE names no folder", signal));
}

Status check_folder(const std::string& folder) {
  if (access(folder.c_str(), F_OK) != 0) return ok_status();  // made with the first file
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return fail_errno(errno, "cannot write into the folder");
  return ok_status();
}

}  // namespace

BlackBox::~BlackBox() {
  if (folder_.empty() || made_in_ != fork_generation()) return;
  OpenBoxes& open = open_boxes();
  std::lock_guard lock(open.mutex);
  open.boxes.erase(this);
}

Result<Recording> parse_recording(std::string_view text) {
  if (text == "brief") return Recording::kBrief;
  if (text == "0" || text == "false" || text == "no" || text == "off") return Recording::kNone;
  if (text == "1" || text == "true" || text == "yes" || text == "on") return Recording::kWhole;
  return fail(StatusCode::kInvalidArgument, "RONDO_RECORD='{}' is not 0, 1 or brief",
              printable(text));
}

Recording BlackBox::asked_for() {
  if (!env::get_string("RONDO_TRACE").empty() || !env::get_string("RONDO_METRICS").empty())
    return Recording::kWhole;
  const auto parsed = parse_recording(env::get_string("RONDO_RECORD"));
  if (parsed.ok()) return *parsed;
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true)) notice(parsed.error().text + ": no record is kept");
  return Recording::kNone;
}

std::uint8_t BlackBox::clock_rounds() {
  constexpr std::uint8_t kBriefRounds = 1;
  const Recording asked = asked_for();
  return asked == Recording::kNone    ? 0
         : asked == Recording::kBrief ? kBriefRounds
                                      : kMaxClockRounds;
}

void BlackBox::open(std::uint64_t communicator, const HostOffset& offset) {
  const Recording asked = asked_for();
  if (members_.size < 2 || asked == Recording::kNone) return warn_of_signal();
  host::CallRecorder::Setup setup;
  setup.brief = asked == Recording::kBrief;
  setup.ring = host_.self().trace;
  setup.commit = [](void* at, std::size_t bytes) {
    return shm::commit(at, bytes, "the record of calls").ok();
  };
  setup.origin.communicator = communicator;
  setup.origin.offset_ns = offset.offset_ns;
  setup.origin.offset_error_ns = offset.error_ns;
  host_.recorder.set_up(setup);
  const std::string folder = env::get_string("RONDO_TRACE");
  if (folder.empty()) return warn_of_signal();
  if (const Status writable = check_folder(folder); !writable.ok())
    return warn_once(folder, writable.error());
  folder_ = folder;
  made_in_ = fork_generation();
  communicator_ = communicator;
  context_.faults.listen([this](const Fault& fault) { write_at_fault(fault); });
  OpenBoxes& open = open_boxes();
  std::lock_guard lock(open.mutex);
  open.boxes.insert(this);
}

void BlackBox::write(std::string_view reason) const { write_local(host_.rank, reason, nullptr); }

void BlackBox::write_at_fault(const Fault& fault) const {
  write_local(host_.rank, "fault", &fault);
  for (int r = 0; r < host_.size; ++r) {
    const shm::PeerProcess& process = members_.process_of(r);
    const bool named = members_.local_ranks[static_cast<std::size_t>(r)] == fault.culprit;
    if (process.neighbour && (named || has_ended(process))) write_local(r, "fault", nullptr);
  }
}

// fault: this rank's, which its peers do not see yet.
void BlackBox::write_local(int local, std::string_view reason, const Fault* fault) const {
  if (folder_.empty() || made_in_ != fork_generation()) return;
  std::lock_guard lock(open_boxes().mutex);
  const Status written = guarded("writing a trace", [&]() -> Status {
    auto trace = trace_of(host_.peers[static_cast<std::size_t>(local)], members_.own().hostname,
                          read_ticks(), communicator_);
    if (!trace) return ok_status();  // it has not joined
    if (has_ended(members_.process_of(local))) trace->state = "ended";
    if (fault != nullptr && trace->fault.empty()) {
      trace->fault = fault->text;
      trace->culprit = fault->culprit;
    }
    RONDO_TRY(const std::string path, write_trace(folder_, *trace, reason));
    RONDO_INFO(kColl, "rank {}: its newest calls are in {}", trace->rank, path);
    return ok_status();
  });
  if (!written.ok()) warn_once(folder_, written.error());
}

namespace {

struct Name {
  std::string_view name;
  int number;
};
// Signals by which a user talks to a program. Those of faults and of job control are left alone.
constexpr Name kTraceSignals[] = {{"HUP", SIGHUP},   {"USR1", SIGUSR1},   {"USR2", SIGUSR2},
                                  {"QUIT", SIGQUIT}, {"WINCH", SIGWINCH}, {"IO", SIGIO}};

int number_of(std::string_view text) {
  if (text.starts_with("SIG")) text.remove_prefix(3);
  const auto found = std::find_if(
      std::begin(kTraceSignals), std::end(kTraceSignals),
      [&](const Name& one) { return one.name == text || std::to_string(one.number) == text; });
  return found == std::end(kTraceSignals) ? 0 : found->number;
}

sem_t& arrived() {
  static sem_t semaphore;
  return semaphore;
}

void post_arrival(int) {
  const int error = errno;
  sem_post(&arrived());
  errno = error;
}

}  // namespace

Status on_trace_signal(const std::string& signal, std::function<void()> run) {
  const int number = number_of(signal);
  if (number == 0)
    return fail(
        StatusCode::kInvalidArgument,
        "RONDO_TRACE_SIGNAL={}: no trace is written at a signal: name HUP, USR1, USR2, QUIT, "
        "WINCH or IO",
        signal);
  struct sigaction before {};
  const bool known = sigaction(number, nullptr, &before) == 0;
  if (!known || (before.sa_handler != SIG_DFL && before.sa_handler != post_arrival))
    return fail(StatusCode::kInvalidUsage,
                "RONDO_TRACE_SIGNAL={}: the program handles that signal itself, so no trace is "
                "written at it: name another one",
                signal);
  sem_init(&arrived(), 0, 0);
  auto thread = Thread::start(
      "traces at a signal",
      [run = std::move(run)] {
        for (;;) {
          if (sem_wait(&arrived()) != 0) continue;
          while (sem_trywait(&arrived()) == 0) continue;
          run();
        }
      },
      [](const Error&) {});
  if (!thread.ok()) return thread.error();
  thread->detach();
  struct sigaction action {};
  action.sa_handler = post_arrival;
  action.sa_flags = SA_RESTART;
  if (sigaction(number, &action, nullptr) != 0)
    return fail_errno(errno, "RONDO_TRACE_SIGNAL={}", signal);
  return ok_status();
}

}  // namespace rondo::trace
