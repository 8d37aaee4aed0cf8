// SPDX-License-Identifier: Apache-2.0
#include "collectives/faults/fault_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/env.h"
#include "kernels/cuda/counted_message_args.h"

namespace rondo::fault_texts {
namespace {

constexpr std::string_view kSameCalls = "all ranks must make the same calls in the same order";

// Only RONDO_TIMEOUT's own limit is changed by it: a program may have set another one.
std::string_view limit_text(double seconds) {
  const bool of_variable = std::abs(seconds - env::get_seconds("RONDO_TIMEOUT")) < 1e-6 * seconds;
  return of_variable ? "RONDO_TIMEOUT sets this limit"
                     : "the communicator's timeout sets this limit";
}

MadeCall made(int rank, const CallRecord& record) { return {rank, to_string(record)}; }

void lower_first(MadeCall& one, MadeCall& other) {
  if (other.rank < one.rank) std::swap(one, other);
}

// In how the call is launched, not in what the program called.
bool differ_in_launch_only(CallRecord one, CallRecord other) {
  if (one == other || one.in_windows() + other.in_windows() == 0) return false;
  one.clear_launch();
  other.clear_launch();
  return one == other;
}

// when: "in call 7", "on their devices". The records differ in how the call is launched.
std::string different_launches(std::string_view when, int rank, CallRecord record, int other,
                               const CallRecord& record_of_other) {
  const bool engines = record.by_engines(), engines_of_other = record_of_other.by_engines();
  const bool is_inside = record.in_windows();
  const int inside = is_inside ? rank : other, outside = is_inside ? other : rank;
  const int by = engines ? rank : other, apart = engines ? other : rank;
  record.clear_launch();
  if (engines && engines_of_other)
    return fmt::format(
        "Mismatched calls: {}, {}, copy engines move data that are in place on rank {} or rank {} "
        "alone; call it in place on all ranks (recvbuff of a gather and sendbuff of a scatter are "
        "then the root's on all ranks), or on none",
        when, to_string(record), std::min(rank, other), std::max(rank, other));
  if (engines || engines_of_other)
    return fmt::format(
        "Mismatched calls: {}, {}, copy engines (CTAPolicy ZERO) move the data of rank {} and not "
        "those of rank {}; give all ranks this policy, and their buffers at the same places of the "
        "same symmetric windows",
        when, to_string(record), by, apart);
  return fmt::format(
      "Mismatched calls: {}, {}, the buffers of rank {} lie in symmetric windows and those of rank "
      "{} do not; give all ranks' buffers at the same places of the same windows, or register "
      "these without NCCL_WIN_COLL_SYMMETRIC",
      when, to_string(record), inside, outside);
}

std::string_view words(Parting parting) {
  return parting == Parting::kEnded ? "ended" : "left the communicator";
}

}  // namespace

std::string list_of(std::span<const int> ranks) {
  if (ranks.empty()) return "its peers";
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string different_calls(std::string_view when, MadeCall one, MadeCall other, bool grouped) {
  lower_first(one, other);
  return fmt::format("Mismatched calls: {}rank {} called {} and rank {} called {}; {}{}", when,
                     one.rank, one.call, other.rank, other.call, kSameCalls,
                     grouped ? ", grouped alike" : "");
}

std::string different_calls(std::uint64_t call, int rank, const CallRecord& record, int other,
                            const CallRecord& record_of_other) {
  if (differ_in_launch_only(record, record_of_other))
    return different_launches(fmt::format("in call {}", call), rank, record, other,
                              record_of_other);
  return different_calls(fmt::format("in call {}, ", call), made(rank, record),
                         made(other, record_of_other));
}

std::string different_calls_before(std::string_view when, int rank, int other) {
  return fmt::format("Mismatched calls: {}, rank {} and rank {} made different calls; {}", when,
                     std::min(rank, other), std::max(rank, other), kSameCalls);
}

std::string different_replays(int rank, const CallRecord& record, int other,
                              const CallRecord& record_of_other) {
  if (differ_in_launch_only(record, record_of_other))
    return different_launches("on their devices", rank, record, other, record_of_other);
  MadeCall one = made(rank, record), two = made(other, record_of_other);
  lower_first(one, two);
  return fmt::format(
      "Mismatched calls: on their devices, rank {} is in {} and rank {} in {}; {}, "
      "and replay equal graphs",
      one.rank, one.call, two.rank, two.call, kSameCalls);
}

std::string different_replay(int rank, const CallRecord& record) {
  return fmt::format(
      "Mismatched calls: in a replayed graph, rank {} made another call than rank 0 "
      "(rank {}'s is {}); {}",
      rank, rank, to_string(record), kSameCalls);
}

std::string different_replays_before(const CallRecord& record, int rank, int other) {
  return fmt::format(
      "Mismatched calls: on their devices, rank {} and rank {} have run different "
      "calls before {}; {}, and replay equal graphs",
      std::min(rank, other), std::max(rank, other), to_string(record), kSameCalls);
}

std::string different_sizes(int rank, const CallRecord& record, int other,
                            const CallRecord& record_of_other) {
  MadeCall one = made(rank, record), two = made(other, record_of_other);
  lower_first(one, two);
  return fmt::format(
      "Mismatched calls: rank {} called {} with rank {}, which called {}; a send "
      "and its receive must have the same size",
      one.rank, one.call, two.rank, two.call);
}

std::string different_messages(int rank, const CallRecord& record, int other,
                               const CallRecord& record_of_other) {
  const auto is_counted = [](const CallRecord& one) {
    return one.collective == Collective::kAllToAllV;
  };
  if (is_counted(record) != is_counted(record_of_other))
    return different_calls("", made(rank, record), made(other, record_of_other)) +
           "; rondoAllToAllvDevice does not fit rondoAllToAllv, ncclSend or ncclRecv";
  const auto bytes = [](const CallRecord& one) { return one.count * size_of(one.type); };
  return bytes(record) == bytes(record_of_other)
             ? ""
             : different_sizes(rank, record, other, record_of_other);
}

std::string wait_cycle(std::vector<MadeCall> cycle) {
  const auto lowest =
      std::min_element(cycle.begin(), cycle.end(),
                       [](const MadeCall& a, const MadeCall& b) { return a.rank < b.rank; });
  std::rotate(cycle.begin(), lowest, cycle.end());
  std::string text = "Mismatched calls: ranks wait for each other:";
  for (std::size_t i = 0; i < cycle.size(); ++i)
    text += fmt::format("{} rank {} called {} and waits for rank {}", i == 0 ? "" : ";",
                        cycle[i].rank, cycle[i].call, cycle[i].waits_for);
  return fmt::format("{}; {}", text, kSameCalls);
}

std::string waits_outside(const MadeCall& outside, const MadeCall& inside) {
  return fmt::format(
      "Mismatched calls: rank {} called {} and waits for rank {}, which called {}; "
      "{}",
      outside.rank, outside.call, inside.rank, inside.call, kSameCalls);
}

std::string wrong_result(std::string_view call, const WrongElement& wrong) {
  const std::string of_group =
      wrong.segment < 0 ? "" : fmt::format(" of the group's call {}", wrong.segment + 1);
  const std::string truth = wrong.source < 0
                                ? fmt::format("but the inputs of all ranks give {}", wrong.want)
                                : fmt::format("but rank {} sent {}", wrong.source, wrong.want);
  return fmt::format(
      "Corrupt data: in {}, element {}{} is {} on {}, {}; RONDO_VERIFY found {} of {} compared "
      "elements wrong there, and wrong elements on {} of {}; run rondo doctor --self-test on these "
      "hosts: their memory, processors or links corrupt data",
      call, wrong.element, of_group, wrong.got, wrong.name, truth, wrong.number, wrong.compared,
      list_of(wrong.ranks), wrong.size);
}

std::string timed_out(int rank, double seconds, std::string_view awaited, std::string_view call) {
  return fmt::format("rank {} waited {} s for {} in {}; {}", rank, seconds, awaited, call,
                     limit_text(seconds));
}

std::string timed_out_meeting(int rank, double seconds, std::span<const int> missing) {
  return fmt::format("rank {} waited {} s for {} to make the same call; {}", rank, seconds,
                     list_of(missing), limit_text(seconds));
}

std::string waits_for_long(int rank, double seconds, std::span<const int> ranks,
                           std::string_view call) {
  return fmt::format("rank {} has waited {:.0f} s for {}{}{}; it keeps waiting", rank, seconds,
                     list_of(ranks), call.empty() ? " to make the same call" : " in ", call);
}

std::string left_before_meeting(std::string_view name, int waiting) {
  return fmt::format("{} left the communicator without making a call in which rank {} waits for it",
                     name, waiting);
}

std::string timed_out_ahead(int rank, double seconds, std::size_t ahead) {
  return fmt::format(
      "rank {} is {} calls ahead of its stream, which has finished no call for {} s: its peers "
      "have not made these calls, or the stream waits for other work; {}",
      rank, ahead, seconds, limit_text(seconds));
}

std::string timed_out_ahead_of(int rank, double seconds, std::uint64_t ahead,
                               std::span<const int> others) {
  return fmt::format(
      "rank {} is {} calls ahead of {}, as many as a GPU's queue holds, and waited {} s for {} to "
      "make the next one; {}",
      rank, ahead, list_of(others), seconds, others.size() == 1 ? "it" : "them",
      limit_text(seconds));
}

std::string timed_out_in_kernel(const KernelWait& wait, const CallRecord& call,
                                std::span<const int> missing) {
  // The awaited rank may itself wait for a rank that never made the call.
  const bool named = missing.empty() || (missing.size() == 1 && missing[0] == wait.peer);
  return fmt::format(
      "rank {} waited {} s in the kernel of {} for rank {} to {} (channel {}, step "
      "{}){}; {}",
      wait.rank, wait.seconds, to_string(call), wait.peer,
      wait.wants_room ? "take data" : "send data", wait.channel, wait.step,
      named ? "" : fmt::format("; {} did not make this call", list_of(missing)),
      limit_text(wait.seconds));
}

std::string wrong_count(const WrongCount& found, const CallRecord& call) {
  const auto beyond = [&](const char* buffer, const char* direction) {
    return fmt::format(
        "rank {}: the part of {} {} rank {} ends at element {}, but its memory at element {}, in "
        "{}",
        found.rank, buffer, direction, found.peer, found.sent, found.taken, to_string(call));
  };
  switch (found.why) {
    case cuda::CountFault::kAboveMaximum:
      return fmt::format("rank {} sends {} elements to rank {}, more than maxcount {}, in {}",
                         found.rank, found.sent, found.peer, found.taken, to_string(call));
    case cuda::CountFault::kSendsBeyond:
      return beyond("sendbuff", "for");
    case cuda::CountFault::kReceivesBeyond:
      return beyond("recvbuff", "from");
    case cuda::CountFault::kExpectsOther:
      break;
  }
  return fmt::format(
      "rank {} sends {} elements to rank {}, which expects {} of it, in {}: sendcounts and "
      "recvcounts of a pair must be equal",
      found.peer, found.sent, found.rank, found.taken, to_string(call));
}

std::string gone_before(std::string_view name, Parting parting, std::string_view call,
                        int waiting) {
  return fmt::format("{} {} before it finished {}, in which rank {} waits for it", name,
                     words(parting), call, waiting);
}

std::string gone_from_message(std::string_view name, Parting parting, std::string_view call,
                              int waiting) {
  return fmt::format("{} {} while rank {} was in {} with it", name, words(parting), waiting, call);
}

std::string left_early(int rank) {
  return fmt::format("rank {} left the communicator before its calls had finished", rank);
}

std::string lost(std::string_view name, std::string_view call, int waiting, std::string_view why) {
  return fmt::format("{} is gone in {}, in which rank {} waits for it: {}", name, call, waiting,
                     why);
}

std::string unreachable(std::string_view name, std::string_view call, int waiting,
                        std::string_view why) {
  return fmt::format("{} cannot be reached in {}, in which rank {} waits for it: {}", name, call,
                     waiting, why);
}

}  // namespace rondo::fault_texts
