// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/calls/posted_calls.h"

#include <algorithm>
#include <cassert>

#include "collectives/faults/fault_texts.h"

namespace rondo::gpu {

std::vector<Buffers> JointCall::buffers(std::vector<Buffers> all) const {
  all.clear();
  for (const PostedCall& one : posted) all.push_back(buffers_of(one.call));
  return all;
}

int max_ctas_of(const Call& call) {
  return call.limits.max_ctas > 0 ? call.limits.max_ctas : kNoCtaLimit;
}

bool by_engines(std::span<const PostedCall> posted) {
  return std::any_of(posted.begin(), posted.end(), [](const PostedCall& one) {
    return one.call.limits.mover == CallLimits::Mover::kCopyEngines;
  });
}

int JointCall::max_ctas() const {
  int maximum = kNoCtaLimit;
  for (const PostedCall& one : posted) maximum = std::min(maximum, max_ctas_of(one.call));
  return maximum;
}

PostedCalls::PostedCalls(std::span<const int> here)
    : here_(here.begin(), here.end()),
      ranks_(here.size()),
      sends_(ranks_.size() * ranks_.size()),
      receives_(ranks_.size() * ranks_.size()) {}

Result<const JointCall*> PostedCalls::post_collective(int place, const PostedCall& call,
                                                      Mismatch* mismatch) {
  const std::size_t n = here_.size();
  const std::uint64_t number = ++ranks_[place].collectives;
  while (launched_ + collectives_.size() < number)
    collectives_.push_back({std::vector<PostedCall>(n), std::vector<bool>(n), 0});
  JointCall& joint = collectives_[number - 1 - launched_];
  for (int other = 0; other < size(); ++other) {
    const CallRecord& theirs = joint.posted[other].call.record;
    if (!joint.here[other] || theirs == call.call.record) continue;
    *mismatch = {
        here_[other], call.call.record, theirs,
        fault_texts::different_calls(number, here_[place], call.call.record, here_[other], theirs)};
    return fail(StatusCode::kInvalidUsage, "{}", mismatch->text);
  }
  assert(!joint.here[place] && joint.arrived < size());
  joint.posted[place] = call;
  joint.here[place] = true;
  return ++joint.arrived < size() ? nullptr : &joint;
}

void PostedCalls::launched() {
  for (; !collectives_.empty() && collectives_.front().arrived == size(); ++launched_)
    collectives_.pop_front();
}

bool PostedCalls::completes(int place, std::span<const Call> calls) const {
  std::uint64_t next = ranks_[place].collectives - launched_;  // index among those not launched
  return std::all_of(calls.begin(), calls.end(), [&](const Call& call) {
    const int arrived = next < collectives_.size() ? collectives_[next].arrived : 0;
    ++next;
    return !is_point_to_point(call) && arrived + 1 == size();
  });
}

Status PostedCalls::post_message(int place, const PostedCall& call, Mismatch* mismatch,
                                 std::vector<MatchedMessage>* matched) {
  const auto found = std::lower_bound(here_.begin(), here_.end(), call.call.peer);
  const int peer = static_cast<int>(found - here_.begin());
  const bool sends = call.call.record.collective == Collective::kSend;
  assert(peer < size() && here_[peer] == call.call.peer);
  const int from = sends ? place : peer, to = sends ? peer : place;
  ++ranks_[place].messages;
  auto& own_queue = (sends ? sends_ : receives_)[from * size() + to];
  auto& other_queue = (sends ? receives_ : sends_)[from * size() + to];
  if (other_queue.empty()) {
    own_queue.push_back(call);
    return ok_status();
  }
  const PostedCall theirs = other_queue.front();
  other_queue.pop_front();
  const CallRecord &own = call.call.record, &other = theirs.call.record;
  if (own.count * size_of(own.type) != other.count * size_of(other.type)) {
    *mismatch = {here_[peer], own, other,
                 fault_texts::different_sizes(here_[place], own, here_[peer], other)};
    return fail(StatusCode::kInvalidUsage, "{}", mismatch->text);
  }
  matched->push_back({sends ? call : theirs, sends ? theirs : call, from, to});
  return ok_status();
}

void PostedCalls::launched(std::span<const MatchedMessage> messages) {
  for (const MatchedMessage& message : messages) {
    ++ranks_[message.from].messages_launched;
    ++ranks_[message.to].messages_launched;
  }
}

bool PostedCalls::is_launched(int place) const {
  const RankState& state = ranks_[place];
  assert(state.messages_launched <= state.messages);
  return state.collectives <= launched_ && state.messages_launched == state.messages;
}

std::vector<int> PostedCalls::missing(int place) const {
  std::vector<int> found;
  const bool in_collective = ranks_[place].collectives > launched_;
  for (int peer = 0; peer < size(); ++peer) {
    const bool lacks = in_collective ? !collectives_.front().here[peer]
                                     : !sends_[place * size() + peer].empty() ||
                                           !receives_[peer * size() + place].empty();
    if (lacks) found.push_back(here_[peer]);
  }
  return found;
}

}  // namespace rondo::gpu
