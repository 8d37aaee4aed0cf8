#include "transport/bootstrap/doorkeeper.h"

#include <algorithm>

#include "base/log.h"

namespace rondo::bootstrap {
namespace {

constexpr auto kHandshakeTime = std::chrono::seconds(10);
constexpr auto kAcceptPause = std::chrono::milliseconds(20);
constexpr std::size_t kMostVisitors = 1024;

}  // namespace

void Doorkeeper::collect(std::vector<pollfd>& entries) const {
  const bool paused = net::Clock::now() < accept_again_;
  entries.push_back({paused ? -1 : listener_.get(), POLLIN, 0});
  for (const Visitor& visitor : visitors_) entries.push_back(visitor.link.entry());
}

std::vector<Arrival> Doorkeeper::serve(std::span<const pollfd> ready, const KeyOf& key_of) {
  std::vector<Arrival> arrivals;
  const auto now = net::Clock::now();
  for (std::size_t i = 0; i < visitors_.size(); ++i) {
    Visitor& visitor = visitors_[i];
    advance(visitor, ready[i + 1].revents != 0, key_of, arrivals);
    if (!visitor.proven && !visitor.dropped && now >= visitor.deadline) visitor.dropped = true;
  }
  std::erase_if(visitors_, [](const Visitor& v) { return v.proven || v.dropped; });
  if (ready[0].revents != 0 || (accept_again_ != net::Clock::time_point() && now >= accept_again_))
    accept_all();
  return arrivals;
}

net::Clock::time_point Doorkeeper::next_deadline() const {
  auto next = net::Clock::time_point::max();
  for (const Visitor& visitor : visitors_) next = std::min(next, visitor.deadline);
  if (accept_again_ != net::Clock::time_point()) next = std::min(next, accept_again_);
  return next;
}

void Doorkeeper::advance(Visitor& visitor, bool readable, const KeyOf& key_of,
                         std::vector<Arrival>& out) {
  if (visitor.link.unsent()) visitor.dropped = !visitor.link.flush().ok();
  while (readable && !visitor.proven && !visitor.dropped) {
    auto frame = visitor.link.receive();
    visitor.dropped = !frame.ok();
    if (!frame.ok() || !*frame) break;
    const ByteSpan payload = (*frame)->payload;
    if ((*frame)->type == kHello && !visitor.hello) {
      visitor.hello = Hello::decode(payload);
      visitor.dropped = !visitor.hello || !challenge(visitor, key_of);
      continue;
    }
    const Credentials* key = visitor.challenge ? key_of(visitor.hello->tag) : nullptr;
    auto join = (*frame)->type == kJoin && key != nullptr ? Join::decode(payload) : std::nullopt;
    if (!join || !auth::same_digest(join->proof, key->proof_of_visitor(
                                                     *visitor.hello, *visitor.challenge, *join))) {
      RONDO_INFO(kBootstrap, "dropped {}: it could not prove that it knows the id",
                 visitor.from.text());
      visitor.dropped = true;
      break;
    }
    visitor.proven = true;
    visitor.link.set_limit(net::kMostPayload);
    out.push_back({std::move(visitor.link), visitor.from, *visitor.hello, std::move(*join)});
  }
  if (visitor.hello && !visitor.challenge && !visitor.dropped)
    visitor.dropped = !challenge(visitor, key_of);
}

// False: the visitor is gone. Without a key the visitor waits.
bool Doorkeeper::challenge(Visitor& visitor, const KeyOf& key_of) {
  const Credentials* key = key_of(visitor.hello->tag);
  if (key == nullptr) return true;
  Challenge challenge;
  challenge.dialect = Dialect::of_this_build();
  challenge.door = door_;
  challenge.nonce = auth::random_digest();
  challenge.proof = key->proof_of_door(*visitor.hello, challenge);
  visitor.challenge = challenge;
  return visitor.link.send(kChallenge, 0, challenge.encode()).ok();
}

void Doorkeeper::accept_all() {
  accept_again_ = {};
  for (;;) {
    auto accepted = net::accept_tcp(listener_);
    if (!accepted.ok()) {
      RONDO_INFO(kBootstrap, "{}", accepted.error().text);
      drop_oldest();
      accept_again_ = net::Clock::now() + kAcceptPause;
      return;
    }
    if (!*accepted) return;
    if (visitors_.size() >= kMostVisitors) drop_oldest();
    Visitor visitor;
    visitor.link = net::FramedLink(std::move((*accepted)->socket), kMostHandshakeBytes);
    visitor.from = (*accepted)->peer;
    visitor.deadline = net::Clock::now() + kHandshakeTime;
    visitors_.push_back(std::move(visitor));
  }
}

void Doorkeeper::drop_oldest() {
  if (!visitors_.empty()) visitors_.erase(visitors_.begin());
}

}  // namespace rondo::bootstrap
