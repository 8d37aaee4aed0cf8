// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/calls/posted_calls.h"

#include <algorithm>
#include <cassert>

#include "collectives/faults/fault_texts.h"

namespace rondo::gpu {

PostedCalls::PostedCalls(std::span<const int> here)
    : here_(here.begin(), here.end()),
      ranks_(here.size()),
      sends_(ranks_.size() * ranks_.size()),
      receives_(ranks_.size() * ranks_.size()) {}

Result<JointCall*> PostedCalls::post_collective(int place, const PostedCall& call,
                                                Mismatch* mismatch) {
  const std::uint64_t number = ++ranks_[place].collectives;
  if (number > newest_) newest_ = number;
  if (newest_ - launched_ > collectives_.size()) grow();
  JointCall& joint = collective(number);
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

// Their places serve later calls, so that a call allocates nothing.
void PostedCalls::launched() {
  for (; launched_ < newest_ && collective(launched_ + 1).arrived == size(); ++launched_) {
    JointCall& done = collective(launched_ + 1);
    std::fill(done.posted.begin(), done.posted.end(), PostedCall{});
    done.here.assign(here_.size(), false);
    done.arrived = 0;
  }
}

JointCall& PostedCalls::collective(std::uint64_t number) const {
  assert(launched_ < number && number <= newest_);
  return *collectives_[number % collectives_.size()];
}

// Calls that are in use keep their addresses.
void PostedCalls::grow() {
  const std::size_t n = here_.size(), old_size = collectives_.size();
  std::vector<std::unique_ptr<JointCall>> more(std::max<std::size_t>(4, 2 * old_size));
  for (std::uint64_t number = launched_ + 1; number < newest_; ++number)
    more[number % more.size()] = std::move(collectives_[number % old_size]);
  for (auto& place : more)
    if (!place)
      place = std::make_unique<JointCall>(
          JointCall{std::vector<PostedCall>(n), std::vector<bool>(n), 0});
  collectives_ = std::move(more);
}

bool PostedCalls::completes(int place, std::span<const Call> calls) const {
  std::uint64_t number = ranks_[place].collectives;
  return std::all_of(calls.begin(), calls.end(), [&](const Call& call) {
    const int arrived = ++number <= newest_ ? collective(number).arrived : 0;
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
    const bool lacks = in_collective ? !collective(launched_ + 1).here[peer]
                                     : !sends_[place * size() + peer].empty() ||
                                           !receives_[peer * size() + place].empty();
    if (lacks) found.push_back(here_[peer]);
  }
  return found;
}

}  // namespace rondo::gpu
