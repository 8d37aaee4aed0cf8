// SPDX-License-Identifier: Apache-2.0
// rondoLaunch*: the ranks of a launcher exchange bytes before they have a communicator.
#include <mutex>
#include <vector>

#include "api/arguments.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/handles.h"
#include "api/rondo.h"
#include "base/seconds.h"
#include "transport/launch/launch.h"

using namespace rondo;
using namespace rondo::api;

namespace {

struct Launch {
  std::unique_ptr<bootstrap::Session> session;
  std::mutex mutex;
  std::vector<std::byte> all;
};

// Never destroyed: a program may exit without rondoLaunchLeave.
HandleTable<Launch>& launches() {
  static auto& table = *new HandleTable<Launch>(HandleKind::kLaunch);
  return table;
}

Status read(rondoLaunched_t* launched) {
  RONDO_CHECK_OK(not_null(launched, "LaunchRead", "launched"));
  if (launched->bytes != sizeof(rondoLaunched_t))
    return fail(StatusCode::kInvalidArgument,
                "LaunchRead : bytes is {}, not {}: set it to sizeof(rondoLaunched_t)",
                launched->bytes, sizeof(rondoLaunched_t));
  RONDO_TRY(const launch::Launched by, launch::read_launcher());
  RONDO_TRY(const launch::Master master, launch::master_of_job());
  *launched = {sizeof(rondoLaunched_t), by.rank,     by.size, by.local_rank,
               by.local_size,           master.port, {},      by.source};
  if (master.host.size() < sizeof(launched->masterAddr))
    master.host.copy(launched->masterAddr, master.host.size());
  return ok_status();
}

Status meet(rondoLaunch_t* launch, const launch::Seat& seat, double seconds) {
  RONDO_CHECK_OK(not_null(launch, "LaunchMeet", "launch"));
  RONDO_CHECK_OK(rank_in_range(seat.rank, seat.size));
  RONDO_CHECK_OK(seconds_above_zero(seconds, "LaunchMeet", "seconds"));
  auto made = std::make_unique<Launch>();
  RONDO_TRY(made->session, launch::meet_launched(seat, to_nanoseconds(seconds)));
  *launch = static_cast<rondoLaunch_t>(launches().insert(std::move(made)));
  if (*launch != nullptr) return ok_status();
  return fail(StatusCode::kInvalidUsage, "LaunchMeet : too many launches are alive");
}

Status exchange(rondoLaunch_t handle, std::span<const std::byte> mine, const void** all,
                std::size_t* sizes, double seconds) {
  constexpr const char* kFunction = "LaunchExchange";
  if (!mine.empty()) RONDO_CHECK_OK(not_null(mine.data(), kFunction, "mine"));
  RONDO_CHECK_OK(not_null(all, kFunction, "all"));
  RONDO_CHECK_OK(not_null(sizes, kFunction, "sizes"));
  RONDO_CHECK_OK(seconds_above_zero(seconds, kFunction, "seconds"));
  const auto launch = launches().pin(handle);
  if (launch.state != HandleState::kAlive)
    return fail(StatusCode::kInvalidArgument, "{} : no launch of rondoLaunchMeet in this process",
                kFunction);
  std::lock_guard lock(launch.pin->mutex);
  launch.pin->session->set_timeout(to_nanoseconds(seconds));
  RONDO_TRY(const auto parts, launch.pin->session->all_gather(mine));
  std::vector<std::byte>& joined = launch.pin->all;
  joined.clear();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    sizes[rank] = parts[rank].size();
    joined.insert(joined.end(), parts[rank].begin(), parts[rank].end());
  }
  *all = joined.data();
  return ok_status();
}

}  // namespace

RONDO_FUNCTION(ncclResult_t, rondoLaunchRead, rondoLaunched_t* launched) {
  return report(read(launched));
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoLaunchMeet, rondoLaunch_t* launch, int rank, int size,
               int localSize, unsigned round, double seconds) {
  return report(meet(launch, {rank, size, localSize, round}, seconds));
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoLaunchExchange, rondoLaunch_t launch, const void* mine,
               size_t bytes, const void** all, size_t* sizes, double seconds) {
  return report(
      exchange(launch, {static_cast<const std::byte*>(mine), bytes}, all, sizes, seconds));
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoLaunchLeave, rondoLaunch_t launch) {
  HandleState state;
  if (launches().remove(launch, &state)) return ncclSuccess;
  return report(fail(StatusCode::kInvalidArgument,
                     "LaunchLeave : no launch of rondoLaunchMeet in this process"));
}
RONDO_CATCH
