#include "transport/bootstrap/knock.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "transport/socket/tcp.h"

namespace rondo::bootstrap {
namespace {

using net::Clock;
using std::chrono::milliseconds;

constexpr auto kHeadStart = milliseconds(250);
constexpr auto kFirstPause = milliseconds(5);
constexpr auto kLongestPause = milliseconds(500);
constexpr auto kSecretGrace = std::chrono::seconds(2);  // a stranger may answer beside the rank
constexpr auto kConnectTime = std::chrono::seconds(5);

// One address: waits for its start, connects, greets, and starts again after every failure.
class Attempt {
 public:
  Attempt(const net::SocketAddress& to, Clock::time_point start) : to_(to), next_(start) {}

  bool idle() const { return !socket_.valid() && !link_.valid(); }
  bool refused() const { return refused_; }
  bool other_secret() const { return other_secret_; }
  bool untried() const { return trouble_.empty() && !link_.valid(); }
  std::string trouble() const {
    if (!link_.valid()) return trouble_;
    return to_.text() + ": connected, but nobody serves this id there (yet, or any more)";
  }
  // When something happens without an event.
  Clock::time_point next() const { return link_.valid() ? Clock::time_point::max() : next_; }

  pollfd entry() const {
    if (link_.valid()) return link_.entry();
    return {socket_.get(), POLLOUT, 0};  // -1 while idle: poll skips it
  }

  // True once the door has proved itself; then take() is the connection.
  bool advance(bool ready, const KnockRequest& request) {
    if (idle()) {
      if (Clock::now() >= next_) start();
      return false;
    }
    if (socket_.valid()) {
      if (ready) {
        connected(request);
      } else if (Clock::now() >= next_) {
        fail_with("no answer", false);
      }
      return false;
    }
    return ready && greeted(request);
  }

  net::FramedLink take() { return std::move(link_); }
  const Hello& hello() const { return hello_; }
  const Challenge& challenge() const { return challenge_; }

 private:
  void start() {
    auto socket = net::start_connect(to_);
    if (!socket.ok()) return fail_with(socket.error().text, false);
    socket_ = std::move(*socket);
    next_ = Clock::now() + kConnectTime;
  }

  void connected(const KnockRequest& request) {
    if (const int error = net::connect_outcome(socket_); error != 0)
      return fail_with(std::strerror(error), error == ECONNREFUSED);
    refused_ = false;
    link_ = net::FramedLink(std::move(socket_), net::kMostPayload);
    link_.set_limit(kMostHandshakeBytes);
    hello_ = Hello{request.dialect, request.credentials.tag(), auth::random_digest()};
    if (auto sent = link_.send(kHello, 0, hello_.encode()); !sent.ok())
      fail_with(sent.error().text, false);
  }

  bool greeted(const KnockRequest& request) {
    auto frame = link_.receive();
    if (!frame.ok()) return fail_with(frame.error().text, false), false;
    if (!*frame) return false;
    const auto challenge =
        (*frame)->type == kChallenge ? Challenge::decode((*frame)->payload) : std::nullopt;
    if (!challenge || challenge->door != request.door)
      return fail_with("something else answers there", false), false;
    if (!auth::same_digest(challenge->proof,
                           request.credentials.proof_of_door(hello_, *challenge))) {
      other_secret_ = true;
      return fail_with("who serves this id there holds another secret", false), false;
    }
    challenge_ = *challenge;
    return true;
  }

  void fail_with(std::string why, bool refused) {
    socket_.reset();
    link_.close();
    refused_ = refused;
    trouble_ = fmt::format("{}: {}", to_.text(), why);
    next_ = Clock::now() + pause_;
    pause_ = std::min<Clock::duration>(pause_ * 2, kLongestPause);
  }

