// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/communicator_state.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "base/bytes.h"
#include "base/poll_until.h"
#include "base/printable.h"
#include "base/seconds.h"
#include "collectives/context/gpu_rank.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"

namespace rondo {

namespace {

Result<CreateRequest> under_first(const CommunicatorState& parent, const std::vector<int>& members,
                                  const bootstrap::Secret& secret) {
  const auto mine =
      std::find(members.begin(), members.end(), parent.members.rank) - members.begin();
  assert(!members.empty() && mine < static_cast<std::ptrdiff_t>(members.size()) &&
         "this rank is a member of its child");
  CreateRequest child;
  child.rank = static_cast<int>(mine);
  child.size = static_cast<int>(members.size());
  RONDO_TRY(child.id,
            bootstrap::child_id(parent.members.ranks[static_cast<std::size_t>(members[0])].address,
                                secret));
  if (child.rank == 0) child.serve = parent.listener;
  if (parent.members.placement) child.graph = parent.members.placement->own;
  return child;
}

}  // namespace

Result<CreateRequest> child_request(const CommunicatorState& parent,
                                    const std::vector<int>& members, std::string_view kind,
                                    std::uint64_t number) {
  ByteWriter context;
  context.put(number);
  for (const int member : members) context.put(member);
  return under_first(parent, members, parent.secret.derive(kind, context.take()));
}

Result<CreateRequest> survivors_request(const CommunicatorState& parent,
                                        const std::vector<int>& survivors) {
  const int leader = survivors[0];
  return under_first(parent, survivors,
                     parent.secret.derive("shrink", std::as_bytes(std::span(&leader, 1))));
}

namespace {

using Blob = std::vector<std::byte>;
using fault_texts::Parting;

}  // namespace

class MeetingAgain {
 public:
  explicit MeetingAgain(CommunicatorState& state) : state_(state) {}

  Result<std::vector<Blob>> run(std::string_view what, std::span<const std::byte> mine) {
    RONDO_CHECK_OK(state_.enter());
    what_ = what;
    auto gathered = gather(mine);
    state_.leave();
    if (gathered.ok()) return gathered;
    // Another rank gave up first: waits until its fault arrives here.
    constexpr double kSeconds = 1;
    if (gathered.code() == StatusCode::kRemoteError)
      poll_until([this] { return is_over(); }, seconds_from_now(kSeconds));
    RONDO_CHECK_OK(state_.faults.standing());
    Fault found = Fault::found_by(state_.members.rank, gathered.code(), -1, gathered.error().text);
    if (gone_ >= 0) {
      found.status = StatusCode::kRemoteError;
      found.culprit = gone_;
      found.text = fault_texts::gone_before(state_.members.name_of(gone_), parting_, what_,
                                            state_.members.rank);
    }
    state_.faults.raise(std::move(found));
    return state_.faults.error();
  }

 private:
  // With the secret of a child that does not exist.
  Status open() {
    const int size = state_.members.size;
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    RONDO_TRY(const CreateRequest meeting,
              child_request(state_, ranks, "meeting", ++state_.meetings));
    bootstrap::JoinRequest join;
    join.rank = meeting.rank;
    join.size = size;
    join.id = meeting.id;
    join.timeout = to_nanoseconds(state_.timeout_seconds.load());
    join.aborted = [this] { return is_over(); };
    using bootstrap::Session;
    RONDO_TRY(session_,
              meeting.serve ? Session::serve_and_join(*meeting.serve, join) : Session::join(join));
    return ok_status();
  }

  Result<std::vector<Blob>> gather(std::span<const std::byte> mine) {
    const int size = state_.members.size;
    if (session_ == nullptr) RONDO_CHECK_OK(open());
    session_->set_timeout(to_nanoseconds(state_.timeout_seconds.load()));
    ByteWriter writer;
    writer.put_string(what_);
    writer.put_bytes(mine);
    RONDO_TRY(const auto all, session_->all_gather(writer.take()));
    std::vector<Blob> gathered;
    for (int r = 0; r < size; ++r) {
      ByteReader reader(all[static_cast<std::size_t>(r)]);
      const std::string theirs = printable(reader.get_string());
      if (theirs != what_)
        return fail(StatusCode::kInvalidUsage, "Mismatched calls: rank {} made {}, rank {} made {}",
                    state_.members.rank, what_, r, theirs);
      gathered.push_back(reader.get_bytes());
      if (!reader.ok() || gathered.back().size() != mine.size())
        return fail(StatusCode::kRemoteError, "rank {} sent a note for {} that cannot be read", r,
                    what_);
    }
    return gathered;
  }

  bool is_over() {
    if (!state_.faults.standing().ok()) return true;
    for (int local = 0; local < state_.host.size && gone_ < 0; ++local) {
      const bool left =
          HostAtomics::load_acquire(state_.host.peers[local].progress->state) == kLeft;
      if (!left && !has_ended(state_.members.process_of(local))) continue;
      gone_ = state_.members.local_ranks[local];
      parting_ = left ? Parting::kLeft : Parting::kEnded;
    }
    if (gone_ < 0) gone_ = state_.device->gone();
    return gone_ >= 0;
  }

  CommunicatorState& state_;
  std::string what_;
  std::unique_ptr<bootstrap::Session> session_;
  int gone_ = -1;
  Parting parting_ = Parting::kEnded;
};

Result<std::vector<Blob>> meet_again(CommunicatorState& state, std::string_view what,
                                     std::span<const std::byte> mine) {
  return MeetingAgain(state).run(what, mine);
}

Result<std::vector<Blob>> meet_in_order(CommunicatorState& state, std::string_view what,
                                        std::span<const std::byte> mine) {
  if (state.kept_meeting == nullptr) state.kept_meeting = std::make_shared<MeetingAgain>(state);
  return state.kept_meeting->run(what, mine);
}

}  // namespace rondo
