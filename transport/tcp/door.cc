#include "transport/tcp/door.h"

#include <algorithm>

#include "base/log.h"
#include "transport/socket/tcp.h"

namespace rondo::tcp {
namespace {

using std::chrono::milliseconds;

constexpr auto kProveWithin = std::chrono::seconds(10);
constexpr std::size_t kMostVisitors = 256;
constexpr milliseconds kPause{100};  // after the descriptors ran out

}  // namespace

void Door::accept_all() {
  for (;;) {
    auto accepted = net::accept_tcp(listener_.socket());
    if (!accepted.ok()) {
      RONDO_INFO(kNet, "{}", accepted.error().text);
      if (!visitors_.empty()) visitors_.erase(visitors_.begin());
      accept_again_ = Clock::now() + kPause;
      return;
    }
    if (!accepted.value()) break;
    if (visitors_.size() == kMostVisitors) visitors_.erase(visitors_.begin());
    visitors_.push_back({std::make_unique<Stream>(poller_, std::move(accepted.value()->socket)),
                         accepted.value()->peer, Parley::of_acceptor(secret_),
                         Clock::now() + kProveWithin});
  }
  listener_.exhausted();
}

std::optional<Arrival> Door::assemble(Visitor& visitor) {
  const Hello& hello = visitor.parley.hello();
  auto it = std::find_if(assemblies_.begin(), assemblies_.end(), [&](const Assembly& one) {
    return one.link_id == hello.link_id && one.arrival.name == hello.name &&
           one.arrival.streams.size() == hello.count;
  });
  if (it == assemblies_.end()) {
    it = assemblies_.insert(
        assemblies_.end(),
        {{hello.name, visitor.from, {}}, hello.link_id, hello.count, Clock::now() + kProveWithin});
    it->arrival.streams.resize(hello.count);
  }
  if (it->arrival.streams[hello.index]) return std::nullopt;  // twice the same: the second goes
  it->arrival.streams[hello.index] = std::move(visitor.stream);
  if (--it->missing != 0) return std::nullopt;
  Arrival complete = std::move(it->arrival);
  assemblies_.erase(it);
  return complete;
}

std::optional<Arrival> Door::hear(Visitor& visitor, bool& gone) {
  gone = false;
  if (!visitor.stream->readable() && !visitor.stream->writable()) return std::nullopt;
  const Parley::State state = visitor.parley.step(*visitor.stream);
  gone = state != Parley::kPending;
  if (state == Parley::kAgreed) return assemble(visitor);
  if (state == Parley::kBroken)
    RONDO_INFO(kNet, "dropped a connection from {}: {}", visitor.from.text(),
               visitor.parley.why_broken());
  return std::nullopt;
}

std::optional<Arrival> Door::next() {
  if (!listener_.readable() && visitors_.empty() && assemblies_.empty()) return std::nullopt;
  const auto now = Clock::now();
  if (listener_.readable() && now >= accept_again_) accept_all();
  for (std::size_t i = 0; i < visitors_.size();) {
    bool gone = false;
    auto arrival = hear(visitors_[i], gone);
    if (gone || now > visitors_[i].deadline) {
      visitors_.erase(visitors_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
    if (arrival) return arrival;
  }
  std::erase_if(assemblies_, [&](const Assembly& one) { return now > one.deadline; });
  return std::nullopt;
}

}  // namespace rondo::tcp
