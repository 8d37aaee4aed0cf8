// SPDX-License-Identifier: Apache-2.0
#include "collectives/faults/rank_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "collectives/faults/peer_words.h"

namespace rondo {

bool RankReport::waits_now() const {
  return (state == kWaiting || state == kWaitingTwice) && wait_sequence >= sequence &&
         (is_message(waits_in) || finished < wait_sequence);
}

std::uint64_t RankReport::entered() const {
  return waits_now() ? std::max(sequence, wait_sequence) : sequence;
}

RankReport report_of(const PeerPort& words, int rank, std::uint64_t wanted) {
  using A = HostAtomics;
  const ProgressLine& progress = *words.progress;
  RankReport report;
  report.rank = rank;
  report.waits = A::load_acquire(progress.waits);
  report.checks = A::load_acquire(progress.checks);
  report.sequence = A::load_acquire(words.steps->sequence);
  report.finished = A::load_acquire(progress.finished);
  report.step = A::load_acquire(words.steps->step);
  report.waits_in = load_record(progress.call);
  report.wait_sequence = A::load_acquire(progress.sequence);
  report.waiting_for = A::load_acquire(progress.waiting_for);
  report.quiet = A::load_acquire(progress.quiet);
  report.state = A::load_acquire(progress.state);
  const std::uint64_t asked = wanted == 0 ? report.sequence : std::min(wanted, report.sequence);
  if (asked == 0) return report;
  const AnnounceLine& line = words.announcements[asked % kAnnounceDepth];
  if (A::load_acquire(line.sequence) != asked) return report;
  report.announced = load_record(line.record);
  report.history = A::load_relaxed(line.history);
  A::fence_seq_cst();
  if (A::load_relaxed(line.sequence) == asked) report.shown = asked;
  return report;
}

std::string describe(const RankReport& report, std::uint64_t newest) {
  std::string text;
  const bool waits = report.waits_now();
  const std::uint64_t entered = report.entered();
  if (entered < newest) {
    text = fmt::format("not entered call {}", newest);
    if (entered > 0) text += fmt::format(" (newest: {})", entered);
  } else if (entered == 0) {
    text = "no collective yet";
  } else {
    text = fmt::format("{} call {}", report.finished >= entered ? "finished" : "in", entered);
    if (report.shown == entered) {
      text += ", " + to_string(report.announced);
    } else if (!is_message(report.waits_in) && waits) {
      text += ", " + to_string(report.waits_in);
    }
    text += fmt::format(", step {}", report.step);
  }
  if (waits && is_message(report.waits_in)) text += ", in " + to_string(report.waits_in);
  if (waits) text += fmt::format(", waits for rank {}", report.waiting_for);
  if (report.state == kLeft) text += ", left the communicator";
  if (report.condition == RankReport::kEnded) text += ", ended";
  if (report.condition == RankReport::kStopped) text += ", stopped";
  return text;
}

std::vector<std::byte> encode_host_report(const HostReport& report) {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(report.is_question));
  writer.put(static_cast<std::uint8_t>(report.is_last));
  writer.put(report.number);
  writer.put(report.sequence);
  for (const RemoteLinks::LaneTraffic& lane : report.traffic) {
    writer.put(lane.sent);
    writer.put(lane.received);
    writer.put(lane.full);
  }
  writer.put(static_cast<std::uint32_t>(report.ranks.size()));
  for (const RankReport& rank : report.ranks) writer.put(rank);
  return writer.take();
}

std::optional<HostReport> decode_host_report(std::span<const std::byte> message, int ranks) {
  ByteReader reader(message);
  HostReport report;
  const auto is_question = reader.get<std::uint8_t>(), is_last = reader.get<std::uint8_t>();
  report.is_question = is_question != 0;
  report.is_last = is_last != 0;
  report.number = reader.get<std::uint64_t>();
  report.sequence = reader.get<std::uint64_t>();
  for (RemoteLinks::LaneTraffic& lane : report.traffic) {
    lane.sent = reader.get<std::uint64_t>();
    lane.received = reader.get<std::uint64_t>();
    lane.full = reader.get<std::uint8_t>();
  }
  const auto count = reader.get<std::uint32_t>();
  if (!reader.ok() || is_question > 1 || is_last > 1 || count > HostReport::kMaxRanks)
    return std::nullopt;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto rank = reader.get<RankReport>();
    const bool known = rank.rank >= 0 && rank.rank < ranks && rank.waiting_for < ranks;
    if (!reader.ok() || !known || rank.condition > RankReport::kEnded) return std::nullopt;
    report.ranks.push_back(rank);
  }
  if (reader.left() != 0) return std::nullopt;
  return report;
}

bool is_quiet(const RemoteLinks::Traffic& here, const RemoteLinks::Traffic& there) {
  for (std::size_t lane = 0; lane < here.size(); ++lane) {
    if (!here[lane].full && here[lane].received != there[lane].sent) return false;
    if (!there[lane].full && there[lane].received != here[lane].sent) return false;
  }
  return true;
}

}  // namespace rondo
