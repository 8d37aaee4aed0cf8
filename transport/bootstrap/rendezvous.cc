// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap/rendezvous.h"

#include <algorithm>

#include "transport/bootstrap/session_state.h"

namespace rondo::bootstrap {
namespace {

constexpr std::size_t kMaxNamed = 16;
constexpr std::chrono::milliseconds kRollAfter{200};  // ranks that start together join in less
constexpr auto kLongestTimeout = std::chrono::hours(24 * 365);

}  // namespace

std::string name_ranks(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMaxNamed); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kMaxNamed) text += fmt::format(" and {} more", ranks.size() - kMaxNamed);
  return text;
}

std::optional<Arrival> Arrival::from_proven(auth::Arrival proven) {
  auto join = Join::decode(proven.payload);
  auto link = FramedLink::make(std::move(proven.socket), proven.session_key,
                               auth::Records::Side::kAcceptor);
  if (!join || !link.ok()) return std::nullopt;
  return Arrival{std::move(*link), proven.from, proven.build, std::move(*join)};
}

std::optional<Error> Rendezvous::objection(const Arrival& arrival) const {
  const Join& join = arrival.join;
  if (join.size < 1 || join.size > kMaxRanks || join.rank < 0 || join.rank >= join.size)
    return fail(StatusCode::kInvalidArgument, "rank {} of {} ranks is out of range (from {})",
                join.rank, join.size, arrival.from.text());
  for (const Guest* other : members_) {
    if (other == nullptr) continue;
    if (other->arrival.join.size != join.size)
      return fail(StatusCode::kInvalidArgument,
                  "rank {} joined a communicator of {} ranks, but rank {} one of {}: all must give "
                  "the same number",
                  join.rank, join.size, other->arrival.join.rank, other->arrival.join.size);
    if (other->arrival.build != arrival.build)
      return fail(StatusCode::kInvalidUsage,
                  "rank {} runs another build of Rondo ({}) than rank {} ({}): all ranks need the "
                  "same version and architecture",
                  join.rank, arrival.build.text(), other->arrival.join.rank,
                  other->arrival.build.text());
    break;  // the others agree with this one
  }
  if (!members_.empty()) {
    if (const Guest* same = members_[static_cast<std::size_t>(join.rank)])
      return fail(StatusCode::kInvalidUsage,
                  "rank {} joined twice (from {} and from {}): every rank number may be used once",
                  join.rank, same->arrival.from.text(), arrival.from.text());
  }
  return std::nullopt;
}

void Rendezvous::admit(Arrival arrival) {
  const std::chrono::nanoseconds timeout(std::min<std::uint64_t>(
      arrival.join.timeout_ns, std::chrono::nanoseconds(kLongestTimeout).count()));
  if (const auto deadline = net::Clock::now() + timeout; deadline < deadline_) {
    deadline_ = deadline;
    shortest_timeout_ = timeout;
  }
  guests_.push_back(std::make_unique<Guest>());
  Guest& guest = *guests_.back();
  guest.arrival = std::move(arrival);
  const int rank = guest.arrival.join.rank;
  note_coming(guest.arrival.join);
  if (error_) {
    (void)guest.arrival.link.send(kError, 0, encode_error(*error_));
    return;
  }
  if (auto wrong = objection(guest.arrival)) return fail_all(*wrong);
  if (members_.empty()) members_.resize(static_cast<std::size_t>(guest.arrival.join.size));
  members_[static_cast<std::size_t>(rank)] = &guest;
  guest.member = true;
  roll_at_ = net::Clock::now() + kRollAfter;
  if (++joined_ == static_cast<int>(members_.size())) seat_all();
}

// The first rank defines the number of ranks.
void Rendezvous::note_coming(const Join& join) {
  if (came_.empty() && join.size > 0 && join.size <= kMaxRanks)
    came_.resize(static_cast<std::size_t>(join.size));
  if (join.rank >= 0 && static_cast<std::size_t>(join.rank) < came_.size())
    came_[static_cast<std::size_t>(join.rank)] = true;
}

bool Rendezvous::owes_verdict() const {
  if (!error_) return false;
  const auto is_here = [](const auto& guest) { return !guest->gone; };
  return std::find(came_.begin(), came_.end(), false) != came_.end() ||
         std::any_of(guests_.begin(), guests_.end(), is_here);
}

