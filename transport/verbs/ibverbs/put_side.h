// PutSide: the puts of one direction of a VerbsLink, at who puts.
//
// Guarantees: all go by one queue pair, each with its word, and last how many there have been, so
// that they take effect in order. After the loss of that rail nothing goes until the peer has said
// how many took effect there: verbs_link.h. Cost: stores and a doorbell a put; nothing is allocated
// but by learn().
//
//   const net::RemoteKey to = side.learn(packed_key);
//   const std::uint64_t number = side.push({.body = bytes, .key = key, .to = to}, keys);
//   side.send(ways);  // then side.put() tells of it
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "transport/verbs/ibverbs/send_side.h"

namespace rondo::verbs {

class PutSide {
 public:
  static constexpr std::uint64_t kDepth = net::Link::kDepth;

  net::RemoteKey learn(const PackedKey& key);
  void forget(net::RemoteKey key) { there_.erase(key); }

  // What is wrong with it: it names memory that the peer has not told of, or goes beyond it.
  std::optional<std::string> check(const net::Put& put) const;
  bool full() const { return pushed_ - done_ == kDepth; }
  std::uint64_t push(const net::Put& put, const Adapters::Keys& keys);
  bool is_done(std::uint64_t number) const { return number < done_; }
  // Posts what may go now; true if something went.
  bool send(std::span<const Way> ways);

  // What rails tell; a sentence: the peer may not have said so.
  void put(std::uint16_t value);
  std::optional<std::string> hear(const LossNote& note);

 private:
  struct Outgoing {
    std::span<const std::byte> body{};
    Adapters::Keys keys{};
    PackedKey to{};    // from where the body goes on
    PackedKey word{};  // no bytes: none
    std::uint64_t value = 0;
    std::uint64_t count = 0;  // of puts, with this one
  };
  static PackedKey part_of(const PackedKey& all, std::uint64_t offset);
  void post(Outgoing& put, const Way& way);

  std::unordered_map<net::RemoteKey, PackedKey> there_;
  net::RemoteKey last_ = 0;
  std::array<Outgoing, kDepth> outgoing_;
  std::optional<Way> way_;  // none yet, or the peer has said what came by the last one
  // Of puts, from 0: done_ <= written_ <= pushed_.
  std::uint64_t pushed_ = 0, written_ = 0, done_ = 0;
};

}  // namespace rondo::verbs
