// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/ask.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "collectives/status/inspect.h"
#include "collectives/status/watched_ranks.h"
#include "transport/status/question.h"
#include "transport/status/user_folder.h"

namespace rondo {
namespace {

using status::Question;
using status::SocketName;
using status::UserFolder;

constexpr std::chrono::seconds kListLimit{1}, kHostLimit{3}, kJobLimit{8};

Result<JobView> ask_socket(const std::string& path, const char* line, std::chrono::seconds limit) {
  std::vector<Question> questions;
  questions.push_back(Question::to_socket(path, line, net::Clock::now() + limit));
  await_answers(questions);
  if (!questions[0].answer().ok()) return questions[0].answer().error();
  return JobView::from_json(*questions[0].answer());
}

bool has_common_ranks(const JobView& a, const JobView& b) {
  const std::string& job = a.processes.empty() ? "" : a.processes.front().job;
  if (!job.empty() && !b.processes.empty() && b.processes.front().job == job) return true;
  std::set<std::uint64_t> hashes;
  for (const CommunicatorView& communicator : a.communicators) hashes.insert(communicator.hash);
  return std::any_of(b.communicators.begin(), b.communicators.end(),
                     [&](const CommunicatorView& one) { return hashes.count(one.hash) > 0; });
}

bool has_pid(const JobView& view, int pid) {
  for (const CommunicatorView& communicator : view.communicators)
    for (const RankView& rank : communicator.ranks)
      if (rank.pid == pid) return true;
  return false;
}

// Joins the jobs that the view connects, and adds it.
void add_to_jobs(JobView view, std::vector<ListedJob>* jobs) {
  ListedJob joined;
  for (ListedJob& job : *jobs) {
    if (!has_common_ranks(job.view, view)) continue;
    joined.view.merge(std::move(job.view));
    job.view = JobView();
  }
  std::erase_if(*jobs, [](const ListedJob& job) { return job.view.processes.empty(); });
  joined.view.merge(std::move(view));
  jobs->push_back(std::move(joined));
}

// Each rank of a watched communicator has a memory file of its own.
JobView joined(std::vector<CommunicatorView> communicators) {
  JobView all;
  for (CommunicatorView& communicator : communicators) {
    JobView one;
    one.communicators.push_back(std::move(communicator));
    all.merge(std::move(one));
  }
  return all;
}

// The job of a process that gave no answer, by what the others say or by its shared memory.
ListedJob& job_of(int pid, std::vector<ListedJob>* jobs) {
  const auto known = std::find_if(jobs->begin(), jobs->end(),
                                  [&](const ListedJob& job) { return has_pid(job.view, pid); });
  if (known != jobs->end()) return *known;
  ListedJob& job = jobs->emplace_back();
  auto communicators = inspect_process(pid);
  if (communicators.ok()) job.view = joined(std::move(*communicators));
  return job;
}

}  // namespace

Result<JobView> ask_process(int pid, bool all_hosts) {
  // Root finds the sockets of other users' processes too.
  if (const auto folder = UserFolder::find(owner_of_process(pid)); pid > 0 && folder.ok()) {
    for (const SocketName& name : folder->sockets()) {
      if (name.pid != pid) continue;
      auto view = ask_socket(folder->path_of(name), all_hosts ? "VIEW JOB" : "VIEW HOST",
                             all_hosts ? kJobLimit : kHostLimit);
      if (view.ok() && !view->communicators.empty()) return view;
    }
  }
  RONDO_TRY(std::vector<CommunicatorView> communicators, inspect_process(pid));
  JobView view = joined(std::move(communicators));
  view.processes.push_back({.pid = pid, .host = "", .command = command_of(pid), .job = ""});
  find_awaited(&view);
  return view;
}

Result<std::vector<ListedJob>> list_jobs() {
  std::vector<ListedJob> jobs;
  const auto folder = UserFolder::find(geteuid());
  if (folder.code() == StatusCode::kInvalidArgument) return jobs;
  if (!folder.ok()) return folder.error();
  folder->sweep(std::size_t{1} << 20);
  const std::vector<SocketName> names = folder->sockets();
  std::vector<Question> questions;
  for (const SocketName& name : names)
    questions.push_back(
        Question::to_socket(folder->path_of(name), "VIEW OWN", net::Clock::now() + kListLimit));
  await_answers(questions);
  std::vector<int> silent, foreign;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Result<std::string>& answer = questions[i].answer();
    if (!answer.ok()) {  // of other errors, the process has ended
      if (answer.code() == StatusCode::kTimeout) silent.push_back(names[i].pid);
      continue;
    }
    auto view = JobView::from_json(*answer);
    if (!view.ok()) foreign.push_back(names[i].pid);
    if (view.ok() && !view->communicators.empty()) add_to_jobs(std::move(*view), &jobs);
  }
  for (const int pid : silent) job_of(pid, &jobs).silent.push_back(pid);
  for (const int pid : foreign) job_of(pid, &jobs).foreign.push_back(pid);
  for (ListedJob& job : jobs) find_awaited(&job.view);
  return jobs;
}

}  // namespace rondo
