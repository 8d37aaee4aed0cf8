// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/flight_record.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/text_file.h"
#include "collectives/trace/pickle.h"

namespace rondo::trace {
namespace {

constexpr const char* kVersion = "2.10";

// Names of torch's analyser; null for calls that it does not know.
const char* torch_name(Collective which) {
  switch (which) {
    case Collective::kAllReduce:
    case Collective::kAllReduceOrdered:
      return "all_reduce";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kReduce:
    case Collective::kReduceOrdered:
      return "reduce";
    case Collective::kAllGather:
    case Collective::kAllGatherV:
      return "all_gather";
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV:
    case Collective::kReduceScatterOrdered:
      return "reduce_scatter";
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
      return "all_to_all";
    case Collective::kGather:
    case Collective::kGatherV:
      return "gather";
    case Collective::kScatter:
    case Collective::kScatterV:
      return "scatter";
    case Collective::kBarrier:
      return "barrier";
    default:
      return nullptr;
  }
}

const char* torch_name(DataType type) {
  constexpr const char* kNames[kDataTypes] = {
      "Char",  "Byte",   "Int",      "UInt32",        "Long",        "UInt64", "Half",
      "Float", "Double", "BFloat16", "Float8_e4m3fn", "Float8_e5m2", "Short",  "UInt16"};
  return kNames[static_cast<int>(type)];
}

// Elements of a rank's input and output.
std::pair<std::uint64_t, std::uint64_t> elements_of_sides(const CallRecord& call, int ranks) {
  const std::uint64_t one = elements_of(call), all = one * static_cast<std::uint64_t>(ranks);
  switch (call.collective) {
    case Collective::kAllGather:
    case Collective::kGather:
      return {one, all};
    case Collective::kReduceScatter:
    case Collective::kReduceScatterOrdered:
    case Collective::kScatter:
      return {all, one};
    case Collective::kAllToAll:
      return {all, all};
    default:
      return {one, one};
  }
}

struct Member {
  const TracedComm* comm;
  const RankTrace* rank;
  int group;           // number of the communicator
  std::uint64_t from;  // first call that all ranks still hold
};

// A ring that is full has lost its oldest calls. The analyser would take a call that only some
// ranks still hold for one that the others did not make.
std::uint64_t first_common_call(const TracedComm& comm) {
  std::uint64_t from = 0;
  for (const RankTrace& rank : comm.ranks) {
    if (rank.calls.empty() || rank.calls.front().number == 1) continue;
    const auto first = std::find_if(rank.calls.begin(), rank.calls.end(),
                                    [](const TracedCall& call) { return call.sequence > 0; });
    if (first != rank.calls.end()) from = std::max(from, first->sequence);
  }
  return from;
}

using Process = std::pair<std::string, int>;  // host, pid

// Ranks of the job, by the ranks of its largest communicator. A process with several of its ranks
// is not looked up: their other communicators keep their own numbers.
class JobRanks {
 public:
  explicit JobRanks(const TracedComm& largest) {
    for (const RankTrace& rank : largest.ranks) {
      const auto [at, added] = ranks_.try_emplace({rank.host, rank.pid}, rank.rank);
      if (!added) at->second = -1;
    }
  }
  int of(const RankTrace& rank) const {
    const auto found = ranks_.find({rank.host, rank.pid});
    return found == ranks_.end() || found->second < 0 ? rank.rank : found->second;
  }

