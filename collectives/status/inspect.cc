// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/inspect.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/printable.h"
#include "base/seconds.h"
#include "collectives/faults/peer_words.h"
#include "collectives/faults/progress.h"
#include "collectives/faults/rank_report.h"
#include "collectives/faults/standstill.h"
#include "collectives/status/diagnosis.h"
#include "collectives/status/watched_ranks.h"
#include "collectives/trace/metrics_text.h"
#include "topology/cpu_budget.h"
#include "topology/small_file.h"
#include "transport/shm/host_segment.h"
#include "transport/status/user_folder.h"

namespace rondo {
namespace {

// A rank that has found within this time that it waits still waits. A waiter sleeps 0.1 s at most,
// and a busy machine delays it.
constexpr std::int64_t kWaitsStill = 1'000'000'000;

int core_of(const PeerPort& port) {
  const std::uint32_t core = HostAtomics::load_relaxed(port.steps->core);
  return core <= topology::kMaxCpu ? static_cast<int>(core) - 1 : -1;
}

// The wait that the rank publishes may be over: it is not withdrawn.
void show_wait(const shm::ActivityLine& activity, const RankReport& report, RankView* view) {
  const std::int64_t seen = HostAtomics::load_relaxed(activity.wait_seen_ns);
  const std::int64_t began = HostAtomics::load_relaxed(activity.wait_began_ns);
  view->waits_for = report.waiting_for;
  view->waits_seconds = static_cast<double>(std::max<std::int64_t>(seen - began, 0)) / 1e9;
  view->waits_in = to_string(report.waits_in);
  view->in_message = is_message(report.waits_in);
}

// A rank on a GPU: its kernels and streams wait, not its host.
void show_device(const shm::ActivityLine::Device& line, RankReport::Condition condition,
                 RankView* view) {
  const std::uint64_t begun = HostAtomics::load_relaxed(line.begun);
  if (begun == 0) return;
  view->call += begun;
  const std::int64_t seen = HostAtomics::load_acquire(line.wait_seen_ns);
  const std::int64_t began = HostAtomics::load_relaxed(line.wait_began_ns);
  const bool waits = condition == RankReport::kRunning && now_ns() - seen < kWaitsStill;
  if (view->waits_for >= 0) return;
  view->doing = "its calls run on its GPU";
  if (condition != RankReport::kRunning)
    view->doing += condition == RankReport::kStopped ? ", stopped" : ", ended";
  if (!waits) return;
  const CallRecord record = load_record(line.call);
  view->in_kernel = true;
  view->waits_for = HostAtomics::load_relaxed(line.waiting_for);
  view->waits_seconds = static_cast<double>(std::max<std::int64_t>(seen - began, 0)) / 1e9;
  view->waits_in =
      record.collective == Collective::kNone ? gpu::kMessageInWords : to_string(record);
  view->doing = kernel_wait_text(*view);
}

void show_fault(const PeerPort& port, RankView* view) {
  const FaultSlot& slot = *port.fault;
  view->faulted = true;
  view->fault_status = slot.status;
  view->culprit = slot.culprit;
  view->fault = printable_lines({slot.text, strnlen(slot.text, sizeof(slot.text))});
  view->doing += ", fault: " + view->fault;
  view->fault_by = slot.rank;
  if (slot.sequence == 0 || slot.other.collective == Collective::kNone) return;  // no mismatch
  const RankReport then = report_of(port, view->rank, slot.sequence);
  if (view->rank == slot.rank) {
    view->fault_call = to_string(slot.own);
  } else if (view->rank == slot.culprit) {
    view->fault_call = to_string(slot.other);
  } else if (then.shown == slot.sequence) {
    view->fault_call = to_string(then.announced);
  }
}

bool has_status_socket(int pid) {
  const auto folder = status::UserFolder::find(owner_of_process(pid));
  if (!folder.ok()) return false;
  const auto names = folder->sockets();
  return std::any_of(names.begin(), names.end(),
                     [pid](const status::SocketName& name) { return name.pid == pid; });
}

CommunicatorView view_of(const shm::SegmentView& segment) {
  CommunicatorView view;
  std::uint64_t newest = 0;
  for (int r = 0; r < segment.ranks(); ++r) {
    newest = std::max(newest, report_of(segment.port(r), r).entered());
    view.hash =
        std::max(view.hash, HostAtomics::load_acquire(segment.port(r).trace->origin.communicator));
  }
  for (int r = 0; r < segment.ranks(); ++r) {
    const PeerPort port = segment.port(r);
    const int pid = HostAtomics::load_acquire(port.identity->pid);
    if (pid == 0) {
      view.ranks.push_back({.state = "not_joined", .doing = "not joined yet"});
      continue;
    }
    view.size = port.identity->size;
    if (view.name.empty())
      view.name = printable(
          {port.identity->name, strnlen(port.identity->name, sizeof(port.identity->name))});
    const bool elsewhere = port.identity->pid_namespace != pid_namespace();
    RankView rank = rank_view({port, &segment.activity(r), segment.messages()},
                              elsewhere ? RankReport::kRunning : condition_of(pid), newest);
    if (elsewhere && rank.state == "running") {
      rank.state = "elsewhere";
      rank.doing += ", in another PID namespace";
    }
    view.ranks.push_back(std::move(rank));
  }
  return view;
}

std::string without_folders(const std::string& path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool is_interpreter(std::string_view program) {
  constexpr std::string_view kInterpreters[] = {"python", "pypy", "bash", "sh", "perl", "node"};
  return std::any_of(std::begin(kInterpreters), std::end(kInterpreters), [&](std::string_view one) {
    return program.starts_with(one) &&
           program.find_first_not_of("0123456789.", one.size()) == std::string_view::npos;
  });
}

// Of an interpreter: the word of the script, of -m or of -c.
std::size_t end_of_options(const std::vector<std::string>& words) {
  std::size_t next = 1;
  while (next < words.size() && words[next].starts_with('-') && words[next] != "-m" &&
         words[next] != "-c") {
    const bool has_value = words[next] == "-X" || words[next] == "-W";
    next += has_value ? 2 : 1;
  }
  return std::min(next, words.size());
}

}  // namespace

RankReport::Condition condition_of(int pid) {
  if (has_ended(pid)) return RankReport::kEnded;
  return is_standing_still(pid) ? RankReport::kStopped : RankReport::kRunning;
}

uid_t owner_of_process(int pid) {
  struct stat info {};
  return stat(fmt::format("/proc/{}", pid).c_str(), &info) == 0 ? info.st_uid : geteuid();
}

RankView rank_view(const RankWordsView& words, RankReport::Condition condition,
                   std::uint64_t newest) {
  const PeerPort& port = words.port;
  RankReport report = report_of(port, port.identity->rank);
  report.condition = condition;
  RankView view{.rank = port.identity->rank,
                .pid = HostAtomics::load_acquire(port.identity->pid),
                .finished = report.finished,
                .step = report.step,
                .core = core_of(port)};
  for (std::size_t i = 0; i < view.counts.size(); ++i)
    view.counts[i] = HostAtomics::load_relaxed(words.activity->calls[i]);
  view.survivors = HostAtomics::load_acquire(words.activity->survivors);
  const bool waits = report.waits_now();
  const std::int64_t seen = HostAtomics::load_relaxed(words.activity->wait_seen_ns);
  if (waits && condition == RankReport::kRunning && now_ns() - seen < kWaitsStill) {
    show_wait(*words.activity, report, &view);
  } else if (waits && condition == RankReport::kRunning) {
    report.state = kOutside;
  }
  view.call = report.entered();
  view.doing = describe(report, newest);
  if (view.waits_for >= 0) view.doing += fmt::format(", for {:.1f} s", view.waits_seconds);
  show_device(words.activity->device, condition, &view);
  show_watched(words, report, &view);
  if (HostAtomics::load_acquire(*port.faulted) != 0 &&
      HostAtomics::load_acquire(port.fault->state) != 0)
    show_fault(port, &view);
  if (report.state == kLeft) {
    view.state = "left";
  } else if (condition == RankReport::kEnded) {
    view.state = "ended";
  } else if (condition == RankReport::kStopped) {
    view.state = "stopped";
  }
  return view;
}

std::string command_text(std::string_view cmdline) {
  std::vector<std::string> words;
  while (!cmdline.empty()) {
    words.emplace_back(cmdline.substr(0, cmdline.find('\0')));
    cmdline.remove_prefix(std::min(words.back().size() + 1, cmdline.size()));
  }
  if (words.empty()) return "";
  std::string text = without_folders(words[0]);
  std::size_t next = 1;
  if (is_interpreter(text)) {
    next = end_of_options(words);
    const bool is_script = next < words.size() && !words[next].starts_with('-');
    if (is_script) text += ' ' + without_folders(words[next++]);
  }
  for (; next < words.size(); ++next) text += ' ' + words[next];
  text = printable(text);
  constexpr std::size_t kLongest = 80;
  return text.size() > kLongest ? text.substr(0, kLongest - 3) + "..." : text;
}

std::string command_of(int pid) {
  return command_text(topology::read_small_file(fmt::format("/proc/{}/cmdline", pid)).value_or(""));
}

int process_with_ranks(int pid) {
  std::vector<int> family{pid};
  for (std::size_t i = 0; i < family.size(); ++i) {
    const auto paths = shm::segments_of(family[i]);
    if (paths.ok() && !paths->empty()) return family[i];
    std::istringstream children(
        topology::read_small_file(fmt::format("/proc/{0}/task/{0}/children", family[i]))
            .value_or(""));
    for (int child = 0; children >> child;) family.push_back(child);
  }
  for (const int one : family)
    if (has_status_socket(one)) return one;  // its ranks are joining
  return pid;
}

Result<std::vector<CommunicatorView>> inspect_process(int pid) {
  if (pid < 1) return fail(StatusCode::kInvalidArgument, "{} is not a process id", pid);
  RONDO_TRY(const std::vector<std::string> paths, shm::segments_of(pid));
  std::vector<CommunicatorView> views;
  for (const std::string& path : paths) {
    auto segment = shm::SegmentView::open(path);
    if (segment.ok()) {
      views.push_back(view_of(*segment));
    } else if (segment.code() == StatusCode::kInvalidUsage) {
      return segment.error();  // another build
    }                          // else it has just been closed
  }
  if (views.empty())
    return fail(StatusCode::kInvalidUsage,
                "process {} ({}) has no Rondo communicator: it does not use Rondo, or is between "
                "two communicators",
                pid, command_of(pid));
  return views;
}

namespace {

// The communicators of the process, and those of the processes that share one with it.
JobView view_of_host(int pid) {
  JobView view;
  std::vector<int> processes{pid};
  for (std::size_t i = 0; i < processes.size(); ++i) {
    auto communicators = inspect_process(processes[i]);
    if (!communicators.ok()) continue;  // it has ended
    JobView one;
    for (CommunicatorView& communicator : *communicators) {
      if (communicator.hash == 0) continue;  // no rank has made a call
      for (const RankView& rank : communicator.ranks)
        if (rank.pid != 0 &&
            std::find(processes.begin(), processes.end(), rank.pid) == processes.end())
          processes.push_back(rank.pid);
      one.communicators.push_back(std::move(communicator));
    }
    view.merge(std::move(one));
  }
  return view;
}

}  // namespace

std::vector<trace::Culprit> culprits_on_host(int pid) {
  JobView view = view_of_host(pid);
  find_awaited(&view);
  std::vector<trace::Culprit> culprits;
  for (const Blame& blame : diagnose(view))
    if (blame.seconds > 0 && blame.rank >= 0)
      culprits.push_back({view.communicators[blame.communicator].hash, blame.rank, blame.seconds,
                          blame.kind == Blame::kElsewhere});
  return culprits;
}

}  // namespace rondo
