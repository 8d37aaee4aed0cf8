// SPDX-License-Identifier: Apache-2.0
// Joining: from an id to a connected session.
#include "transport/bootstrap/session.h"

#include <algorithm>

#include "base/log.h"
#include "transport/auth/acceptor.h"
#include "transport/bootstrap/connect.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/bootstrap/rendezvous_server.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/session_state.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/interfaces.h"
#include "transport/socket/tcp.h"

namespace rondo::bootstrap {
namespace {

// The rendezvous knows which ranks are missing. Its error may arrive shortly after the deadline.
constexpr auto kVerdictTime = std::chrono::seconds(1);

class Joining {
 public:
  Joining(const JoinRequest& request, const IdContents& contents, SessionState& state)
      : request_(request),
        contents_(contents),
        state_(state),
        key_(contents.secret, state.secret.bytes()),
        deadline_(net::Deadline::of(request.timeout, [this] { return is_over(); })) {}

  // Reports a failure to all processes that know this rank.
  Status run() {
    auto joined = steps();
    if (joined.ok()) return joined;
    if (obstacle_) joined = Status(obstacle_->why);
    Error reported = joined.error();
    if (reported.code == StatusCode::kInvalidUsage && request_.aborted && request_.aborted())
      reported = fail(StatusCode::kRemoteError, "rank {} aborted while the ranks were joining",
                      state_.name_of(request_.rank));
    if (server_.valid() && !verdict_ && obstacle_ && obstacle_->ended >= 0)
      (void)server_.send(kEnded, 0, Ended{obstacle_->ended}.encode());
    if (server_.valid() && !verdict_) (void)server_.send(kError, 0, encode_error(reported));
    return state_.fail_session(joined.error());
  }

 private:
  bool is_over() {
    if (request_.survivors && request_.survivors->obstacle && !obstacle_)
      obstacle_ = request_.survivors->obstacle();
    return obstacle_.has_value() || (request_.aborted && request_.aborted());
  }

  // Where rank 0 serves, all others wait for it first.
  Status steps() {
    const bool needs_rank_zero = contents_.served_by_rank_zero && request_.rank != 0;
    report(0, needs_rank_zero ? std::vector<int>{0} : std::vector<int>());
    RONDO_CHECK_OK(listen_for_children());
    RONDO_CHECK_OK(enter_rendezvous());
    RONDO_TRY(const Table table, await_table());
    report(request_.size, {});
    for (int i = 0; i < state_.tree.children(); ++i) {
      state_.neighbours.push_back(std::make_unique<Neighbour>());
      state_.neighbours.back()->rank = static_cast<int>(state_.tree.first_child()) + i;
    }
    RONDO_CHECK_OK(connect_parent(table));
    RONDO_CHECK_OK(admit_children());
    if (!server_.valid()) return ok_status();
    (void)server_.send(kConnected, 0, {});
    return ok_status();
  }

  Status listen_for_children() {
    if (state_.tree.children() == 0) return ok_status();
    RONDO_TRY(const auto addresses, net::own_addresses(state_.rendezvous_at));
    RONDO_TRY(net::Listening listening, net::listen_at(addresses));
    place_.port = listening.addresses.front().port();
    place_.addresses = std::move(listening.addresses);
    RONDO_TRY(acceptor_, auth::Acceptor::open(std::move(listening.sockets),
                                              {.endpoint = endpoint_of(request_.rank)}));
    return ok_status();
  }

  void report(int joined, std::vector<int> absent) const {
    if (request_.on_news) request_.on_news({key_.tag, joined, std::move(absent)});
  }

  Join introduction() const {
    Join join;
    join.rank = request_.rank;
    join.size = request_.size;
    join.place = place_;
    if (request_.survivors) {
      join.members = digest_of(request_.survivors->members);
      join.claim = request_.survivors->claim;
    }
    return join;
  }

  Status enter_rendezvous() {
    const Endpoint place{contents_.port, state_.rendezvous_at};
    const std::string what =
        request_.survivors ? fmt::format("rank {} was waiting for rank {} to call shrink, too",
                                         state_.name_of(request_.rank), state_.name_of(0))
                           : fmt::format("rank {} of {} was joining the rendezvous at {}",
                                         request_.rank, request_.size, text_of(place));
    const auto grace = contents_.served_by_rank_zero
                           ? std::chrono::duration_cast<std::chrono::milliseconds>(request_.timeout)
                           : kGraceOfRefusal;
    RONDO_TRY(server_, connect({.place = place,
                                .key = key_,
                                .endpoint = std::string(kRendezvous),
                                .join = introduction(),
                                .what = what,
                                .refusal_grace = grace},
                               deadline_));
    return ok_status();
  }