 private:
  std::map<Process, int> ranks_;
};

std::string description_of(const RankTrace& rank) {
  return rank.name.empty() ? fmt::format("communicator 0x{:x}", rank.communicator) : rank.name;
}

// "[0, 1, 2]". Ranks without a trace have the number that they have in the communicator.
std::string members_text(const TracedComm& comm, const JobRanks& ranks) {
  std::vector<int> members;
  for (int r = 0; r < comm.first().size; ++r) {
    const auto found = std::find_if(comm.ranks.begin(), comm.ranks.end(),
                                    [&](const RankTrace& rank) { return rank.rank == r; });
    members.push_back(found == comm.ranks.end() ? r : ranks.of(*found));
  }
  std::string text;
  for (const int member : members) text += fmt::format("{}{}", text.empty() ? "[" : ", ", member);
  return text + "]";
}

void put_sizes(Pickle& out, const char* key, std::uint64_t elements) {
  out.text(key).list().list().integer(static_cast<std::int64_t>(elements)).end_list().end_list();
}

void put_entry(Pickle& out, const Member& member, const TracedCall& call, std::uint64_t record) {
  const RankTrace& rank = *member.rank;
  const auto [input, output] = elements_of_sides(call.call, rank.size);
  const auto sequence = static_cast<std::int64_t>(call.sequence);
  out.dict();
  out.text("frames").list().end_list();
  out.text("record_id").integer(static_cast<std::int64_t>(record));
  out.text("pg_id").integer(member.group);
  out.text("process_group").list().text(std::to_string(member.group)).text(description_of(rank));
  out.end_list();
  out.text("thread_name").text("").text("thread_id").text("");
  out.text("collective_seq_id").integer(sequence).text("p2p_seq_id").integer(0);
  out.text("op_id").integer(sequence);
  out.text("profiling_name").text(std::string("nccl:") + torch_name(call.call.collective));
  out.text("time_created_ns").integer(call.entered_ns + rank.wall_ns);
  if (call.ended())
    out.text("duration_ms").real(static_cast<double>(call.ended_ns - call.entered_ns) / 1e6);
  put_sizes(out, "input_sizes", input);
  out.text("input_dtypes").list().text(torch_name(call.call.type)).end_list();
  put_sizes(out, "output_sizes", output);
  out.text("output_dtypes").list().text(torch_name(call.call.type)).end_list();
  out.text("state").text(call.ended() && call.result == 0 ? "completed" : "started");
  out.text("time_discovered_started_ns").integer(call.entered_ns + rank.wall_ns);
  out.text("time_discovered_completed_ns");
  call.ended() ? out.integer(call.ended_ns + rank.wall_ns) : out.none();
  out.text("retired").boolean(call.ended()).text("timeout_ms").integer(0);
  out.text("is_p2p").boolean(false);
  out.end_dict();
}

void put_groups(Pickle& out, std::span<const Member> members, const JobRanks& ranks) {
  out.text("pg_config").dict();
  for (const Member& member : members) {
    const std::string name = std::to_string(member.group);
    out.text(name).dict().text("name").text(name);
    out.text("desc").text(description_of(*member.rank));
    out.text("ranks").text(members_text(*member.comm, ranks)).end_dict();
  }
  out.end_dict().text("pg_status").dict();
  for (const Member& member : members) {
    std::int64_t completed = -1;
    for (const TracedCall& call : member.rank->calls)
      if (call.ended() && call.sequence > 0)
        completed = std::max(completed, static_cast<std::int64_t>(call.sequence));
    const auto entered = static_cast<std::int64_t>(member.rank->entered);
    out.text(std::to_string(member.group)).dict();
    out.text("last_enqueued_collective").integer(entered > 0 ? entered : -1);
    out.text("last_started_collective").integer(entered > 0 ? entered : -1);
    out.text("last_completed_collective").integer(completed).end_dict();
  }
  out.end_dict();
}

std::string pickle_of(std::span<const Member> members, const JobRanks& ranks) {
  Pickle out;
  out.dict().text("version").text(kVersion);
  out.text("comm_lib_version").text("rondo");
  put_groups(out, members, ranks);
  std::vector<std::pair<const Member*, const TracedCall*>> entries;
  for (const Member& member : members)
    for (const TracedCall& call : member.rank->calls)
      if (call.sequence > 0 && call.sequence >= member.from &&
          torch_name(call.call.collective) != nullptr)
        entries.emplace_back(&member, &call);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.second->entered_ns < b.second->entered_ns;
  });
  std::uint64_t record = 0;
  out.text("entries").list();
  for (const auto& [member, call] : entries) put_entry(out, *member, *call, record++);
  out.end_list().end_dict();
  return std::move(out).finish();
}

}  // namespace

std::vector<FlightRecord> flight_records(std::span<const TracedComm> comms) {
  if (comms.empty()) return {};
  const JobRanks ranks(comms[0]);
  std::map<int, std::vector<Member>> by_rank;
  for (std::size_t i = 0; i < comms.size(); ++i) {
    const std::uint64_t from = first_common_call(comms[i]);
    for (const RankTrace& rank : comms[i].ranks)
      by_rank[ranks.of(rank)].push_back({&comms[i], &rank, static_cast<int>(i), from});
  }
  std::vector<FlightRecord> records;
  for (const auto& [rank, members] : by_rank) records.push_back({rank, pickle_of(members, ranks)});
  return records;
}

Result<int> write_flight_records(const std::string& folder, std::span<const TracedComm> comms) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return fail_errno(errno, "cannot make the folder '{}'", folder);
  const std::vector<FlightRecord> records = flight_records(comms);
  for (const FlightRecord& record : records)
    RONDO_CHECK_OK(write_output(fmt::format("{}/rondo_{}", folder, record.rank), record.pickle));
  return static_cast<int>(records.size());
}

}  // namespace rondo::trace
