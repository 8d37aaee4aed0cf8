// SPDX-License-Identifier: Apache-2.0
// PutSide: the puts of one direction of a VerbsLink, at the rank that puts.
//
// Guarantees: all puts go by one queue pair, so they take effect in order. Each writes its body,
// its word, and last the count of puts so far. After the loss of that rail, no put is sent until
// the peer has reported how many took effect (verbs_link.h). Cost: stores and a doorbell per put;
// only learn() allocates.
//
//   const net::RemoteKey to = side.learn(packed_key);
//   const std::uint64_t number = side.push({.body = bytes, .key = key, .to = to}, keys);
//   side.send(ways);  // side.put() is called on completion
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "transport/verbs/ibverbs/sides.h"

namespace rondo::verbs {

class PutSide {
 public:
  static constexpr std::uint64_t kDepth = net::Link::kDepth;

  net::RemoteKey learn(const PackedKey& key);
  void forget(net::RemoteKey key) { there_.erase(key); }

  // The fault of the put, if any: it is outside of the memory whose keys learn() knows.
  std::optional<std::string> check(const net::Put& put) const;
  bool full() const { return pushed_ - done_ == kDepth; }
  std::uint64_t push(const net::Put& put, const Adapters::Keys& keys);
  bool is_done(std::uint64_t number) const { return number < done_; }
  // Posts the puts that can be sent now; true if there was one.
  bool send(std::span<const Way> ways);

  // Reports from the rails. take_note() returns the fault of an invalid note.
  void put(std::uint16_t value);
  std::optional<std::string> take_note(const LossNote& note);

 private:
  struct Outgoing {
    std::span<const std::byte> body{};
    Adapters::Keys keys{};
    PackedKey to{};    // destination of the body
    PackedKey word{};  // destination of the word; zero bytes: none
    std::uint64_t value = 0;
    std::uint64_t count = 0;  // number of puts, including this one
  };
  static PackedKey part_of(const PackedKey& all, std::uint64_t offset);
  void post(Outgoing& put, const Way& way);

  std::unordered_map<net::RemoteKey, PackedKey> there_;
  net::RemoteKey last_ = 0;
  std::array<Outgoing, kDepth> outgoing_;
  std::optional<Way> way_;  // none yet, or the last one's loss has been reported by the peer
  // Numbers of puts: done_ <= written_ <= pushed_.
  std::uint64_t pushed_ = 0, written_ = 0, done_ = 0;
};

}  // namespace rondo::verbs