  net::SocketAddress to_;
  Clock::time_point next_;
  Clock::duration pause_ = kFirstPause;
  net::Socket socket_;    // while it connects
  net::FramedLink link_;  // while it greets
  Hello hello_;
  Challenge challenge_;
  bool refused_ = false;
  bool other_secret_ = false;  // somebody answered who knows the id, but not its proof
  std::string trouble_;
};

Result<net::FramedLink> enter(Attempt& attempt, const KnockRequest& request,
                              const net::Patience& patience) {
  Join join = request.join;
  const auto left = std::max(Clock::duration::zero(), patience.deadline - Clock::now());
  join.patience_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(left).count());
  join.proof = request.credentials.proof_of_visitor(attempt.hello(), attempt.challenge(), join);
  net::FramedLink link = attempt.take();
  link.set_limit(net::kMostPayload);
  RONDO_CHECK_OK(link.send(kJoin, 0, join.encode()));
  RONDO_CHECK_OK(link.flush_all(patience, request.what));
  return link;
}

}  // namespace

std::optional<Error> error_from(net::FramedLink& overseer) {
  while (overseer.valid() && !overseer.closed()) {
    auto frame = overseer.receive();
    if (!frame.ok() || !*frame) break;
    if ((*frame)->type == kError) return decode_error((*frame)->payload);
  }
  if (overseer.closed()) overseer.close();
  return std::nullopt;
}

std::string text_of(const Place& place) {
  std::string text;
  for (const auto& address : place.addresses) text += (text.empty() ? "" : " or ") + address.text();
  return text;
}

Result<net::FramedLink> knock(const KnockRequest& request, const net::Patience& patience) {
  std::vector<Attempt> attempts;
  auto start = Clock::now();
  for (const auto& address : request.place.addresses) {
    attempts.emplace_back(address.with_port(request.place.port), start);
    start += kHeadStart;
  }
  if (attempts.empty())
    return fail(Status::kInternalError, "no address to connect to while {}", request.what);
  constexpr auto kNever = Clock::time_point::max();
  auto refused_since = kNever;
  auto differs_since = kNever;
  std::vector<pollfd> entries;
  const auto trouble = [&] {
    std::string all;
    for (const Attempt& attempt : attempts)
      if (const auto why = attempt.trouble(); !why.empty()) all += (all.empty() ? "" : "; ") + why;
    return all.empty() ? std::string("no answer from ") + text_of(request.place) : all;
  };
  for (bool ready = false;;) {
    for (std::size_t i = 0; i < attempts.size(); ++i)
      if (attempts[i].advance(ready && entries[i].revents != 0, request))
        return enter(attempts[i], request, patience);
    if (request.overseer != nullptr)
      if (auto error = error_from(*request.overseer)) return *error;

    const bool all_refused = std::all_of(attempts.begin(), attempts.end(),
                                         [](const Attempt& a) {
                                           return a.refused() || a.untried();  // or not tried yet
                                         }) &&
                             attempts[0].refused();
    if (!all_refused) refused_since = kNever;
    if (all_refused && refused_since == kNever) refused_since = Clock::now();
    if (all_refused && Clock::now() - refused_since >= request.refusal_grace)
      return fail(Status::kRemoteError, "nobody listens any more while {} ({})", request.what,
                  trouble());

    const bool differs = std::any_of(attempts.begin(), attempts.end(),
                                     [](const Attempt& a) { return a.other_secret(); });
    if (differs && differs_since == kNever) differs_since = Clock::now();
    if (differs && Clock::now() - differs_since >= kSecretGrace)
      return fail(Status::kInvalidUsage,
                  "no rank of the same secret answers while {}: RONDO_SECRET must be the same on "
                  "all ranks, set on all or on none ({})",
                  request.what, trouble());

    entries.clear();
    auto next = Clock::time_point::max();
    for (const Attempt& attempt : attempts) {
      entries.push_back(attempt.entry());
      next = std::min(next, attempt.next());
    }
    if (request.overseer != nullptr && request.overseer->valid())
      entries.push_back(request.overseer->entry());
    auto waited = net::wait_until(entries, next, patience, request.what);
    if (!waited.ok()) {
      Error error = waited.error();
      if (error.status == Status::kTimeout) error.text += " (" + trouble() + ")";
      return error;
    }
    ready = *waited;
  }
}

}  // namespace rondo::bootstrap
