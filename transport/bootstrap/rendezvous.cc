// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap/rendezvous.h"

#include <algorithm>
#include <cassert>

#include "transport/bootstrap/messages.h"

namespace rondo::bootstrap {
namespace {

constexpr std::size_t kMaxNamed = 16;
constexpr std::chrono::milliseconds kRollAfter{200};  // ranks that start together join in less
// A rank learns of an end between hosts within one second.
constexpr std::chrono::seconds kGraceOfLists{2};
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
                  name_of(join.rank), same->arrival.from.text(), arrival.from.text());
  }
  return std::nullopt;
}

bool Rendezvous::has_other_list(const Join& join) const {
  return !names_.empty() && join.members != digest_of(names_);
}

void Rendezvous::drop_early_leavers() {
  std::erase_if(early_, [](Arrival& arrival) {
    const auto frame = arrival.link.receive();
    return !frame.ok() || frame->has_value();  // an error, because it gave up
  });
  if (early_.empty()) early_until_ = net::Clock::time_point::max();
}

std::vector<Arrival> Rendezvous::follow() {
  followed_ = true;
  drop_early_leavers();
  early_until_ = net::Clock::time_point::max();
  return std::exchange(early_, {});
}

void Rendezvous::refuse_other_lists() {
  assert(!names_.empty() && "only survivors have lists");
  early_until_ = net::Clock::now() + kGraceOfLists;
  drop_early_leavers();
  if (early_.empty() || error_) return;
  const auto here = std::find_if(members_.begin(), members_.end(),
                                 [](const Guest* guest) { return guest != nullptr; });
  const std::string ours = here != members_.end()
                               ? (*here)->arrival.join.claim
                               : fmt::format("rank {} leaves out others", names_[0]);
  const Error error = fail(StatusCode::kInvalidUsage,
                           "{}, but {}: all survivors must name the same ranks "
                           "(rondoCommGetEnded)",
                           ours, early_[0].join.claim);
  for (Arrival& arrival : early_) {
    guests_.push_back(std::make_unique<Guest>());
    guests_.back()->arrival = std::move(arrival);
  }
  early_.clear();
  early_until_ = net::Clock::time_point::max();
  fail_all(error);
}

void Rendezvous::admit(Arrival arrival) {
  if (has_other_list(arrival.join)) {
    if (early_.empty()) early_until_ = net::Clock::now() + kGraceOfLists;
    return early_.push_back(std::move(arrival));
  }
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
  const bool all_came = std::find(came_.begin(), came_.end(), false) == came_.end();
  return (names_.empty() && !all_came) || !all_gone();
}

bool Rendezvous::all_gone() const {
  return std::all_of(guests_.begin(), guests_.end(), [](const auto& one) { return one->gone; });
}

int Rendezvous::name_of(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < names_.size() ? names_[index] : rank;
}

void Rendezvous::seat_all() {
  assert(!full_ && joined_ == static_cast<int>(members_.size()));
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
  assert(ready.size() <= guests_.size() && "as collect() listed them");
  // fail_all() and receive_from() never add or remove guests.
  for (std::size_t i = 0; i < ready.size(); ++i)
    if (ready[i].revents != 0) receive_from(*guests_[i]);
  std::erase_if(guests_, [](const auto& guest) { return guest->gone && !guest->member; });
  if (net::Clock::now() >= roll_at_) send_roll();
  if (net::Clock::now() >= early_until_) refuse_other_lists();
  if (net::Clock::now() >= deadline_) end();
  finished_ = finished_ || (full_ && connected_ == joined_) ||
              (early_.empty() && (names_.empty() || rank_zero_came()) &&
               (over_ || (error_ && (full_ || !names_.empty()) && all_gone())));
}

void Rendezvous::end() {
  if (!error_ && !(full_ && connected_ == joined_)) {
    const double seconds = std::chrono::duration<double>(shortest_timeout_).count();
    std::vector<int> missing = absent();
    for (int& rank : missing) rank = name_of(rank);
    fail_all(
        fail(StatusCode::kTimeout,
             "{} of {} {} not {} within {:.3g} s; check what they do, and whether they can reach "
             "this host (NCCL_SOCKET_IFNAME chooses the interface, RONDO_INIT_TIMEOUT the time){}",
             name_ranks(missing), members_.size(), missing.size() == 1 ? "has" : "have",
             full_ ? "connected to their neighbours" : "joined", seconds,
             doubted_ ? "; a process with this id left when it was challenged: RONDO_SECRET must "
                        "be the same on all ranks, set on all or on none"
                      : ""));
  }
  over_ = true;
  deadline_ = net::Clock::time_point::max();
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
    const int rank = name_of(guest.arrival.join.rank);
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
    } else if ((*frame)->type == kEnded && !names_.empty() && !error_) {
      ended_ = Ended::decode((*frame)->payload);
    } else if ((*frame)->type == kError && !error_) {
      guest.gone = true;
      const auto error = decode_error((*frame)->payload);
      fail_all(error ? *error : fail(StatusCode::kRemoteError, "rank {} failed to join", rank));
    }
  }
  if (guest.gone) link.close();
}

void Rendezvous::refuse(const Error& error) {
  if (open() && joined_ > 0 && !error_) fail_all(error);
}

void Rendezvous::fail_all(const Error& error) {
  error_ = error;
  for (const auto& guest : guests_) {
    if (guest->gone) continue;
    if (ended_) (void)guest->arrival.link.send(kEnded, 0, ended_->encode());
    (void)guest->arrival.link.send(kError, 0, encode_error(error));
  }
}

}  // namespace rondo::bootstrap
