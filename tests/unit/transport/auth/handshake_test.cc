// SPDX-License-Identifier: Apache-2.0
// The handshake proves to each side that the other holds the secret and means the same endpoint.
// Nothing else passes, whatever happens to the bytes on their way.
#include "transport/auth/handshake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/unit/transport/auth/secret_of.h"

namespace rondo::auth {
namespace {

using State = Handshake::State;

Bytes bytes_of(std::string_view text) {
  const auto span = std::as_bytes(std::span(text));
  return {span.begin(), span.end()};
}

// Takes all unsent bytes of one side.
Bytes take(Handshake& from) {
  const ByteSpan unsent = from.unsent();
  Bytes bytes(unsent.begin(), unsent.end());
  if (!bytes.empty()) from.sent(bytes.size());
  return bytes;
}

// Passes bytes to the other side until it wants no more; returns the number taken.
std::size_t give(Handshake& to, ByteSpan bytes, std::size_t at_once = 1000) {
  std::size_t given = 0;
  while (to.talking() && !to.room().empty() && given < bytes.size()) {
    const std::size_t count = std::min({to.room().size(), bytes.size() - given, at_once});
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(given), count, to.room().begin());
    to.received(count);
    given += count;
  }
  return given;
}

// A man in the middle: receives each message and its number, and may change it.
using Middle = std::function<void(Bytes&, int message)>;

struct Talk {
  Handshake connector;
  Handshake acceptor;
  Digest acceptors_secret;
  Bytes payload = bytes_of("rank 7 of 8");
  std::vector<Bytes> recorded{};

  explicit Talk(const Digest& secret = secret_of(1), std::string_view wanted = "test rank 3",
                std::string_view is = "test rank 3", const Digest& acceptors = secret_of(1))
      : connector(Handshake::connector(secret, wanted)),
        acceptor(Handshake::acceptor(is)),
        acceptors_secret(acceptors) {}

