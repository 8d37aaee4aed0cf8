// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/staging/hosted_call.h"

#include <algorithm>

namespace rondo::gpu {
namespace {

bool same_one_sided(const std::vector<Call>& some, const std::vector<Call>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const Call& a, const Call& b) {
                      return a.record == b.record && a.peer == b.peer && a.signal == b.signal &&
                             a.window == b.window && a.offset == b.offset && a.send == b.send;
                    });
}

}  // namespace

bool MessagePieces::same_as(const MessagePieces& other) const {
  return peer == other.peer && sends == other.sends &&
         std::equal(pieces.begin(), pieces.end(), other.pieces.begin(), other.pieces.end(),
                    [](const Piece& a, const Piece& b) { return a.same_as(b); });
}

bool HostedCall::same_as(const HostedCall& other) const {
  return record == other.record && scalar == other.scalar && late_scalar == other.late_scalar &&
         std::equal(messages.begin(), messages.end(), other.messages.begin(), other.messages.end(),
                    [](const auto& a, const auto& b) { return a.same_as(b); }) &&
         std::equal(rounds.begin(), rounds.end(), other.rounds.begin(), other.rounds.end(),
                    same_one_sided) &&
         same_one_sided(waits, other.waits);
}

// Puts and signals: one step per round, and one for the waits, if any.
std::uint64_t HostedCall::steps(const CallSteps& of_collective) const {
  if (!rounds.empty() || !waits.empty()) return rounds.size() + (waits.empty() ? 0 : 1);
  if (messages.empty()) return of_collective.size();
  std::uint64_t rounds = 1;
  for (const MessagePieces& one : messages)
    rounds = std::max<std::uint64_t>(rounds, one.pieces.size());
  return rounds;
}

MessagePieces& HostedCall::pieces_of(int peer, bool sends) {
  for (MessagePieces& one : messages)
    if (one.peer == peer && one.sends == sends) return one;
  return messages.emplace_back(MessagePieces{peer, sends, {}});
}

}  // namespace rondo::gpu
