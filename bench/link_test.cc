// SPDX-License-Identifier: Apache-2.0
#include "bench/link_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "bench/placement.h"
#include "bench/results.h"

namespace rondo::bench {
namespace {

constexpr int kMessages = 8;  // the first is not timed

double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

// What one end has found; the promise is the smaller one of both ends.
std::string packed_link(const LinkRate& link, const std::string& error) {
  ByteWriter writer;
  writer.put_string(error);
  writer.put(link.gbs);
  writer.put(link.promised_gbs);
  writer.put(static_cast<std::uint8_t>(link.by_ports));
  writer.put(link.wrong);
  writer.put_string(link.example);
  const std::vector<std::byte> bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<LinkRate> unpacked_link(const std::string& bytes, int end) {
  ByteReader reader(std::as_bytes(std::span(bytes)));
  if (const std::string error = reader.get_string(); !error.empty())
    return fail(StatusCode::kRemoteError, "{}", error);
  LinkRate link;
  link.gbs = reader.get<double>();
  link.promised_gbs = reader.get<double>();
  link.by_ports = reader.get<std::uint8_t>() != 0;
  link.wrong = reader.get<std::uint64_t>();
  link.example = reader.get_string();
  if (!reader.finished())
    return fail(StatusCode::kRemoteError, "rank {} sent no result of a link", end);
  if (link.wrong > 0) link.example = fmt::format("rank {}: {}", end, link.example);
  return link;
}

Status exchange(Lane& lane, const Options& options, std::size_t bytes, LinkRate* link) {
  const Test test{Kind::kSendRecv, ncclFloat32, Op::kNone, 0, false};
  RONDO_CHECK_OK(lane.allocate(options, bytes, bytes));
  RONDO_CHECK_OK(lane.begin(test, options, bytes));
  Backend& backend = lane.backend();
  double best_us = 0;
  for (int i = 0; i < kMessages; ++i) {
    const auto seed = static_cast<std::uint32_t>(i);
    RONDO_CHECK_OK(lane.prepare({ncclFloat32, Op::kNone, Values::kRandom, seed, 2}));
    ncclResult_t result = backend.barrier();
    if (result == ncclSuccess) result = backend.wait();
    const auto start = std::chrono::steady_clock::now();
    if (result == ncclSuccess) result = backend.issue(lane.call(0));
    if (result == ncclSuccess) result = backend.wait();
    if (result != ncclSuccess)
      return fail(static_cast<StatusCode>(result), "link {} - {}: {}", link->from, link->to,
                  backend.last_error());
    const double us = microseconds_since(start);
    if (i > 0 && (best_us == 0 || us < best_us)) best_us = us;
    RONDO_TRY(const std::size_t wrong, lane.wrong(false, &link->example));
    link->wrong += wrong;
  }
  const auto moved = static_cast<double>(lane.layout().bytes);
  link->gbs = gbs(moved, best_us);
  const double ports = link->across ? backend.network_gbs() : 0;
  link->by_ports = ports > 0;
  link->promised_gbs = ports > 0 ? ports : gbs(moved, backend.predicted_us(lane.call(0)));
  lane.end();
  return ok_status();
}

}  // namespace

Meetings::Meetings(BenchProcesses& team, const rondo_launch_t& launch, MakeBackend make_backend)
    : team_(team), launch_(launch), make_backend_(std::move(make_backend)) {
  options_.iterations = 3;
  options_.warmup = 1;
  options_.values = {Values::kExact, Values::kRandom, Values::kSpecial};
  options_.devices = gpu_devices();
}

Result<ncclUniqueId> Meetings::id_of(int maker) {
  std::string mine;
  ncclUniqueId id{};
  if (team_.rank() == maker) {
    const auto backend = make_backend_();
    if (const ncclResult_t made = backend->make_id(&id); made != ncclSuccess)
      return fail(static_cast<StatusCode>(made), "ncclGetUniqueId: {}", backend->last_error());
    mine.assign(id.internal, sizeof id.internal);
  }
  RONDO_TRY(const auto all, team_.all_gather(mine));
  const std::string& sent = all[static_cast<std::size_t>(maker)];
  if (sent.size() != sizeof id.internal)
    return fail(StatusCode::kInternalError, "rank {} sent no unique id", maker);
  sent.copy(id.internal, sizeof id.internal);
  return id;
}

Result<std::unique_ptr<Lane>> Meetings::join(int number, int ranks, const ncclUniqueId& id) {
  auto lane = std::make_unique<Lane>(make_backend_(), number, Split::Member{0, number, ranks});
  const Placement placement(options_, launch_, team_.size());
  JoinOptions join{.ranks = ranks, .rank = number, .id = id};
  join.device = placement.device_of(0, 0);
  if (const ncclResult_t joined = lane->backend().join(join); joined != ncclSuccess)
    return fail(static_cast<StatusCode>(joined), "rank {}: joining {} ranks: {}", team_.rank(),
                ranks, lane->backend().last_error());
  return lane;
}

Status measure_link(Meetings& meetings, std::size_t bytes, LinkRate* link) {
  RONDO_TRY(const ncclUniqueId id, meetings.id_of(link->from));
  const int rank = meetings.team().rank();
  std::string error;
  if (rank == link->from || rank == link->to) {
    const auto run = [&]() -> Status {
      RONDO_TRY(const auto lane, meetings.join(rank == link->from ? 0 : 1, 2, id));
      Status outcome = exchange(*lane, meetings.options(), bytes, link);
      outcome ? (void)lane->backend().leave() : lane->backend().abort();
      return outcome;
    };
    if (const Status outcome = run(); !outcome) error = outcome.error().text;
  }
  RONDO_TRY(const auto all, meetings.team().all_gather(packed_link(*link, error)));
  RONDO_TRY(const LinkRate one,
            unpacked_link(all[static_cast<std::size_t>(link->from)], link->from));
  RONDO_TRY(const LinkRate other, unpacked_link(all[static_cast<std::size_t>(link->to)], link->to));
  link->gbs = std::min(one.gbs, other.gbs);
  link->promised_gbs = std::min(one.promised_gbs, other.promised_gbs);
  link->by_ports = one.by_ports && other.by_ports;
  link->wrong = one.wrong + other.wrong;
  link->example = one.wrong > 0 ? one.example : other.example;
  return ok_status();
}

}  // namespace rondo::bench
