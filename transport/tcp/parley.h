// Parley: one side of the handshake on one socket, a step at a time.
//
//   Parley parley = Parley::of_connector(secret, hello);
//   while (parley.step(stream) == Parley::kPending) poll();
#pragma once

#include "transport/tcp/handshake.h"
#include "transport/tcp/stream.h"

namespace rondo::tcp {

class Parley {
 public:
  enum State { kPending, kAgreed, kBroken };

  static Parley of_connector(const Digest& secret, const Hello& hello);
  static Parley of_acceptor(const Digest& secret);

  State step(Stream& stream);
  const Hello& hello() const { return hello_; }                 // once agreed
  bool answered() const { return answered_; }                   // the other side proved itself
  const std::string& why_broken() const { return complaint_; }  // names no rank
  int error() const { return error_; }                          // errno that broke it, or 0

 private:
  explicit Parley(const Digest& secret) : secret_(secret) {}
  void say(const Bytes& bytes);
  State transfer(Stream& stream);
  State consider();
  State refuse(std::string complaint);

  Digest secret_;
  bool connector_ = false;
  bool answered_ = false;
  Hello hello_;
  Bytes hello_bytes_;
  Bytes challenge_bytes_;
  Bytes outbox_;
  std::size_t sent_ = 0;
  Bytes inbox_;  // as long as what is expected; empty: nothing is
  std::size_t heard_ = 0;
  std::string complaint_;
  int error_ = 0;
};

}  // namespace rondo::tcp
