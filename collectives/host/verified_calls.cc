// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/verified_calls.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstring>

#include "base/env.h"
#include "collectives/faults/fault_texts.h"
#include "kernels/host/simd/reduce_kernels.h"

namespace rondo {
namespace {

constexpr std::size_t kGatheredBytes = 1 << 20;      // of a call's slices, over all ranks
constexpr std::size_t kGatheredMessages = 64 << 10;  // the same for messages of unknown lengths
constexpr std::uint64_t kBlockElements = 32;         // fewer of a block: compare fewer blocks

std::uint64_t scrambled(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// A rank's input has a part for each rank.
bool sends_parts(const VerifiedCall& call) {
  const Collective which = call.record.collective;
  return call.messages != nullptr || which == Collective::kReduceScatter ||
         which == Collective::kAllToAll || which == Collective::kScatter;
}

// A rank's output has a part of each rank.
bool receives_parts(const VerifiedCall& call) {
  const Collective which = call.record.collective;
  return which == Collective::kAllGather || which == Collective::kAllToAll ||
         which == Collective::kGather;
}

bool only_root_sends(Collective which) {
  return which == Collective::kBroadcast || which == Collective::kScatter;
}

bool only_root_receives(Collective which) {
  return which == Collective::kReduce || which == Collective::kGather;
}

const Call* message_with(const VerifiedCall& call, Collective direction, int peer) {
  for (const Call& message : *call.messages)
    if (message.record.collective == direction && message.peer == peer) return &message;
  return nullptr;
}

// Copies `count` elements of a block of the input or of the output.
void read_block(const VerifiedCall& call, bool of_output, std::uint64_t block, std::uint64_t at,
                std::uint64_t count, std::byte* to) {
  const std::size_t element = size_of(call.record.type);
  if (call.segments == nullptr) {
    const std::byte* from = of_output ? call.output : call.input;
    std::memcpy(to, from + (block * call.count + at) * element, count * element);
    return;
  }
  const host::Segments& joint = *call.segments;
  joint.for_each(block * call.count + at, count,
                 [&](const host::Segments::Part& part, std::uint64_t before) {
                   const std::byte* from = of_output ? joint.output(part) : joint.input(part);
                   std::memcpy(to + before, from, part.count * element);
                 });
}

}  // namespace

void VerifiedCalls::start(std::uint64_t every, const bootstrap::Secret& secret) {
  every_ = every;
  const bootstrap::Digest digest = secret.derive("verified calls").bytes();
  std::memcpy(&seed_, digest.data(), sizeof(seed_));
}

bool VerifiedCalls::is_next_due() { return scrambled(seed_ ^ ++calls_) % every_ == 0; }

VerifiedCalls::Slice::Range VerifiedCalls::Slice::of(std::uint64_t block_count) const {
  const std::uint64_t count = std::min(capacity, block_count);
  return {random % (block_count - count + 1), count};
}

VerifiedCalls::Slice VerifiedCalls::choose(const VerifiedCall& call) const {
  const auto ranks = static_cast<std::uint64_t>(members_.size);
  const std::size_t element = size_of(call.record.type);
  const std::size_t of_rank =
      (call.messages != nullptr ? kGatheredMessages : kGatheredBytes) / ranks / element;
  Slice slice;
  slice.random = scrambled(scrambled(seed_) ^ calls_);
  if (sends_parts(call)) {
    slice.blocks = static_cast<int>(std::clamp<std::uint64_t>(of_rank / kBlockElements, 1, ranks));
    slice.first_block = static_cast<int>(scrambled(slice.random) % ranks);
  }
  slice.capacity = std::max<std::uint64_t>(of_rank / static_cast<std::uint64_t>(slice.blocks), 1);
  if (call.messages == nullptr) slice.capacity = std::min(slice.capacity, call.count);
  return slice;
}

void VerifiedCalls::keep_inputs(const VerifiedCall& call, const Slice& slice) {
  const std::size_t element = size_of(call.record.type);
  const std::size_t block_bytes = slice.capacity * element;
  kept_.assign(static_cast<std::size_t>(slice.blocks) * block_bytes, std::byte{0});
  const CallRecord& record = call.record;
  if (only_root_sends(record.collective) && record.root != members_.rank) return;
  for (int b = 0; b < slice.blocks; ++b) {
    const int to = (slice.first_block + b) % members_.size;
    std::byte* const place = kept_.data() + static_cast<std::size_t>(b) * block_bytes;
    if (call.messages != nullptr) {
      const Call* message = message_with(call, Collective::kSend, to);
      if (message == nullptr || message->record.count == 0) continue;
      const auto range = slice.of(message->record.count);
      std::memcpy(place, static_cast<const std::byte*>(message->send) + range.at * element,
                  range.count * element);
      continue;
    }
    const auto range = slice.of(call.count);
    read_block(call, false, sends_parts(call) ? static_cast<std::uint64_t>(to) : 0, range.at,
               range.count, place);
    if (reduces(record.collective) && record.op == RedOp::kPreMulSum)
      host::scale(place, place, range.count, record.type, call.scalar);
  }
}

Status VerifiedCalls::gather(const void* mine, void* all, std::size_t bytes) {
  if (members_.size == 1) return std::memcpy(all, mine, bytes), ok_status();
  Call call;
  call.record = {bytes, Collective::kAllGather, DataType::kUint8, RedOp::kSum, 0, -1};
  call.send = mine;
  call.receive = all;
  return exchange_(call);
}

const std::byte* VerifiedCalls::kept_of(int rank, const Slice& slice, std::size_t element) const {
  const int own_part = slice.blocks == 1 && slice.first_block == 0
                           ? 0
                           : (members_.rank - slice.first_block + members_.size) % members_.size;
  assert(own_part < slice.blocks);
  const std::size_t at = static_cast<std::size_t>(rank) * static_cast<std::size_t>(slice.blocks) +
                         static_cast<std::size_t>(own_part);
  return gathered_.data() + at * slice.capacity * element;
}

void VerifiedCalls::compare_sum(const VerifiedCall& call, const Slice& slice, Verdict* verdict) {
  const std::size_t element = size_of(call.record.type);
  const auto range = slice.of(call.count);
  output_.resize(range.count * element);
  read_block(call, true, 0, range.at, range.count, output_.data());
  std::vector<const std::byte*> sources;
  for (int r = 0; r < members_.size; ++r) sources.push_back(kept_of(r, slice, element));
  const CheckedReduction expected{call.record.type, call.record.op, sources, range.count,
                                  call.exactness};
  verdict->compared = range.count;
  const auto found = find_different(expected, output_.data(), scratch_);
  if (!found) return;
  *verdict = {found->number, range.count, range.at + found->at, found->got, found->want, -1, -1};
}

void VerifiedCalls::compare_copy(const VerifiedCall& call, const Slice& slice, int source,
                                 Verdict* verdict) {
  const std::size_t element = size_of(call.record.type);
  const Call* message = nullptr;
  if (call.messages != nullptr) {
    message = message_with(call, Collective::kRecv, source);
    if (message == nullptr || message->record.count == 0) return;
  }
  const auto range = slice.of(message != nullptr ? message->record.count : call.count);
  output_.resize(range.count * element);
  if (message != nullptr) {
    std::memcpy(output_.data(),
                static_cast<const std::byte*>(message->receive) + range.at * element,
                output_.size());
  } else {
    read_block(call, true, receives_parts(call) ? static_cast<std::uint64_t>(source) : 0, range.at,
               range.count, output_.data());
  }
  verdict->compared += range.count;
  const auto found = find_different_copy(call.record.type, kept_of(source, slice, element),
                                         range.count, output_.data());
  if (!found) return;
  if (verdict->wrong == 0)
    *verdict = {0, verdict->compared, range.at + found->at, found->got, found->want, source, -1};
  verdict->wrong += found->number;
}

VerifiedCalls::Verdict VerifiedCalls::compare(const VerifiedCall& call, const Slice& slice) {
  Verdict verdict;
  const CallRecord& record = call.record;
  if (only_root_receives(record.collective) && record.root != members_.rank) return verdict;
  const int own_part = (members_.rank - slice.first_block + members_.size) % members_.size;
  if (sends_parts(call) && own_part >= slice.blocks) return verdict;
  if (reduces(record.collective)) {
    compare_sum(call, slice, &verdict);
  } else {
    for (int source = 0; source < members_.size; ++source)
      if (!only_root_sends(record.collective) || source == record.root)
        compare_copy(call, slice, source, &verdict);
  }
  if (verdict.wrong > 0 && call.segments != nullptr) {
    const host::Segments::Part part = call.segments->part(verdict.element, 1);
    verdict.segment = static_cast<std::int32_t>(part.segment - call.segments->list().data());
    verdict.element = part.offset;
  }
  return verdict;
}

Status VerifiedCalls::raise(const VerifiedCall& call, std::uint64_t number,
                            std::span<const Verdict> verdicts) {
  fault_texts::WrongElement wrong;
  std::vector<int> ranks;
  for (int r = 0; r < members_.size; ++r)
    if (verdicts[static_cast<std::size_t>(r)].wrong > 0) ranks.push_back(r);
  const Verdict& first = verdicts[static_cast<std::size_t>(ranks[0])];
  wrong.name = members_.name_of(ranks[0]);
  wrong.element = first.element;
  wrong.segment = first.segment;
  wrong.source = first.source;
  wrong.got = element_text(call.record.type, first.got);
  wrong.want = element_text(call.record.type, first.want);
  wrong.number = first.wrong;
  wrong.compared = first.compared;
  wrong.ranks = ranks;
  wrong.size = members_.size;
  Fault fault;
  fault.status = StatusCode::kSystemError;
  fault.rank = ranks[0];
  fault.culprit = ranks.size() == 1 ? ranks[0] : -1;
  fault.sequence = number;
  fault.own = call.record;
  fault.text =
      fault_texts::wrong_result(fmt::format("call {}, {}", number, to_string(call.record)), wrong);
  faults_.raise(std::move(fault));
  return faults_.error();
}

Status VerifiedCalls::run(const VerifiedCall& call, const std::function<Status()>& run_call) {
  const Slice slice = choose(call);
  keep_inputs(call, slice);
  RONDO_CHECK_OK(run_call());
  const std::uint64_t number = members_.size == 1 ? calls_ : host_.sequence;
  gathered_.resize(kept_.size() * static_cast<std::size_t>(members_.size));
  RONDO_CHECK_OK(gather(kept_.data(), gathered_.data(), kept_.size()));
  const Verdict mine = compare(call, slice);
  std::vector<Verdict> all(static_cast<std::size_t>(members_.size));
  RONDO_CHECK_OK(gather(&mine, all.data(), sizeof(mine)));
  const auto is_right = [](const Verdict& verdict) { return verdict.wrong == 0; };
  return std::all_of(all.begin(), all.end(), is_right) ? ok_status() : raise(call, number, all);
}

Result<std::uint64_t> parse_verified(std::string_view text, std::string_view source) {
  if (text.empty() || text == "0") return std::uint64_t{0};
  std::string_view digits = text;
  std::uint64_t every = 0;
  if (digits.starts_with("1/")) digits.remove_prefix(2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), every);
  const bool fraction = digits.size() != text.size();
  if (error == std::errc() && end == digits.data() + digits.size() && every > 0 &&
      (fraction || every == 1))
    return every;
  return fail(StatusCode::kInvalidUsage,
              "{}='{}': write 1/N to verify one call in N, such as 1/1000; 1 for every call; 0 for "
              "none",
              source, text);
}

Result<std::uint64_t> verified_by_environment() {
  return parse_verified(env::get_string("RONDO_VERIFY"), "RONDO_VERIFY");
}

}  // namespace rondo
