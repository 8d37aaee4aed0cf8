// SPDX-License-Identifier: Apache-2.0
#include "transport/streams/acceptor.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"

namespace rondo::net {
namespace {

// The connector has given up, or died.
bool has_ended(const Stream& stream) {
  std::byte next;
  const ssize_t got = ::recv(stream.socket().get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::open(Poller& poller, std::vector<Socket> listeners,
                                                 const auth::Digest& secret, std::string endpoint,
                                                 bool (*sealed)(int lane)) {
  RONDO_TRY(auto proving,
            auth::Acceptor::open(std::move(listeners), {.endpoint = std::move(endpoint)}));
  return std::unique_ptr<Acceptor>(new Acceptor(poller, secret, std::move(proving), sealed));
}

Acceptor::Acceptor(Poller& poller, const auth::Digest& secret,
                   std::unique_ptr<auth::Acceptor> proving, bool (*sealed)(int lane))
    : poller_(poller),
      secret_(secret),
      tag_(auth::tag_of(secret)),
      sealed_(sealed),
      proving_(std::move(proving)),
      events_(poller, proving_->poll_fd()) {}

void Acceptor::assemble(auth::Arrival proven) {
  const auto socket = decode_socket(proven.payload);
  if (!socket) return;
  auto stream = std::make_unique<Stream>(poller_, std::move(proven.socket));
  if (sealed_(socket->name.lane)) {
    auto records = auth::Records::make(proven.session_key, auth::Records::Side::kAcceptor);
    if (!records.ok()) {
      RONDO_WARN("{}", records.error().text);
      return;
    }
    stream->seal(std::move(*records));
  }
  auto it = std::find_if(assemblies_.begin(), assemblies_.end(), [&](const Assembly& one) {
    return one.link_id == socket->link_id && one.arrival.name == socket->name &&
           one.arrival.streams.size() == socket->count;
  });
  if (it == assemblies_.end()) {
    it = assemblies_.insert(assemblies_.end(),
                            {{socket->name, proven.from, {}}, socket->link_id, socket->count});
    it->arrival.streams.resize(socket->count);
  }
  if (it->arrival.streams[socket->index]) return;  // a duplicate
  it->arrival.streams[socket->index] = std::move(stream);
  if (--it->missing != 0) return;
  complete_.push_back(std::move(it->arrival));
  assemblies_.erase(it);
}

std::optional<Arrival> Acceptor::next() {
  if (events_.readable() || proving_->has_deadline()) {
    events_.seen();
    for (auth::Arrival& proven : proving_->serve([&](const auth::Tag& tag) -> auth::KnownSecret {
           return {tag == tag_ ? &secret_ : nullptr};
         }))
      assemble(std::move(proven));
  }
  std::erase_if(assemblies_, [](const Assembly& one) {
    return std::any_of(one.arrival.streams.begin(), one.arrival.streams.end(),
                       [](const auto& stream) { return stream && has_ended(*stream); });
  });
  if (complete_.empty()) return std::nullopt;
  Arrival first = std::move(complete_.front());
  complete_.erase(complete_.begin());
  return first;
}

}  // namespace rondo::net
