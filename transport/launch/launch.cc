// SPDX-License-Identifier: Apache-2.0
#include "transport/launch/launch.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/text_file.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/launch/id_board.h"
#include "transport/socket/address.h"

namespace rondo::launch {
namespace {

using bootstrap::Secret;
using bootstrap::UniqueId;

// The name of this meeting of the job's ranks.
Secret meeting_name(const Seat& seat) {
  ByteWriter name;
  name.put_bytes(name_of_job());
  name.put<std::uint32_t>(static_cast<std::uint32_t>(seat.size));
  name.put<std::uint32_t>(seat.round);
  return Secret().derive("launch", name.written());
}

Result<UniqueId> id_at_master(const Secret& job) {
  RONDO_TRY(Master master, master_of_job());
  if (master.host.empty() || master.port == 0)
    return fail(StatusCode::kInvalidUsage,
                "ranks on several hosts need MASTER_ADDR and MASTER_PORT (a free port of rank 0's "
                "host) in their environment");
  const char* const store = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (store != nullptr && std::string_view(store) == "True") ++master.port;  // torchrun's own store
  bootstrap::IdContents contents;
  contents.served_by_rank_zero = true;
  contents.port = master.port;
  contents.secret = job.bytes();
  auto addresses = net::resolve({master.host, master.port}, AF_UNSPEC);
  if (!addresses.ok())
    return fail(StatusCode::kInvalidArgument, "MASTER_ADDR='{}': {}", master.host,
                addresses.error().text);
  contents.addresses = std::move(*addresses);
  bootstrap::warn_without_job_secret(
      "ranks meet at MASTER_ADDR:MASTER_PORT",
      "any process that reaches that port and knows the launcher's variables");
  return bootstrap::encode_id(contents);
}

}  // namespace

bool on_one_host(const Seat& seat) {
  if (seat.local_size > 0) return seat.local_size == seat.size;
  return std::getenv("MASTER_ADDR") == nullptr;
}

Result<std::unique_ptr<bootstrap::Session>> meet_launched(const Seat& seat,
                                                          std::chrono::nanoseconds timeout) {
  const auto deadline = net::Clock::now() + timeout;
  bootstrap::JoinRequest join{.rank = seat.rank, .size = seat.size, .timeout = timeout};
  if (seat.size == 1) return bootstrap::Session::join(join);
  const Secret job = meeting_name(seat);
  if (!on_one_host(seat)) {
    RONDO_TRY(join.id, id_at_master(job));
    return bootstrap::Session::join(join);
  }
  RONDO_TRY(const Secret board, bootstrap::session_secret(job.derive("on one host")));
  std::unique_ptr<IdBoard> shown;  // lives until all have joined
  if (seat.rank == 0) {
    RONDO_TRY(join.id, bootstrap::make_unique_id(Secret::random()));
    RONDO_TRY(shown, IdBoard::show(board, join.id));
  } else {
    auto id = read_board(board, {deadline, {}});
    if (!id.ok())
      return fail(id.code(), "rank {} of {}: {}", seat.rank, seat.size, id.error().text);
    join.id = *id;
    join.timeout = deadline - net::Clock::now();
  }
  return bootstrap::Session::join(join);
}

namespace {

constexpr int kMaxRanks = 1 << 24;

struct Launcher {
  const char *rank, *size, *local_rank, *local_size;
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
};
// Together they identify a job.
constexpr const char* kJobs[] = {"RONDO_JOB",      "MASTER_ADDR",
                                 "MASTER_PORT",    "TORCHELASTIC_RUN_ID",
                                 "PMIX_NAMESPACE", "PMI_JOBID",
                                 "PMI_FD_KVS",     "TORCHELASTIC_RESTART_COUNT",
                                 "SLURM_JOB_ID",   "OMPI_MCA_ess_base_jobid",
                                 "SLURM_STEP_ID"};
constexpr std::string_view kParents[] = {"hydra", "mpiexec", "mpirun",
                                         "orted", "prted",   "slurmstepd"};

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string_view() : text;
}

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return whole && value >= 0 && value < kMaxRanks ? std::optional(value) : std::nullopt;
}

