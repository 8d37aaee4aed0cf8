// SPDX-License-Identifier: Apache-2.0
// Any bytes as the records that ranks exchange when a communicator is made and when it fails. A
// record (of a rank, of its networks) is refused or encodes to the bytes from which it was decoded.
// A fault, and a report of a host's progress, name only existing ranks.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "collectives/context/init_record.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/rank_report.h"
#include "transport/connection.h"
#include "transport/networks/network_agreement.h"

namespace {

using namespace rondo;

void require(bool condition) {
  if (!condition) std::abort();
}

void record(std::span<const std::byte> bytes) {
  // The version of this build, so that the rest is decoded.
  std::vector<std::byte> blob(sizeof(kLayoutVersion));
  std::memcpy(blob.data(), &kLayoutVersion, sizeof(kLayoutVersion));
  blob.insert(blob.end(), bytes.begin(), bytes.end());
  const auto found = InitRecord::decode(blob, 3);
  if (found.ok()) require(found->encode() == blob);
}

void networks(std::span<const std::byte> bytes) {
  const auto found = decode_offers(bytes, 3);
  if (found.ok()) require(std::ranges::equal(encode(*found), bytes));
}

void fault(std::span<const std::byte> bytes) {
  constexpr int kRanks = 5;
  const Fault found = decode_fault(bytes, kRanks);
  require(found.status != StatusCode::kSuccess && !to_string(found.own).empty());
  require(found.rank >= -1 && found.rank < kRanks);
  require(found.culprit >= -1 && found.culprit < kRanks);
  const Fault again = decode_fault(encode_fault(found), kRanks);
  require(again.text == found.text && again.status == found.status && again.own == found.own);
}

void report(std::span<const std::byte> bytes) {
  constexpr int kRanks = 5;
  const auto found = decode_host_report(bytes, kRanks);
  if (!found) return;
  require(encode_host_report(*found) == std::vector<std::byte>(bytes.begin(), bytes.end()));
  for (const RankReport& rank : found->ranks) {
    require(rank.rank >= 0 && rank.rank < kRanks && rank.waiting_for < kRanks);
    require(!describe(rank, 7).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] % 4 == 0) record(bytes);
  if (data[0] % 4 == 1) fault(bytes);
  if (data[0] % 4 == 2) report(bytes);
  if (data[0] % 4 == 3) networks(bytes);
  return 0;
}