  Talk& run(const Middle& middle = {}) {
    for (int message = 0; message < 4; ++message) {
      Handshake& from = message % 2 == 1 ? acceptor : connector;
      Handshake& to = message % 2 == 1 ? connector : acceptor;
      if (from.state() == State::kTurn && message == 1) from.challenge(acceptors_secret);
      if (from.state() == State::kTurn && message == 2) from.answer(payload);
      Bytes bytes = take(from);
      if (middle) middle(bytes, message);
      recorded.push_back(bytes);
      give(to, bytes);
    }
    return *this;
  }
  bool acceptor_proven() const { return acceptor.state() == State::kProven; }
  bool proven() const { return acceptor_proven() && connector.state() == State::kProven; }
  bool connector_refused() const { return connector.state() == State::kRefused; }
};

TEST(Handshake, ProvesBothSidesAndGivesThemOneKeyAndThePayload) {
  Talk talk;
  talk.run();
  ASSERT_EQ(talk.connector.state(), State::kProven) << talk.connector.why();
  ASSERT_EQ(talk.acceptor.state(), State::kProven) << talk.acceptor.why();
  EXPECT_EQ(talk.connector.session_key(), talk.acceptor.session_key());
  EXPECT_NE(talk.connector.session_key(), Digest{});
  EXPECT_TRUE(std::ranges::equal(talk.acceptor.payload(), talk.payload));
  EXPECT_EQ(talk.acceptor.tag(), tag_of(secret_of(1)));
  Talk again;
  EXPECT_NE(again.run().acceptor.session_key(), talk.acceptor.session_key());
}

TEST(Handshake, TakesBytesOneByOneAndNoneBeyondItsOwn) {
  Handshake connector = Handshake::connector(secret_of(1), "here");
  Handshake acceptor = Handshake::acceptor("here");
  give(acceptor, take(connector), 1);
  ASSERT_EQ(acceptor.state(), State::kTurn);
  acceptor.challenge(secret_of(1));
  Bytes challenge = take(acceptor);
  const std::size_t own = challenge.size();
  challenge.push_back(std::byte{77});  // bytes that follow belong to the connection
  EXPECT_EQ(give(connector, challenge, 1), own);
  connector.answer({});
  Bytes answer = take(connector);
  answer.push_back(std::byte{78});
  EXPECT_EQ(give(acceptor, answer, 1), answer.size() - 1);
  Bytes welcome = take(acceptor);
  EXPECT_EQ(acceptor.state(), State::kProven);
  welcome.push_back(std::byte{79});
  EXPECT_EQ(give(connector, welcome, 1), welcome.size() - 1);
  EXPECT_EQ(connector.state(), State::kProven);
}

TEST(Handshake, RefusesAWrongSecretOnBothSides) {
  Talk talk(secret_of(1), "here", "here", secret_of(2));
  EXPECT_TRUE(talk.run().connector_refused());
  EXPECT_FALSE(talk.acceptor_proven());
}

// A rank that holds the right secret but answers in another rank's place.
TEST(Handshake, RefusesAnotherEndpoint) {
  Talk talk(secret_of(1), "test rank 3", "test rank 4");
  EXPECT_TRUE(talk.run().connector_refused());
  EXPECT_NE(talk.connector.why().find("test rank 3"), std::string::npos) << talk.connector.why();
  EXPECT_FALSE(talk.acceptor_proven());
}

// An answer for one endpoint proves nothing to another, even if the connector did not check.
TEST(Handshake, AnAnswerForAnotherEndpointIsNoProof) {
  Handshake connector = Handshake::connector(secret_of(1), "test rank 3");
  Handshake right = Handshake::acceptor("test rank 3");
  const Bytes hello = take(connector);
  give(right, hello);
  right.challenge(secret_of(1));
  give(connector, take(right));
  ASSERT_EQ(connector.state(), State::kTurn);
  connector.answer({});
  Handshake wrong = Handshake::acceptor("test rank 4");
  give(wrong, hello);
  wrong.challenge(secret_of(1));
  take(wrong);
  give(wrong, take(connector));
  EXPECT_EQ(wrong.state(), State::kRefused);
}

TEST(Handshake, EveryFlippedBitOfEveryMessageIsNoticed) {
  std::size_t bytes = 0;
  for (int message = 0; message < 4; ++message) {
    Talk plain;
    const std::size_t length = plain.run().recorded[static_cast<std::size_t>(message)].size();
    for (std::size_t at = 0; at < length; ++at, ++bytes) {
      for (int bit = 0; bit < 8; ++bit) {
        Talk talk;
        talk.run([&](Bytes& sent_bytes, int now) {
          if (now == message && at < sent_bytes.size())
            sent_bytes[at] ^= static_cast<std::byte>(1 << bit);
        });
        ASSERT_FALSE(message < 3 ? talk.acceptor_proven() : talk.proven())
            << "message " << message << ", byte " << at;
      }
    }
  }
  EXPECT_GT(bytes, 150u);
}

TEST(Handshake, EveryInsertedOrLostByteOfEveryMessageIsNoticed) {
  for (int message = 0; message < 4; ++message) {
    Talk plain;
    const std::size_t length = plain.run().recorded[static_cast<std::size_t>(message)].size();
    for (std::size_t at = 0; at < length; ++at) {
      for (const bool insert : {true, false}) {
        Talk talk;
        talk.run([&](Bytes& sent_bytes, int now) {
          if (now != message || at >= sent_bytes.size()) return;
          const auto place = sent_bytes.begin() + static_cast<std::ptrdiff_t>(at);
          if (insert) {
            sent_bytes.insert(place, ~*place);  // an equal byte would leave the message unchanged
          } else {
            sent_bytes.erase(place);
          }
        });
        // Bytes after the last message belong to the connection.
        ASSERT_FALSE(message < 3 ? talk.acceptor_proven() : talk.proven())
            << "message " << message << ", byte " << at;
      }
    }
  }
}

TEST(Handshake, AReplayedConversationIsRefused) {
  Talk first;
  first.run();
  ASSERT_TRUE(first.acceptor_proven());
  Handshake acceptor = Handshake::acceptor("test rank 3");
  give(acceptor, first.recorded[0]);
  acceptor.challenge(secret_of(1));
  take(acceptor);
  give(acceptor, first.recorded[2]);
  EXPECT_EQ(acceptor.state(), State::kRefused);
  Handshake connector = Handshake::connector(secret_of(1), "test rank 3");
  take(connector);
  give(connector, first.recorded[1]);
  EXPECT_EQ(connector.state(), State::kRefused);
}

// A visitor that returns an acceptor's own proof has proved nothing.
TEST(Handshake, AReflectedProofIsRefused) {
  Handshake connector = Handshake::connector(secret_of(1), "here");
  Handshake acceptor = Handshake::acceptor("here");
  give(acceptor, take(connector));
  acceptor.challenge(secret_of(1));
  const Bytes challenge = take(acceptor);
  Bytes answer = challenge;
  answer[4] = std::byte{3};
  const std::size_t header = 7;
  answer.erase(answer.begin() + header, answer.end() - sizeof(Digest));
  answer[5] = std::byte{sizeof(Digest)};
  EXPECT_EQ(give(acceptor, answer), answer.size());
  EXPECT_EQ(acceptor.state(), State::kRefused);
  EXPECT_NE(acceptor.why().find("prove"), std::string::npos) << acceptor.why();
}

TEST(Handshake, RefusesGarbageAtItsHeaderAndLongMessages) {
  Handshake acceptor = Handshake::acceptor("here");
  give(acceptor, bytes_of("GET / H"));  // as long as a header
  EXPECT_EQ(acceptor.state(), State::kRefused);
  Talk talk;
  talk.payload.assign(Handshake::kMaxPayload, std::byte{1});
  EXPECT_TRUE(talk.run().acceptor_proven());
  Talk longer;
  longer.run([](Bytes& sent_bytes, int message) {
    if (message != 2) return;
    const std::size_t length = Handshake::kMaxPayload + sizeof(Digest) + 1;
    sent_bytes[5] = static_cast<std::byte>(length & 0xff);
    sent_bytes[6] = static_cast<std::byte>(length >> 8);
    sent_bytes.resize(7 + length);
  });
  EXPECT_EQ(longer.acceptor.state(), State::kRefused);
  EXPECT_NE(longer.acceptor.why().find("does not speak"), std::string::npos);
}

TEST(Handshake, SendsEachSideTheOthersBuild) {
  Build other;
  other.protocol += 1;
  other.pointer_bytes = 4;
  Handshake connector = Handshake::connector(secret_of(1), "here", other);
  Handshake acceptor = Handshake::acceptor("here");
  give(acceptor, take(connector));
  acceptor.challenge(secret_of(1));
  give(connector, take(acceptor));
  EXPECT_EQ(acceptor.peer_build(), other);
  EXPECT_EQ(connector.peer_build(), Build{});
  EXPECT_NE(other.text().find("32 bits"), std::string::npos) << other.text();
}

}  // namespace
}  // namespace rondo::auth
