#include "transport/launch/launch.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>

#include "base/bytes.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/launch/id_board.h"
#include "transport/socket/address.h"

namespace rondo::launch {
namespace {

using bootstrap::Secret;
using bootstrap::UniqueId;

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string_view() : text;
}

// The name of this job: equal on its ranks, different from other jobs. Not secret.
Secret job_name(const Seat& seat) {
  ByteWriter name;
  bool found = false;
  for (const char* each :
       {"RONDO_JOB", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE",
        "PMI_JOBID", "PMI_FD_KVS", "TORCHELASTIC_RESTART_COUNT", "OMPI_MCA_ess_base_jobid",
        "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    found = found || std::getenv(each) != nullptr;
    name.put_string(variable(each));
  }
  if (!found) name.put<std::uint32_t>(static_cast<std::uint32_t>(getppid()));
  name.put<std::uint32_t>(static_cast<std::uint32_t>(seat.size));
  name.put<std::uint32_t>(seat.round);
  return Secret().derive("launch", name.written());
}

Result<UniqueId> id_at_master(const Secret& job) {
  const std::string host(variable("MASTER_ADDR"));
  const std::string_view digits = variable("MASTER_PORT");
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || error != std::errc() || end != digits.data() + digits.size() || port == 0)
    return fail(StatusCode::kInvalidUsage,
                "ranks on several hosts need MASTER_ADDR and MASTER_PORT (a free port of rank 0's "
                "host) in their environment");
  // The launcher's own store uses the port.
  if (variable("TORCHELASTIC_USE_AGENT_STORE") == "True") ++port;
  bootstrap::IdContents contents;
  contents.served_by_rank_zero = true;
  contents.port = port;
  contents.secret = job.bytes();
  auto addresses = net::resolve({host, port}, AF_UNSPEC);
  if (!addresses.ok())
    return fail(StatusCode::kInvalidArgument, "MASTER_ADDR='{}': {}", host, addresses.error().text);
  contents.addresses = std::move(*addresses);
  bootstrap::warn_without_job_secret(
      "ranks meet at MASTER_ADDR:MASTER_PORT",
      "any process that reaches that port and knows the launcher's variables");
  return bootstrap::encode_id(contents);
}

}  // namespace

bool on_one_host(const Seat& seat) {
  if (seat.local_size > 0) return seat.local_size == seat.size;
  if (std::getenv("SLURM_NNODES") != nullptr) return variable("SLURM_NNODES") == "1";
  return std::getenv("MASTER_ADDR") == nullptr;
}

Result<std::unique_ptr<bootstrap::Session>> meet_launched(const Seat& seat,
                                                          std::chrono::nanoseconds timeout) {
  const auto deadline = net::Clock::now() + timeout;
  bootstrap::JoinRequest join{.rank = seat.rank, .size = seat.size, .timeout = timeout};
  if (seat.size == 1) return bootstrap::Session::join(join);
  const Secret job = job_name(seat);
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

}  // namespace rondo::launch
