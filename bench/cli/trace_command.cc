// SPDX-License-Identifier: Apache-2.0
// rondo trace: reads the newest calls of all ranks of a job on this host, or of the files that a
// job wrote into RONDO_TRACE, and prints which ranks came late; or writes a trace for a viewer.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "base/json.h"
#include "base/printable.h"
#include "base/text_file.h"
#include "bench/cli/commands.h"
#include "bench/command_line.h"
#include "collectives/status/inspect.h"
#include "collectives/trace/call_skew.h"
#include "collectives/trace/flight_record.h"
#include "collectives/trace/trace_file.h"

namespace rondo::cli {
namespace {

struct TraceOptions {
  std::string what, chrome, torch, folder;
  bool json = false;
  int lines = 5;
};

bool is_pid(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

Result<std::vector<trace::RankTrace>> find_traces(const std::string& what) {
  if (!is_pid(what)) return trace::read_traces(what);
  return trace::traces_of_process(process_with_ranks(std::atoi(what.c_str())));
}

Json json_of(const trace::TracedComm& comm) {
  Json calls = Json::array();
  for (const trace::CallSkew& skew : trace::skews_of(comm)) {
    Json row{{"call", skew.sequence},
             {"text", to_string(skew.call)},
             {"entered", skew.entered},
             {"not_ended", skew.open},
             {"last_rank", skew.late_rank},
             {"late_us", static_cast<double>(skew.late_ns) / 1e3},
             {"moving_us",
              skew.moving_ns < 0 ? Json(nullptr) : Json(static_cast<double>(skew.moving_ns) / 1e3)},
             {"mismatch", skew.mismatch}};
    calls.push_back(std::move(row));
  }
  Json ranks = Json::array();
  for (const trace::RankTrace& rank : comm.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"pid", rank.pid},
                     {"host", rank.host},
                     {"state", rank.state},
                     {"entered_call", rank.entered},
                     {"waits_for", rank.waits_for},
                     {"fault", rank.fault},
                     {"calls", rank.calls.size()}});
  return {{"id", fmt::format("0x{:x}", comm.first().communicator)},
          {"name", comm.first().name},
          {"size", comm.first().size},
          {"clock_error_us", static_cast<double>(comm.clock_error_ns()) / 1e3},
          {"ranks", std::move(ranks)},
          {"calls", std::move(calls)}};
}

Status write_files(const TraceOptions& options, const std::vector<trace::TracedComm>& comms) {
  std::FILE* const to = options.json ? stderr : stdout;
  if (!options.chrome.empty()) {
    RONDO_CHECK_OK(write_output(options.chrome, trace::chrome_trace(comms).text(0) + '\n'));
    fmt::print(to, "{}: open it in ui.perfetto.dev or chrome://tracing\n", options.chrome);
  }
  if (!options.torch.empty()) {
    RONDO_TRY(const int ranks, trace::write_flight_records(options.torch, comms));
    fmt::print(to, "{0}/rondo_*: {1}; read them with: torchfrtrace {0} -p rondo_\n", options.torch,
               counted(ranks, "rank"));
  }
  if (options.folder.empty()) return ok_status();
  for (const trace::TracedComm& comm : comms)
    for (const trace::RankTrace& rank : comm.ranks)
      RONDO_CHECK_OK(trace::write_trace(options.folder, rank, "asked"));
  return ok_status();
}

}  // namespace

int trace_command(int argc, char** argv) {
  TraceOptions options;
  CommandLine line(
      "Shows the newest 4096 calls of each rank of a job: which rank came late to which call, how "
      "long moving the data took, and which call has not ended. Reads the ranks of this host while "
      "they live, or the files of a job with RONDO_TRACE=DIR, also of several hosts.",
      argc, argv, kUsageError);
  line.option("what", options.what, "a process of the job, or a folder of traces").required();
  line.option("--chrome", options.chrome, "write a trace for Perfetto or chrome://tracing");
  line.option("--torch", options.torch, "write dumps of PyTorch's flight recorder to this folder");
  line.option("--files", options.folder, "write a file per rank to this folder, as RONDO_TRACE");
  line.option("-n,--lines", options.lines, "late calls to show").within(0, 4096).show_default();
  line.flag("--json", options.json, "print all calls as JSON");
  if (const auto ended = line.parse()) return *ended;
  auto traces = find_traces(options.what);
  if (!traces.ok()) {
    fmt::print(stderr, "{}: {}\n", argv[0], traces.error().text);
    return 1;
  }
  const std::vector<trace::TracedComm> comms = trace::comms_of(std::move(*traces));
  if (const Status written = write_files(options, comms); !written.ok()) {
    fmt::print(stderr, "{}: {}\n", argv[0], written.error().text);
    return 1;
  }
  if (options.json) {
    Json communicators = Json::array();
    for (const trace::TracedComm& comm : comms) communicators.push_back(json_of(comm));
    fmt::print("{}\n", Json{{"communicators", std::move(communicators)}}.text(2));
    return 0;
  }
  if (!options.chrome.empty() || !options.torch.empty() || !options.folder.empty()) return 0;
  for (const trace::TracedComm& comm : comms)
    fmt::print("{}", trace::summary_of(comm, options.lines));
  return 0;
}

}  // namespace rondo::cli
