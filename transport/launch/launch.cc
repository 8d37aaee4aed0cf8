// SPDX-License-Identifier: Apache-2.0
#include "transport/launch/launch.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/launch/id_board.h"
#include "transport/launch/launcher.h"
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

}  // namespace rondo::launch
