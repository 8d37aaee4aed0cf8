#include "transport/tcp/parley.h"

namespace rondo::tcp {

Parley Parley::of_connector(const Digest& secret, const Hello& hello) {
  Parley made(secret);
  made.connector_ = true;
  made.hello_ = hello;
  made.hello_bytes_ = encode(hello);
  made.say(made.hello_bytes_);
  made.inbox_.resize(kChallengeBytes);
  return made;
}

Parley Parley::of_acceptor(const Digest& secret) {
  Parley made(secret);
  made.inbox_.resize(kHelloBytes);
  return made;
}

void Parley::say(const Bytes& bytes) {
  outbox_ = bytes;
  sent_ = 0;
}

Parley::State Parley::refuse(std::string complaint) {
  complaint_ = std::move(complaint);
  return kBroken;
}

Parley::State Parley::transfer(Stream& stream) {
  IoOutcome outcome;
  while (sent_ < outbox_.size()) {
    if (!stream.writable()) return kPending;
    iovec part{outbox_.data() + sent_, outbox_.size() - sent_};
    outcome = stream.write({&part, 1});
    sent_ += outcome.bytes;
    if (outcome.over()) break;
  }
  while (heard_ < inbox_.size() && !outcome.over()) {
    if (!stream.readable()) return kPending;
    iovec part{inbox_.data() + heard_, inbox_.size() - heard_};
    outcome = stream.read({&part, 1});
    heard_ += outcome.bytes;
  }
  if (!outcome.over()) return kAgreed;
  error_ = outcome.error;
  return refuse(text_of(outcome));
}

Parley::State Parley::step(Stream& stream) {
  for (;;) {
    if (const State moved = transfer(stream); moved != kAgreed) return moved;
    if (inbox_.empty()) return kAgreed;
    if (consider() == kBroken) return kBroken;
  }
}

Parley::State Parley::consider() {
  heard_ = 0;
  if (connector_) {
    const auto challenge = decode_challenge(inbox_);
    if (!challenge || !auth::same_digest(acceptor_proof(secret_, hello_bytes_, challenge->nonce),
                                         challenge->proof))
      return refuse("who listens there is no rank of this communicator");
    answered_ = true;
    say(encode(Answer{connector_proof(secret_, hello_bytes_, inbox_)}));
    inbox_.clear();
  } else if (hello_bytes_.empty()) {
    const auto hello = decode_hello(inbox_);
    if (!hello || !auth::same_digest(hello->tag, tag_of(secret_)))
      return refuse("a stranger knocked");
    hello_ = *hello;
    hello_bytes_ = inbox_;
    Challenge challenge;
    challenge.nonce = auth::random_digest();
    challenge.proof = acceptor_proof(secret_, hello_bytes_, challenge.nonce);
    challenge_bytes_ = encode(challenge);
    say(challenge_bytes_);
    inbox_.resize(kAnswerBytes);
  } else {
    const auto answer = decode_answer(inbox_);
    if (!answer ||
        !auth::same_digest(connector_proof(secret_, hello_bytes_, challenge_bytes_), answer->proof))
      return refuse("a stranger could not prove that it knows the secret");
    answered_ = true;
    inbox_.clear();
  }
  return kPending;
}

}  // namespace rondo::tcp