// The item of this host in Slurm's list of tasks per node: "4" (all nodes) or "2(x3),1".
std::optional<int> tasks_here(std::string_view list) {
  int node = number_in(variable("SLURM_NODEID")).value_or(0);
  while (!list.empty()) {
    std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    int times = 1;
    if (const auto open = item.find("(x"); open != item.npos && item.ends_with(')')) {
      times = number_in(item.substr(open + 2, item.size() - open - 3)).value_or(1);
      item = item.substr(0, open);
    }
    if (node < times) return number_in(item);
    node -= times;
  }
  return std::nullopt;
}

// The first host of Slurm's list: "node[03-05,7],other" gives node03.
std::string first_host(std::string_view list) {
  std::string host;
  bool in_range = false, skips = false;
  for (const char c : list) {
    if (c == ',' && !in_range) break;
    if (c == '[') {
      in_range = true;
    } else if (c == ']') {
      in_range = skips = false;
    } else if (in_range && (c == '-' || c == ',')) {
      skips = true;
    } else if (!skips) {
      host += c;
    }
  }
  return host;
}

// The process that started the ranks of this host, also if each has a shell around it.
pid_t launcher_process() {
  pid_t pid = getppid();
  while (pid > 1) {
    const auto stat = read_start_of_file("process", fmt::format("/proc/{}/stat", pid), 4096);
    if (!stat.ok()) break;
    const std::string_view text = *stat;
    // "pid (name) state parent ...": names may contain blanks and brackets
    const auto open = text.find('('), close = text.rfind(')');
    if (open == text.npos || close == text.npos || close + 4 >= text.size()) break;
    const std::string_view name = text.substr(open + 1, close - open - 1);
    if (std::any_of(std::begin(kParents), std::end(kParents),
                    [&](std::string_view one) { return name.starts_with(one); }))
      return pid;
    pid = std::atoi(stat->c_str() + close + 4);
  }
  return getppid();
}

}  // namespace

Result<Launched> read_launcher() {
  std::optional<Launched> found;
  for (const Launcher& one : kLaunchers) {
    if (std::getenv(one.rank) == nullptr || std::getenv(one.size) == nullptr) continue;
    const int rank = number_in(variable(one.rank)).value_or(-1);
    const int size = number_in(variable(one.size)).value_or(-1);
    if (!found && (rank < 0 || rank >= size))
      return fail(StatusCode::kInvalidUsage,
                  "{}='{}' and {}='{}' are not a rank and a number of ranks above it", one.rank,
                  variable(one.rank), one.size, variable(one.size));
    if (!found) found = Launched{rank, size, -1, -1, one.rank};
    if (found->rank != rank || found->size != size) continue;
    const std::string_view here = variable(one.local_size);
    const bool of_slurm = std::string_view(one.local_size) == "SLURM_STEP_TASKS_PER_NODE";
    if (found->local_rank < 0) found->local_rank = number_in(variable(one.local_rank)).value_or(-1);
    if (found->local_size < 0)
      found->local_size = (of_slurm ? tasks_here(here) : number_in(here)).value_or(-1);
  }
  return found.value_or(Launched{});
}

Result<Master> master_of_job() {
  Master master{.host = std::string(variable("MASTER_ADDR"))};
  const std::string_view hosts = variable("SLURM_STEP_NODELIST");
  if (master.host.empty()) master.host = first_host(hosts);
  if (const std::string_view text = variable("MASTER_PORT"); !text.empty()) {
    const int port = number_in(text).value_or(0);
    if (port < 1 || port > 65535)
      return fail(StatusCode::kInvalidUsage, "MASTER_PORT='{}' is not a port from 1 to 65535",
                  text);
    master.port = static_cast<std::uint16_t>(port);
  } else if (!hosts.empty()) {
    const auto id = [](const char* name) {
      return static_cast<std::uint32_t>(
          std::strtoul(std::string(variable(name)).c_str(), nullptr, 10));
    };
    master.port =
        static_cast<std::uint16_t>(20000 + (31 * id("SLURM_JOB_ID") + id("SLURM_STEP_ID")) % 10000);
  }
  return master;
}

Bytes name_of_job() {
  ByteWriter name;
  bool found = false;
  for (const char* each : kJobs) {
    found = found || std::getenv(each) != nullptr;
    name.put_string(variable(each));
  }
  if (!found) name.put<std::uint32_t>(static_cast<std::uint32_t>(launcher_process()));
  return name.take();
}

}  // namespace rondo::launch
