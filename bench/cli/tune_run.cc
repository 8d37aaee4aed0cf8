// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/tune_run.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/printable.h"
#include "bench/runner/job.h"
#include "topology/small_file.h"

namespace rondo::cli {
namespace {

// Sets variables of this process, which the ranks inherit, for the duration of a run.
class InheritedVariables {
 public:
  InheritedVariables() = default;
  ~InheritedVariables() {
    for (auto one = before_.rbegin(); one != before_.rend(); ++one) {
      if (one->value) {
        setenv(one->name, one->value->c_str(), 1);
      } else {
        unsetenv(one->name);
      }
    }
  }
  InheritedVariables(const InheritedVariables&) = delete;
  InheritedVariables& operator=(const InheritedVariables&) = delete;

  void set(const char* name, const std::string& value) {
    const char* const before = getenv(name);
    before_.push_back(
        {name, before != nullptr ? std::optional<std::string>(before) : std::nullopt});
    setenv(name, value.c_str(), 1);
  }

 private:
  struct Before {
    const char* name;
    std::optional<std::string> value;
  };
  std::vector<Before> before_;
};

void set_for(const TuneRun& run, InheritedVariables* variables) {
  std::string function = run.collective;  // its name in NCCL_ALGO
  function.erase(std::remove(function.begin(), function.end(), '_'), function.end());
  variables->set("NCCL_ALGO", function + ":" + run.algorithm);
  variables->set("NCCL_PROTO", run.protocol);
  variables->set("RONDO_TUNE_FILE", "");
  variables->set("RONDO_CMA", std::to_string(run.cma));
  variables->set("NCCL_DEBUG", "NONE");
  if (run.devices == 0) variables->set("RONDO_DEVICE", "host");
  if (run.meeting.empty()) variables->set("NCCL_NET", "Socket");
  if (run.ctas == 0) return;
  variables->set("NCCL_MIN_CTAS", std::to_string(run.ctas));
  variables->set("NCCL_MAX_CTAS", std::to_string(run.ctas));
}

// A temporary folder for the file that the ranks write.
class Scratch {
 public:
  Scratch() : made_(mkdtemp(folder_) != nullptr) {}
  ~Scratch() {
    if (!made_) return;
    unlink(file().c_str());
    rmdir(folder_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool made() const { return made_; }
  std::string file() const { return std::string(folder_) + "/calls"; }

 private:
  char folder_[32] = "/tmp/rondo-tune-XXXXXX";
  bool made_;
};

// Parses a rank's line "bytes count us predicted".
std::optional<MeasuredCall> call_of_line(std::string_view line, const TuneRun& run) {
  MeasuredCall call{run};
  const auto read = [&](auto* number) {
    const std::string_view text = topology::take_until(line, ' ');
    return std::from_chars(text.data(), text.data() + text.size(), *number).ec == std::errc();
  };
  if (!read(&call.bytes) || !read(&call.count) || !read(&call.us) || !read(&call.prior_us) ||
      call.us <= 0)
    return std::nullopt;
  return call;
}

}  // namespace

std::string TuneRun::name() const {
  return fmt::format("{} by {}{}{} on {} of {}{}", collective, algorithm,
                     protocol.empty() ? "" : ":", protocol, counted(ranks, "rank"),
                     counted(hosts, "host"), devices == 0 ? "" : " on " + counted(devices, "GPU"));
}

Result<std::vector<MeasuredCall>> measure_run(const TuneRun& run, const TuneSizes& sizes) {
  const Scratch scratch;
  if (!scratch.made())
    return fail(StatusCode::kSystemError, "cannot create a folder in /tmp: {}", strerror(errno));
  InheritedVariables variables;
  set_for(run, &variables);
  std::string words = run.meeting;
  if (run.hosts > 1 && run.meeting.empty())
    words = fmt::format("NCCL_HOSTID=tune$((RANK * {} / {})) ", run.hosts, run.ranks);
  runner::JobOptions job;
  job.ranks = run.processes_here();
  job.passthrough = true;
  job.argv = {"sh", "-c",
              fmt::format("{}exec '{}' tune --rank {} --lanes {} --devices {} --max {} --min-time "
                          "{} '{}'",
                          words, runner::own_program(), run.collective, run.lanes, run.devices,
                          sizes.max_bytes, sizes.seconds, scratch.file())};
  if (const int status = runner::run_job(job); status != 0)
    return fail(StatusCode::kSystemError, "measuring {} ended with status {}", run.name(), status);
  const auto text = topology::read_small_file(scratch.file());
  if (!text)
    return fail(StatusCode::kSystemError, "the measured job wrote nothing to '{}'", scratch.file());
  std::vector<MeasuredCall> calls;
  topology::for_each_line(*text, [&](std::string_view line) {
    if (auto call = call_of_line(line, run)) calls.push_back(std::move(*call));
    return true;
  });
  return calls;
}

}  // namespace rondo::cli
