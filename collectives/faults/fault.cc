// SPDX-License-Identifier: Apache-2.0
#include "collectives/faults/fault.h"

#include <utility>

#include "base/bytes.h"
#include "base/printable.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxText = 3500;

bool is_error(StatusCode status) {
  return status > StatusCode::kSuccess && status <= StatusCode::kTimeout &&
         status != StatusCode::kInProgress;
}

}  // namespace

Fault Fault::found_by(int rank, StatusCode status, int culprit, std::string text) {
  Fault made;
  made.status = status;
  made.rank = rank;
  made.culprit = culprit;
  made.text = std::move(text);
  return made;
}

std::vector<std::byte> encode_fault(const Fault& fault) {
  ByteWriter writer;
  writer.put(fault.status);
  writer.put(fault.rank);
  writer.put(fault.culprit);
  writer.put(fault.sequence);
  writer.put(fault.own);
  writer.put(fault.other);
  writer.put_string(fault.text.substr(0, kMaxText));
  return writer.take();
}

Fault decode_fault(std::span<const std::byte> message, int ranks) {
  ByteReader reader(message);
  Fault fault;
  fault.status = reader.get<StatusCode>();
  fault.rank = reader.get<int>();
  fault.culprit = reader.get<int>();
  fault.sequence = reader.get<std::uint64_t>();
  fault.own = reader.get<CallRecord>();
  fault.other = reader.get<CallRecord>();
  fault.text = reader.get_string();
  const auto is_rank = [&](int rank) { return rank >= -1 && rank < ranks; };
  if (reader.ok() && is_error(fault.status) && is_rank(fault.rank) && is_rank(fault.culprit) &&
      fault.text.size() <= kMaxText) {
    fault.text = printable_lines(fault.text);
    return fault;
  }
  Fault unreadable;
  unreadable.status = StatusCode::kRemoteError;
  unreadable.text = "a rank on another host reported a fault that cannot be read";
  return unreadable;
}

}  // namespace rondo