  Result<Table> await_table() {
    const std::string what = fmt::format("rank {} of {} was waiting for the others to join",
                                         state_.name_of(request_.rank), request_.size);
    auto frame = server_.await(deadline_.later(kVerdictTime), what);
    while (frame.ok() && (frame->type == kRoll || frame->type == kEnded)) {
      if (frame->type == kEnded) {
        const auto ended = Ended::decode(frame->payload);
        if (ended && request_.survivors) request_.survivors->on_ended(ended->member);
        frame = server_.await(deadline_.later(kVerdictTime), what);
        continue;
      }
      auto roll = Roll::decode(frame->payload, request_.size);
      if (!roll) return fail(StatusCode::kRemoteError, "the rendezvous broke the protocol");
      report(roll->joined, std::move(roll->absent));
      frame = server_.await(deadline_.later(kVerdictTime), what);
    }
    if (!frame.ok()) {
      if (!server_.closed()) return frame.error();
      if (request_.survivors)
        return fail(StatusCode::kRemoteError, "rank {} ended while the survivors were meeting",
                    state_.name_of(0));
      return fail(StatusCode::kRemoteError,
                  "the process that serves the rendezvous at {} ended before all {} ranks had "
                  "joined (rank {} had)",
                  text_of({contents_.port, contents_.addresses}), request_.size, request_.rank);
    }
    if (frame->type == kError) {
      verdict_ = true;
      const auto error = decode_error(frame->payload);
      return error ? *error : fail(StatusCode::kRemoteError, "the rendezvous failed");
    }
    auto table = frame->type == kTable ? Table::decode(frame->payload) : std::nullopt;
    if (!table) return fail(StatusCode::kRemoteError, "the rendezvous broke the protocol");
    return std::move(*table);
  }

  Status connect_parent(const Table& table) {
    if (state_.tree.root()) return ok_status();
    const int parent = state_.tree.parent();
    const std::string what =
        fmt::format("rank {} was connecting to rank {}", request_.rank, parent);
    const Endpoint place{table.parent.port, net::on_links_here(table.parent.addresses)};
    auto link = connect({.place = place,
                         .key = key_,
                         .endpoint = endpoint_of(parent),
                         .join = introduction(),
                         .what = what,
                         .overseer = &server_},
                        deadline_.later(kVerdictTime));
    if (!link.ok()) return link.error();
    auto neighbour = std::make_unique<Neighbour>();
    neighbour->rank = parent;
    neighbour->link = std::move(*link);
    state_.neighbours.push_back(std::move(neighbour));
    return ok_status();
  }

  Status admit_children() {
    int missing = state_.tree.children();
    const std::string what =
        fmt::format("rank {} was waiting for its neighbours to connect", request_.rank);
    const auto longer = deadline_.later(kVerdictTime);
    while (missing > 0) {
      if (auto error = error_from(server_)) {
        verdict_ = true;
        return *error;
      }
      std::vector<pollfd> entries = {{acceptor_->poll_fd(), POLLIN, 0}};
      if (server_.valid()) entries.push_back(server_.entry());
      RONDO_TRY([[maybe_unused]] const bool ready,
                net::wait_until(entries, acceptor_->next_deadline(), longer, what));
      auto arrivals = acceptor_->serve([&](const auth::Tag& tag) -> auth::KnownSecret {
        return {tag == key_.tag ? &key_.secret : nullptr};
      });
      for (auth::Arrival& arrival : arrivals) missing -= seat(std::move(arrival)) ? 1 : 0;
      if (missing > 0) RONDO_CHECK_OK(acceptor_->standing());
    }
    acceptor_.reset();
    return ok_status();
  }

  bool seat(auth::Arrival proven) {
    auto arrival = Arrival::from_proven(std::move(proven));
    if (!arrival) return false;
    const long index = arrival->join.rank - state_.tree.first_child();
    if (index < 0 || index >= state_.tree.children() || arrival->join.size != request_.size ||
        arrival->join.members != introduction().members)
      return false;
    Neighbour& child = *state_.neighbours[static_cast<std::size_t>(index)];
    if (child.link.valid()) return false;
    child.link = std::move(arrival->link);
    return true;
  }

