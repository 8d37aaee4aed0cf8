// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/host_meeting.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "base/bytes.h"
#include "base/env.h"
#include "base/log.h"
#include "base/printable.h"
#include "collectives/communicator/introduction.h"
#include "collectives/planner/tuning.h"

namespace rondo {
namespace {

using Blob = std::vector<std::byte>;
using shm::HostMeeting;

// A rank's message to all others after an attempt. Empty: it has joined, and reads its peers.
struct Report {
  HostMeeting::Outcome outcome = HostMeeting::kJoined;
  std::string socket;  // its new Unix socket
  std::string why;
  std::string cannot_read;  // obstacle_to_reads()

  Blob encode() const {
    if (outcome == HostMeeting::kJoined && cannot_read.empty()) return {};
    ByteWriter writer;
    writer.put(outcome);
    writer.put_string(socket);
    writer.put_string(why);
    writer.put_string(cannot_read);
    return writer.take();
  }
  static Result<Report> decode(const Blob& blob, int rank) {
    Report report;
    if (blob.empty()) return report;
    ByteReader reader(blob);
    report.outcome = reader.get<HostMeeting::Outcome>();
    report.socket = reader.get_string();
    report.why = reader.get_string();
    report.cannot_read = printable(reader.get_string());
    if (!reader.ok() || reader.left() != 0 || report.outcome > HostMeeting::kRefused ||
        report.socket.size() > shm::kMaxSocketName)
      return fail(StatusCode::kRemoteError, "rank {} sent a report that cannot be read", rank);
    return report;
  }
};

class HostRounds {
 public:
  explicit HostRounds(const HostMeetingRequest& request)
      : request_(request),
        state_(request.state),
        own_(request.records[static_cast<std::size_t>(request.state.members.rank)].facts) {}

  Status run() {
    set_apart_who_cannot_share();
    for (std::uint32_t attempt = 0;; ++attempt) {
      find_members();
      RONDO_TRY(Report mine, try_to_meet(attempt));
      mine.cannot_read = obstacle();
      RONDO_TRY(const std::vector<Blob> blobs, request_.session.all_gather(mine.encode()));
      std::vector<Report> reports;
      for (std::size_t r = 0; r < blobs.size(); ++r) {
        RONDO_TRY(Report report, Report::decode(blobs[r], static_cast<int>(r)));
        reports.push_back(std::move(report));
      }
      if (slot_ && slot_->group) state_.members.group = slot_->group;
      slot_.reset();
      RONDO_TRY(const bool agreed, reshape(reports));
      if (!agreed) continue;
      adopt();
      agree_on_reads(reports);
      break;
    }
    return ok_status();
  }

 private:
  // Makes each process without a Unix socket a host of its own.
  void set_apart_who_cannot_share() {
    const auto neighbour = [&](const InitRecord& record) {
      return record.facts.host == own_.host && record.facts.process != own_.process;
    };
    const auto& records = request_.records;
    if (own_.socket.empty() && !request_.host_listener.why_not.empty() && speaks() &&
        std::any_of(records.begin(), records.end(), neighbour))
      RONDO_INFO(
          kInit,
          "rank {} cannot share memory with the other processes of its host and uses TCP: {}",
          state_.members.rank, request_.host_listener.why_not);
    for (InitRecord& record : request_.records)
      if (record.facts.socket.empty()) record.facts.host = record.facts.process[0];
    state_.facts.connection_slot_bytes =
        tuning::connection_slot_bytes(shape().largest, request_.buffer_bytes);
  }

  HostShape shape() const {
    std::vector<std::uint64_t> hosts;
    for (const InitRecord& record : request_.records) hosts.push_back(record.facts.host);
    return shape_of_hosts(hosts);
  }

  bool speaks() const {
    const auto& records = request_.records;
    const auto first = std::find_if(records.begin(), records.end(), [&](const InitRecord& record) {
      return record.facts.process == own_.process;
    });
    return first - records.begin() == state_.members.rank;
  }

  void find_members() {
    members_.clear();
    for (const InitRecord& record : request_.records) {
      if (record.facts.host != own_.host) continue;
      if (record.facts.rank == state_.members.rank) mine_ = static_cast<int>(members_.size());
      members_.push_back({record.facts.rank, record.facts.process, record.facts.socket});
    }
  }

  Result<Report> try_to_meet(std::uint32_t attempt) {
    if (state_.members.group) return Report{};
    assert(!members_.empty() && "this rank is one of them");
    const std::uint32_t context[2] = {attempt, static_cast<std::uint32_t>(members_[0].rank)};
    const auto secret = state_.secret.derive("unix", std::as_bytes(std::span(context)));
    slot_ = shm::group_slot(secret.bytes());
    if (!shm::is_representative(members_, mine_)) return Report{};
    const shm::SegmentShape shape{static_cast<int>(members_.size()), tuning::kStagingBytes,
                                  state_.facts.connection_slot_bytes, tuning::kConnectionSlots};
    RONDO_TRY(HostMeeting meeting,
              shm::meet_on_host({members_, mine_, &request_.host_listener.listener, shape,
                                 secret.bytes(), request_.deadline}));
    slot_->group = meeting.group;
    if (meeting.outcome == HostMeeting::kJoined) return Report{};
    if (meeting.outcome == HostMeeting::kRefused)
      RONDO_INFO(kInit, "rank {} cannot share memory with rank {} and uses TCP: {}",
                 state_.members.rank, members_[0].rank, meeting.why);
    RONDO_TRY(request_.host_listener.listener,
              shm::open_unix_listener());  // no rank connects to the old one
    return Report{meeting.outcome, request_.host_listener.listener.name, std::move(meeting.why),
                  ""};
  }