void Rendezvous::seat_all() {
  full_ = true;
  for (int rank = 0; rank < joined_; ++rank) {
    const Tree tree{rank, joined_};
    Table table;
    if (!tree.root())
      table.parent = members_[static_cast<std::size_t>(tree.parent())]->arrival.join.place;
    (void)members_[static_cast<std::size_t>(rank)]->arrival.link.send(kTable, 0, table.encode());
  }
}

void Rendezvous::send_roll() {
  roll_at_ = net::Clock::time_point::max();
  if (full_ || error_) return;
  const Bytes roll = Roll{joined_, absent()}.encode();
  for (Guest* const guest : members_)
    if (guest != nullptr && !guest->gone) (void)guest->arrival.link.send(kRoll, 0, roll);
}

void Rendezvous::collect(std::vector<pollfd>& entries) const {
  for (const auto& guest : guests_) entries.push_back(guest->arrival.link.entry());
}

void Rendezvous::serve(std::span<const pollfd> ready) {
  // fail_all and hear never add or remove guests.
  for (std::size_t i = 0; i < ready.size(); ++i)
    if (ready[i].revents != 0) receive_from(*guests_[i]);
  std::erase_if(guests_, [](const auto& guest) { return guest->gone && !guest->member; });
  if (net::Clock::now() >= roll_at_) send_roll();
  if (net::Clock::now() < deadline_ || finished_) return;
  if (!error_) {
    const double seconds = std::chrono::duration<double>(shortest_timeout_).count();
    fail_all(
        fail(StatusCode::kTimeout,
             "{} of {} {} not {} within {:.3g} s; check what they do, and whether they can reach "
             "this host (NCCL_SOCKET_IFNAME chooses the interface, RONDO_INIT_TIMEOUT the time){}",
             name_ranks(absent()), members_.size(), absent().size() == 1 ? "has" : "have",
             full_ ? "connected to their neighbours" : "joined", seconds,
             doubted_ ? "; a process with this id left when it was challenged: RONDO_SECRET must "
                        "be the same on all ranks, set on all or on none"
                      : ""));
  }
  finished_ = true;
}

std::vector<int> Rendezvous::absent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
    const Guest* guest = members_[static_cast<std::size_t>(rank)];
    if (guest == nullptr || (full_ && !guest->connected)) ranks.push_back(rank);
  }
  return ranks;
}

void Rendezvous::receive_from(Guest& guest) {
  auto& link = guest.arrival.link;
  if (guest.gone) return;
  if (!link.flush().ok()) guest.gone = true;
  while (!guest.gone) {
    auto frame = link.receive();
    if (frame.ok() && !*frame) break;
    const int rank = guest.arrival.join.rank;
    if (!frame.ok()) {
      guest.gone = true;
      if (!guest.connected && !error_)
        fail_all(link.closed()
                     ? fail(StatusCode::kRemoteError,
                            "rank {} (at {}) ended while the ranks were joining", rank,
                            guest.arrival.from.text())
                     : fail(StatusCode::kRemoteError, "rank {} (at {}) broke the protocol: {}",
                            rank, guest.arrival.from.text(), frame.error().text));
    } else if ((*frame)->type == kConnected && full_ && !guest.connected) {
      guest.connected = true;
      ++connected_;
    } else if ((*frame)->type == kError && !error_) {
      guest.gone = true;
      const auto error = decode_error((*frame)->payload);
      fail_all(error ? *error : fail(StatusCode::kRemoteError, "rank {} failed to join", rank));
    }
  }
  if (guest.gone) link.close();
  if (full_ && connected_ == joined_) finished_ = true;
  // All ranks have received the error and left.
  if (error_ && full_ &&
      std::all_of(guests_.begin(), guests_.end(), [](const auto& one) { return one->gone; }))
    finished_ = true;
}

void Rendezvous::refuse(const Error& error) {
  if (open() && joined_ > 0 && !error_) fail_all(error);
}

void Rendezvous::fail_all(const Error& error) {
  error_ = error;
  for (const auto& guest : guests_)
    if (!guest->gone) (void)guest->arrival.link.send(kError, 0, encode_error(error));
}

}  // namespace rondo::bootstrap
