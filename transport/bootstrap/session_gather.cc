// SPDX-License-Identifier: Apache-2.0
// all_gather over the tree: gathers all bytes at rank 0, then broadcasts them down.
#include <algorithm>
#include <cassert>

#include "transport/bootstrap/rendezvous.h"
#include "transport/bootstrap/session_state.h"

namespace rondo::bootstrap {
namespace {

// Ranks nearer to a missing rank time out earlier, so that the error names that rank.
constexpr auto kSlackPerLevel = std::chrono::milliseconds(300);

Error too_large(std::size_t bytes) {
  return fail(StatusCode::kInvalidArgument,
              "the ranks gave {} bytes to one exchange; at most {} fit", bytes, net::kMaxPayload);
}

}  // namespace

Error SessionState::fail_session(const Error& error) { return fail_session(error, error); }

Error SessionState::give_up(const Error& error) {
  return fail_session(error, fail(StatusCode::kRemoteError, "rank {} could not set up: {}",
                                  name_of(tree.rank), error.text));
}

Status SessionState::standing() {
  if (fault_) return *fault_;
  for (const auto& neighbour : neighbours) {
    const auto drained = drain(*neighbour, true);
    if (!drained.ok()) return fail_session(drained.error());
  }
  return ok_status();
}

Error SessionState::fail_session(const Error& error, const Error& for_others) {
  if (fault_) return *fault_;
  fault_ = error;
  Error reported = for_others;
  if (error.code == StatusCode::kInvalidUsage && aborted && aborted()) {
    reported = fail(StatusCode::kRemoteError, "rank {} aborted while the ranks were joining",
                    name_of(tree.rank));
  }
  for (const auto& neighbour : neighbours) {
    if (neighbour->gone) continue;
    (void)neighbour->link.send(kError, round_, encode_error(reported));
    (void)neighbour->link.flush();
  }
  return error;
}

Result<SessionState::Table> SessionState::all_gather(std::span<const std::byte> mine) {
  if (generation_ != fork_generation())
    return fail(StatusCode::kInvalidUsage, "this session belongs to the process that was forked");
  if (fault_) return *fault_;
  auto table = gather_round(mine);
  if (!table.ok()) return fail_session(table.error());
  ++round_;
  return table;
}

Result<SessionState::Table> SessionState::gather_round(std::span<const std::byte> mine) {
  if (mine.size() > net::kMaxPayload) return too_large(mine.size());
  const auto deadline = net::Deadline::of(timeout, aborted);
  ByteWriter upward;
  append_entry(upward, tree.rank, mine);
  const auto children = static_cast<std::size_t>(tree.children());
  assert(neighbours.size() == children + (tree.root() ? 0 : 1) && "children, then the parent");
  for (std::size_t i = 0; i < children; ++i) {
    Neighbour& child = *neighbours[i];
    due_ = {i, children};
    while (child.inbox.empty())
      RONDO_CHECK_OK(pump(deadline.later(kSlackPerLevel * tree.height()), true));
    RONDO_TRY(const Bytes below, take(child, kGather));
    if (upward.written().size() + below.size() > net::kMaxPayload)
      return too_large(upward.written().size() + below.size());
    upward.put_raw(below);
  }
  Bytes result = upward.take();
  if (result.size() > net::kMaxPayload) return too_large(result.size());
  if (Neighbour* up = parent()) {
    const int levels = Tree{0, tree.size}.height() + tree.depth() + 1;
    const auto longer = deadline.later(kSlackPerLevel * levels);
    due_ = {children, children + 1};
    if (!up->gone) RONDO_CHECK_OK(up->link.send(kGather, round_, result));
    while (up->inbox.empty()) RONDO_CHECK_OK(pump(longer, true));
    RONDO_TRY(result, take(*up, kResult));
  }
  // A child that gave up meanwhile would not know of this success.
  for (std::size_t i = 0; tree.root() && i < children; ++i) {
    RONDO_TRY([[maybe_unused]] const bool arrived, drain(*neighbours[i], true));
  }
  due_ = {0, children};
  for (std::size_t i = 0; i < children; ++i)
    RONDO_CHECK_OK(neighbours[i]->link.send(kResult, round_, result));
  RONDO_CHECK_OK(flush_all(deadline.later(kSlackPerLevel * (tree.height() + 1))));
  return table_of(result);
}

std::vector<int> SessionState::silent() const {
  assert(due_.first <= due_.second && due_.second <= neighbours.size());
  std::vector<int> ranks;
  for (std::size_t i = due_.first; i < due_.second; ++i)
    if (neighbours[i]->inbox.empty()) ranks.push_back(name_of(neighbours[i]->rank));
  return ranks;
}

Status SessionState::pump(const net::Deadline& deadline, bool needed) {
  std::vector<pollfd> entries;
  bool news = false;  // frames that arrived with an earlier one cause no event
  for (const auto& neighbour : neighbours) {
    RONDO_TRY(const bool arrived, drain(*neighbour, needed));
    news = news || arrived;
    entries.push_back(neighbour->gone ? pollfd{-1, 0, 0} : neighbour->link.entry());
  }
  if (news) return ok_status();
  auto waited = net::wait_ready(entries, deadline, "exchanging records between the ranks");
  if (!waited.ok() && waited.code() == StatusCode::kTimeout)
    return fail(StatusCode::kTimeout, "{} gave nothing to exchange {} of {} ranks within {:.3g} s",
                name_ranks(silent()), round_, tree.size,
                std::chrono::duration<double>(timeout).count());
  return waited;
}

Result<bool> SessionState::drain(Neighbour& from, bool needed) {
  const std::size_t before = from.inbox.size();
  const bool flushed = from.gone || from.link.flush().ok();
  while (!from.gone) {
    auto frame = from.link.receive();
    if (frame.ok() && !*frame) break;
    if (frame.ok() && (*frame)->type == kError) {
      const auto error = decode_error((*frame)->payload);
      return error ? *error : fail(StatusCode::kRemoteError, "rank {} failed", name_of(from.rank));
    }
    if (frame.ok()) {
      from.inbox.push_back(std::move(**frame));
    } else if (from.link.closed()) {
      from.gone = true;
    } else {
      return fail(StatusCode::kRemoteError, "rank {} broke the protocol: {}", name_of(from.rank),
                  frame.error().text);
    }
  }
  if ((from.gone || !flushed) && from.inbox.empty() && (needed || from.link.unsent()))
    return fail(StatusCode::kRemoteError, "rank {} ended during exchange {} of the ranks",
                name_of(from.rank), round_);
  return from.inbox.size() > before;
}

Result<Bytes> SessionState::take(Neighbour& from, Message type) {
  assert(!from.inbox.empty());
  net::Frame frame = std::move(from.inbox.front());
  from.inbox.pop_front();
  if (frame.type != type || frame.round != round_)
    return fail(StatusCode::kRemoteError,
                "rank {} broke the protocol: message {} of exchange {} where {} of {} was expected",
                name_of(from.rank), frame.type, frame.round, static_cast<int>(type), round_);
  return std::move(frame.payload);
}

Status SessionState::flush_all(const net::Deadline& deadline) {
  const auto unsent = [](const auto& neighbour) { return neighbour->link.unsent(); };
  while (std::any_of(neighbours.begin(), neighbours.end(), unsent))
    RONDO_CHECK_OK(pump(deadline, false));
  return ok_status();
}

Result<SessionState::Table> SessionState::table_of(ByteSpan result) const {
  const auto entries = decode_entries(result, tree.size);
  if (!entries || entries->size() != static_cast<std::size_t>(tree.size))
    return fail(StatusCode::kRemoteError, "the exchange of {} ranks brought {} records", tree.size,
                entries ? entries->size() : 0);
  Table table(static_cast<std::size_t>(tree.size));
  for (const Entry& entry : *entries)
    table[static_cast<std::size_t>(entry.rank)].assign(entry.bytes.begin(), entry.bytes.end());
  return table;
}

}  // namespace rondo::bootstrap