  // Changes groups that have not met: refused processes leave, the others try again. A refused
  // leader becomes a host of its own, so groups get smaller each time. True: all have met.
  Result<bool> reshape(const std::vector<Report>& reports) {
    assert(reports.size() == request_.records.size());
    std::map<std::uint64_t, std::vector<std::size_t>> groups;
    for (std::size_t r = 0; r < reports.size(); ++r)
      groups[request_.records[r].facts.host].push_back(r);
    bool agreed = true;
    for (const auto& [host, ranks] : groups) {
      const auto of = [&, ranks = &ranks](HostMeeting::Outcome outcome) {
        return std::find_if(ranks->begin(), ranks->end(),
                            [&](std::size_t r) { return reports[r].outcome == outcome; });
      };
      const auto again = of(HostMeeting::kAgain), refused = of(HostMeeting::kRefused);
      if (again == ranks.end() && refused == ranks.end()) continue;
      agreed = false;
      if (refused == ranks.end())
        return fail(StatusCode::kSystemError,
                    "rank {} could not meet the other ranks of its host: {}", *again,
                    reports[*again].why);
      if (host == own_.host) state_.members.group.reset();
      set_apart(ranks, reports);
    }
    return agreed;
  }

  std::string obstacle() const {
    const InitRecord& mine = request_.records[static_cast<std::size_t>(state_.members.rank)];
    std::vector<const RankFacts*> others;  // in other processes of this host
    for (const shm::Member& member : members_)
      if (member.process != own_.process)
        others.push_back(&request_.records[static_cast<std::size_t>(member.rank)].facts);
    if (mine.device >= 0 || others.empty()) return "";
    if (mine.reads == MemoryReads::kNever)
      return fmt::format("rank {} has RONDO_CMA=0", mine.facts.rank);
    return obstacle_to_reads(mine.facts, others);
  }

  // All pairs of processes can read each other, or none does. Memory of a CUDA driver cannot be
  // read, so ranks on GPUs never do. Between hosts, no plan reads.
  void agree_on_reads(const std::vector<Report>& reports) {
    MemoryReads& reads = state_.facts.reads = MemoryReads::kAlways;
    for (const InitRecord& record : request_.records)
      reads = std::min(reads, record.device >= 0 ? MemoryReads::kNever : record.reads);
    const auto found = std::find_if(reports.begin(), reports.end(),
                                    [](const Report& blobs) { return !blobs.cannot_read.empty(); });
    const bool one_host = state_.members.shape.hosts() == 1;
    if (found != reports.end() || !one_host) reads = MemoryReads::kNever;
    if (one_host && found - reports.begin() == state_.members.rank)
      RONDO_INFO(kInit, "{}: private buffers are copied through shared memory", found->cannot_read);
  }

  void set_apart(const std::vector<std::size_t>& ranks, const std::vector<Report>& reports) {
    assert(!ranks.empty());
    std::map<ProcessId, HostMeeting::Outcome> outcomes;
    auto& records = request_.records;
    for (const std::size_t r : ranks) {
      auto& outcome = outcomes[records[r].facts.process];
      outcome = std::max(outcome, reports[r].outcome);
    }
    constexpr std::uint64_t kOther = 0x9e3779b97f4a7c15;
    const ProcessId leader = records[ranks[0]].facts.process;
    for (const std::size_t r : ranks) {
      RankFacts& facts = records[r].facts;
      if (!reports[r].socket.empty()) facts.socket = reports[r].socket;
      if (outcomes[facts.process] != HostMeeting::kRefused) continue;
      facts.host = facts.process == leader ? facts.process[0] : (facts.host + 1) * kOther;
    }
  }

  void adopt() {
    assert(state_.members.ranks.empty() && state_.members.local_ranks.empty());
    for (const InitRecord& record : request_.records) state_.members.ranks.push_back(record.facts);
    state_.members.shape = shape();
    for (const shm::Member& member : members_) state_.members.local_ranks.push_back(member.rank);
    state_.host.rank = mine_;
    state_.host.size = static_cast<int>(members_.size());
  }

  const HostMeetingRequest& request_;
  CommunicatorState& state_;
  const RankFacts& own_;
  std::vector<shm::Member> members_;  // ranks of this host
  int mine_ = 0;                      // indexes members_
  std::shared_ptr<shm::GroupSlot> slot_;
};

}  // namespace

Result<HostListener> open_host_listener() {
  HostListener opened;
  if (env::get_bool("NCCL_SHM_DISABLE")) return opened;
  RONDO_TRY(opened.why_not, shm::obstacle_to_sharing());
  if (!opened.why_not.empty()) return opened;
  auto listener = shm::open_unix_listener();
  if (!listener.ok() && listener.code() != StatusCode::kInvalidUsage) return listener.error();
  if (listener.ok()) {
    opened.listener = std::move(listener).value();
  } else {
    opened.why_not = listener.error().text;
  }
  return opened;
}

Status meet_on_hosts(const HostMeetingRequest& request) { return HostRounds(request).run(); }

}  // namespace rondo