  static constexpr std::chrono::milliseconds kGraceOfRefusal{2000};

  const JoinRequest& request_;
  const IdContents& contents_;
  SessionState& state_;
  const auth::Key key_;
  const net::Deadline deadline_;
  FramedLink server_;
  std::unique_ptr<auth::Acceptor> acceptor_;
  Endpoint place_;
  std::optional<Survivors::Obstacle> obstacle_;
  bool verdict_ = false;  // the error came from the rendezvous: all ranks have it
};

Status check(const JoinRequest& request) {
  if (request.size < 1 || request.size > kMaxRanks || request.rank < 0 ||
      request.rank >= request.size)
    return fail(StatusCode::kInvalidArgument, "Invalid rank requested : {}/{}", request.rank,
                request.size);
  return ok_status();
}

}  // namespace

Session::Session(std::unique_ptr<SessionState> state) : state_(std::move(state)) {}
Session::~Session() = default;

int Session::rank() const { return state_->tree.rank; }
int Session::size() const { return state_->tree.size; }
const Secret& Session::secret() const { return state_->secret; }
const std::vector<net::SocketAddress>& Session::rendezvous_at() const {
  return state_->rendezvous_at;
}

Result<std::vector<std::vector<std::byte>>> Session::all_gather(std::span<const std::byte> mine) {
  return state_->all_gather(mine);
}

LinkTraffic Session::traffic() const {
  LinkTraffic sum;
  for (const auto& neighbour : state_->neighbours) {
    sum.frames += neighbour->link.traffic().frames;
    sum.bytes += neighbour->link.traffic().bytes;
  }
  return sum;
}

void Session::set_timeout(std::chrono::nanoseconds timeout) { state_->timeout = timeout; }
Status Session::standing() { return state_->standing(); }
Error Session::give_up(const Error& mine) { return state_->give_up(mine); }

Result<std::unique_ptr<Session>> Session::join(const JoinRequest& request) {
  RONDO_CHECK_OK(check(request));
  auto state = std::make_unique<SessionState>(request);
  if (request.size == 1) {
    forget_unique_id(request.id);
    state->secret = Secret::random();
  } else {
    RONDO_TRY(const IdContents contents, decode_id(request.id));
    if (contents.secret == Digest{})
      return fail(StatusCode::kInvalidArgument,
                  "the unique id has lost its secret: no rank can join");
    RONDO_TRY(state->secret, session_secret(Secret(contents.secret)));
    const auth::Key key(contents.secret, state->secret.bytes());
    state->rendezvous_at = net::on_links_here(contents.addresses);
    if (contents.served_by_rank_zero && request.rank == 0)
      RONDO_CHECK_OK(ServerRegistry::instance().serve_at(state->rendezvous_at, key));
    RONDO_CHECK_OK(Joining(request, contents, *state).run());
    RONDO_INFO(kBootstrap, "rank {} of {} joined at {}", request.rank, request.size,
               text_of({contents.port, contents.addresses}));
  }
  for (const UniqueId& id : request.more_ids) forget_unique_id(id);
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

Result<std::unique_ptr<Session>> Session::serve_and_join(const Listener& listener,
                                                         const JoinRequest& request) {
  RONDO_CHECK_OK(check(request));
  RONDO_TRY(const IdContents base, decode_id(listener.address()));
  if (request.size > 1) {
    RONDO_TRY(const IdContents contents, decode_id(request.id));
    const auto server = ServerRegistry::instance().at_port(contents.port);
    if (server == nullptr || contents.addresses != base.addresses)
      return fail(StatusCode::kInvalidArgument,
                  "only the process whose listener the id names can serve it");
    RONDO_TRY(const Secret secret, session_secret(Secret(contents.secret)));
    const auth::Key key(contents.secret, secret.bytes());
    if (!request.survivors) {
      RONDO_CHECK_OK(server->open_rendezvous(key));
      return join(request);
    }
    RONDO_CHECK_OK(server->open_rendezvous(key, request.survivors->members));
    auto joined = join(request);
    // It gave up, perhaps before it came to the meeting, which would wait for it.
    if (!joined.ok()) server->close_rendezvous(key.tag);
    return joined;
  }
  return join(request);
}

}  // namespace rondo::bootstrap
