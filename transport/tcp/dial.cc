#include "transport/tcp/dial.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/socket/tcp.h"

namespace rondo::tcp {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPatience{3000};  // with a peer's address, where it has others
constexpr milliseconds kMostPatience{60000};
constexpr milliseconds kPause{200};  // before the first address is tried again
constexpr std::size_t kRounds = 2;   // of refusals at every address: nobody is there

std::uint64_t random_number() {
  const Digest random = auth::random_digest();
  std::uint64_t number;
  std::memcpy(&number, random.data(), sizeof(number));
  return number;
}

}  // namespace

Dial::Dial(Poller& poller, const Digest& secret, const net::LinkName& name, int sockets,
           std::vector<net::SocketAddress> candidates)
    : poller_(poller),
      secret_(secret),
      sockets_(sockets),
      candidates_(std::move(candidates)),
      patience_(kFirstPatience) {
  hello_.tag = tag_of(secret);
  hello_.name = name;
  hello_.count = static_cast<std::uint16_t>(sockets);
  start_round();
}

void Dial::start_round() {
  hello_.link_id = random_number();
  give_up_at_ = Clock::now() + patience_;
  if (auto error = start_socket()) give_up_candidate(false, *error);
}

std::optional<std::string> Dial::start_socket() {
  auto socket = net::start_connect(candidates_[candidate_]);
  if (!socket.ok()) return socket.error().text;
  hello_.index = static_cast<std::uint16_t>(attempts_.size());
  hello_.nonce = auth::random_digest();
  attempts_.push_back({std::make_unique<Stream>(poller_, std::move(*socket)),
                       Parley::of_connector(secret_, hello_), false});
  return std::nullopt;
}

void Dial::give_up_candidate(bool refused, const std::string& why) {
  const std::string last = fmt::format("{}: {}", candidates_[candidate_].text(), why);
  attempts_.clear();
  refusals_ = refused ? refusals_ + 1 : 0;
  if (refusals_ >= kRounds * candidates_.size()) {
    failure_ = fmt::format("nobody listens there any more ({})", last);
    return;
  }
  candidate_ = (candidate_ + 1) % candidates_.size();
  start_at_ = Clock::now() + (candidate_ == 0 ? kPause : milliseconds(0));
}

bool Dial::advance(Attempt& attempt) {
  if (attempt.agreed || (!attempt.stream->readable() && !attempt.stream->writable())) return false;
  switch (attempt.parley.step(*attempt.stream)) {
    case Parley::kPending:
      return false;
    case Parley::kAgreed:
      return attempt.agreed = true;
    case Parley::kBroken:
      break;
  }
  give_up_candidate(attempt.parley.error() == ECONNREFUSED, attempt.parley.why_broken());
  return true;
}

bool Dial::progress() {
  if (finished_ || failure_) return false;
  if (attempts_.empty()) {
    if (Clock::now() < start_at_) return false;
    start_round();
    return true;
  }
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    if (advance(attempts_[i]) && attempts_.empty()) return true;
  }
  // The others follow where the first one was welcome.
  if (attempts_[0].agreed && attempts_.size() < static_cast<std::size_t>(sockets_)) {
    if (auto error = start_socket()) give_up_candidate(false, *error);
    return true;
  }
  finished_ = std::all_of(attempts_.begin(), attempts_.end(),
                          [](const Attempt& attempt) { return attempt.agreed; });
  if (finished_) return true;
  if (candidates_.size() > 1 && Clock::now() > give_up_at_) {
    patience_ = std::min(patience_ * 2, kMostPatience);
    give_up_candidate(false, "no answer");
  }
  return false;
}

std::vector<std::unique_ptr<Stream>> Dial::take() {
  std::vector<std::unique_ptr<Stream>> streams;
  for (Attempt& attempt : attempts_) streams.push_back(std::move(attempt.stream));
  attempts_.clear();
  return streams;
}

}  // namespace rondo::tcp
