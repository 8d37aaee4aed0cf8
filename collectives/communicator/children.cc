// Communicators made from a communicator: split and shrink, and the exchange that split uses.
//
// Shrink needs nothing from a parent that is broken (child_request.h).
#include <algorithm>
#include <cstring>

#include "collectives/communicator/child_request.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 at -O3 takes a vector that has just grown for one that has no room.
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

namespace rondo {
namespace {

using Blob = std::vector<std::byte>;

Result<std::shared_ptr<Communicator>> make_child(const CommunicatorState& parent,
                                                 const std::vector<int>& members,
                                                 std::string_view kind, std::uint64_t number,
                                                 const CommOptions& options,
                                                 std::function<bool()> aborted) {
  RONDO_TRY(CreateRequest request, child_request(parent, members, kind, number));
  request.options = options;
  request.options.device = parent.options.device;
  request.aborted = std::move(aborted);
  return Communicator::create(request);
}

}  // namespace

Result<std::vector<Blob>> Communicator::exchange(std::span<const std::byte> mine) {
  std::vector<std::byte> all(mine.size() * size());
  Call call;
  call.record = {mine.size(), Collective::kAllGather, DataType::kUint8, RedOp::kSum, 0, -1};
  call.send = mine.data();
  call.receive = all.data();
  RONDO_CHECK_OK(run({&call, 1}));
  std::vector<Blob> parts;
  for (int r = 0; r < size(); ++r)
    parts.emplace_back(all.begin() + r * mine.size(), all.begin() + (r + 1) * mine.size());
  return parts;
}

Result<std::shared_ptr<Communicator>> Communicator::split(int color, int key,
                                                          const CommOptions& options,
                                                          std::function<bool()> aborted) {
  struct Choice {
    int color, key;
  };
  const Choice choice{color, key};
  const std::uint64_t child = ++state_->splits;
  RONDO_TRY(const std::vector<Blob> all, exchange(std::as_bytes(std::span(&choice, 1))));
  if (color < 0) return std::shared_ptr<Communicator>();
  std::vector<std::pair<int, int>> keyed;  // key, rank
  for (int r = 0; r < size(); ++r) {
    Choice theirs;
    std::memcpy(&theirs, all[r].data(), sizeof(theirs));
    if (theirs.color == color) keyed.emplace_back(theirs.key, r);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<int> members;
  for (const auto& [their_key, r] : keyed) members.push_back(r);
  return make_child(*state_, members, "split", child, options, std::move(aborted));
}

Result<std::shared_ptr<Communicator>> Communicator::shrink(std::span<const int> excluded,
                                                           const CommOptions& options,
                                                           std::function<bool()> aborted) {
  if (state_->forked())
    return fail(Status::kInvalidUsage,
                "this communicator belongs to the parent process: after fork, create a new one");
  std::vector<int> members;
  for (int r = 0; r < size(); ++r)
    if (std::find(excluded.begin(), excluded.end(), r) == excluded.end()) members.push_back(r);
  if (std::find(members.begin(), members.end(), rank()) == members.end())
    return fail(Status::kInvalidArgument,
                "rank {} is among the excluded ranks: only survivors call shrink", rank());
  // Survivors may have tried different lists before they agreed on this one: only shrinks to these
  // very members are counted.
  const std::uint64_t number = ++state_->shrinks[members];
  return make_child(*state_, members, "shrink", number, options, std::move(aborted));
}

}  // namespace rondo
