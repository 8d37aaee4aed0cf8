// Doorkeeper: the accepting side of the handshake, for many visitors at once.
//
// Guarantees: only visitors that proved the secret come out of serve(); everybody else (garbage,
// port scans, silence, a wrong secret) is dropped within 10 s and costs at most one connection of
// the 1024 that may be unproven at a time; the oldest goes when there are more, or when descriptors
// run out. Visitors of a rendezvous that is not open yet wait; if it does not open they are dropped
// and come again. Never blocks, has no thread: its owner polls.
//
//   door.collect(entries);  poll(entries);
//   for (Arrival& arrival : door.serve(entries_of_the_door, key_of)) ...
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "transport/bootstrap/credentials.h"
#include "transport/socket/framed_link.h"
#include "transport/socket/tcp.h"

namespace rondo::bootstrap {

struct Arrival {
  net::FramedLink link;
  net::SocketAddress from;
  Hello hello;
  Join join;
};

class Doorkeeper {
 public:
  // The secret of a rendezvous; null while none of that name is open.
  using KeyOf = std::function<const Credentials*(const Tag&)>;

  Doorkeeper(net::Socket listener, std::int32_t door)
      : listener_(std::move(listener)), door_(door) {}

  // Appends entries(): the listener and every visitor.
  void collect(std::vector<pollfd>& entries) const;
  std::size_t entries() const { return 1 + visitors_.size(); }
  // Takes the same entries after poll(2).
  std::vector<Arrival> serve(std::span<const pollfd> ready, const KeyOf& key_of);
  // When serve() has something to drop, or to accept again.
  net::Clock::time_point next_deadline() const;

 private:
  struct Visitor {
    net::FramedLink link;
    net::SocketAddress from;
    net::Clock::time_point deadline;
    std::optional<Hello> hello;
    std::optional<Challenge> challenge;
    bool proven = false;
    bool dropped = false;
  };

  void advance(Visitor& visitor, bool readable, const KeyOf& key_of, std::vector<Arrival>& out);
  bool challenge(Visitor& visitor, const KeyOf& key_of);
  void accept_all();
  void drop_oldest();

  net::Socket listener_;
  std::int32_t door_;
  std::vector<Visitor> visitors_;
  net::Clock::time_point accept_again_{};
};

}  // namespace rondo::bootstrap
