// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/ask_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "base/json.h"
#include "bench/other_program.h"
#include "bench/runner/job.h"
#include "collectives/status/ask.h"
#include "collectives/status/watched_ranks.h"

namespace rondo::cli {
namespace {

// For a shell.
std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return all + '\'';
}

// The same program there, else the one in PATH.
std::string remote_command() {
  const std::string program = runner::own_program();
  const char* const folder = std::getenv("RONDO_STATUS_DIR");
  return fmt::format("p={}; [ -x \"$p\" ] || p=rondo; {}exec \"$p\" ps --views", quoted(program),
                     folder == nullptr || *folder == '\0'
                         ? ""
                         : fmt::format("RONDO_STATUS_DIR={} ", quoted(folder)));
}

Result<std::string> ask(const std::string& host, const NamedHosts& named,
                        const std::string& command) {
  std::istringstream text(named.agent);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  words.insert(words.end(), {host, command});
  OtherProgram program{.argv = {}, .seconds = NamedHosts::kSeconds};
  for (const std::string& word : words) program.argv.push_back(word.c_str());
  RONDO_TRY(ProgramResult result, run_other_program(program, ""));
  switch (result.end) {
    case ProgramResult::kDone:
      return std::move(result.output);
    case ProgramResult::kMissing:
      return fail(StatusCode::kSystemError, "there is no program {}", words.front());
    case ProgramResult::kLate:
      return fail(StatusCode::kTimeout, "no answer within {:g} s", NamedHosts::kSeconds);
    case ProgramResult::kFailed:
      break;
  }
  std::string why = result.errors.substr(0, result.errors.find_last_not_of('\n') + 1);
  std::replace(why.begin(), why.end(), '\n', ' ');
  return fail(StatusCode::kRemoteError, "{}", why.empty() ? "it failed" : why);
}

Result<std::vector<JobView>> views_in(const std::string& text) {
  std::vector<JobView> views;
  try {
    const Json answer = Json::parse(text);
    for (const Json& one : answer.at("views").elements()) {
      RONDO_TRY(JobView view, JobView::from_json(one.text(-1)));
      views.push_back(std::move(view));
    }
  } catch (const JsonError& error) {
    return fail(StatusCode::kRemoteError, "an answer that is no status: {}", error.what());
  }
  return views;
}

}  // namespace

Status add_hosts(const NamedHosts& named, JobView* view) {
  for (const std::string& host : named.hosts)
    if (host.empty() || host[0] == '-')
      return fail(StatusCode::kInvalidArgument, "'{}' is no name of a host", host);
  const std::string asks = remote_command();
  std::vector<Result<std::string>> answers(named.hosts.size(),
                                           Error{StatusCode::kTimeout, "not asked"});
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < answers.size(); ++i)
      threads.emplace_back([&, i] { answers[i] = ask(named.hosts[i], named, asks); });
  }
  std::set<std::uint64_t> hashes;
  for (const CommunicatorView& communicator : view->communicators) hashes.insert(communicator.hash);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    auto views =
        answers[i].ok() ? views_in(*answers[i]) : Result<std::vector<JobView>>(answers[i].error());
    if (!views.ok())
      view->silent.push_back(fmt::format("{} ({})", named.hosts[i], views.error().text));
    if (!views.ok()) continue;
    for (JobView& other : *views)
      if (std::any_of(other.communicators.begin(), other.communicators.end(),
                      [&](const CommunicatorView& one) { return hashes.contains(one.hash); }))
        view->merge(std::move(other));
  }
  find_awaited(view);
  return ok_status();
}

Result<std::string> jobs_text() {
  RONDO_TRY(const std::vector<ListedJob> jobs, list_jobs());
  Json views = Json::array();
  for (const ListedJob& job : jobs) views.push_back(job.view.to_json());
  return Json{{"views", std::move(views)}}.text(-1) + '\n';
}

}  // namespace rondo::cli
