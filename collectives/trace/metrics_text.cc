// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/metrics_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "kernels/host/call_recorder.h"

namespace rondo::trace {
namespace {

constexpr std::array<const char*, kTraceSizes> kSizeLabels = {"<=1KiB",  "<=32KiB", "<=1MiB",
                                                              "<=32MiB", "<=1GiB",  ">1GiB"};

std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

// The samples of one metric, below its HELP and TYPE.
class Metric {
 public:
  Metric(std::string* text, std::string_view name, std::string_view type, std::string_view help)
      : text_(*text), name_(name) {
    text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  void sample(std::string_view labels, double value) {
    text_ += fmt::format("{}{{{}}} {:.9g}\n", name_, labels, value);
  }
  void sample(std::string_view labels, std::uint64_t value) {
    text_ += fmt::format("{}{{{}}} {}\n", name_, labels, value);
  }

 private:
  std::string& text_;
  std::string name_;
};

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

// Bytes over the busiest link by nccl-tests' rule, for a call of `bytes` by the rank's count.
double bus_bytes(const CallRecord& call, std::uint64_t bytes, int ranks) {
  assert(ranks > 0);
  const double n = ranks, b = static_cast<double>(bytes);
  switch (call.collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n * b;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return (n - 1) * b;
    default:
      return b;
  }
}

struct Labelled {
  const TracedComm* comm;
  std::string communicator;  // label with its value

  std::string rank(const RankTrace& of) const {
    return fmt::format("{},rank=\"{}\"", communicator, of.rank);
  }
  std::string total(const RankTrace& of, const CallTotal& sum) const {
    return fmt::format("{},collective=\"{}\",size=\"{}\"", rank(of), name(sum.collective),
                       kSizeLabels[static_cast<std::size_t>(sum.size)]);
  }
};

template <class Value>
void put_totals(Metric metric, std::span<const Labelled> comms, const Value& value) {
  for (const Labelled& comm : comms)
    for (const RankTrace& rank : comm.comm->ranks)
      for (const CallTotal& sum : rank.totals) metric.sample(comm.total(rank, sum), value(sum));
}

template <class Value>
void put_ranks(Metric metric, std::span<const Labelled> comms, const Value& value) {
  for (const Labelled& comm : comms)
    for (const RankTrace& rank : comm.comm->ranks)
      metric.sample(comm.rank(rank), value(*comm.comm, rank));
}

// Of the calls that the boxes hold: bytes over the busiest link by time of movement.
void put_bandwidths(Metric metric, std::span<const Labelled> comms) {
  struct Sum {
    double bytes = 0;
    std::int64_t moving_ns = 0;
  };
  for (const Labelled& comm : comms) {
    std::map<std::pair<Collective, int>, Sum> sums;
    for (const CallSkew& skew : skews_of(*comm.comm)) {
      const std::uint64_t bytes = elements_of(skew.call) * size_of(skew.call.type);
      if (skew.moving_ns <= 0 || bytes == 0 || skew.entered.size() < comm.comm->ranks.size())
        continue;
      Sum& sum = sums[{skew.call.collective, host::trace_size_of(bytes)}];
      sum.bytes += bus_bytes(skew.call, bytes, comm.comm->first().size);
      sum.moving_ns += skew.moving_ns;
    }
    for (const auto& [kind, sum] : sums)
      metric.sample(
          fmt::format("{},collective=\"{}\",size=\"{}\"", comm.communicator, name(kind.first),
                      kSizeLabels[static_cast<std::size_t>(kind.second)]),
          sum.bytes / seconds(sum.moving_ns));
  }
}

double open_seconds(const RankTrace& rank) {
  if (rank.calls.empty() || rank.calls.back().ended()) return 0;
  return seconds(std::max<std::int64_t>(0, rank.read_ns - rank.calls.back().entered_ns));
}

}  // namespace

void LateSums::add(std::span<const TracedComm> comms) {
  for (const TracedComm& comm : comms) {
    OfComm& sums = comms_[comm.first().communicator];
    for (const CallSkew& skew : skews_of(comm)) {
      if (skew.sequence <= sums.newest || !skew.open.empty() ||
          skew.entered.size() < comm.ranks.size())
        continue;
      sums.newest = skew.sequence;
      ++sums.calls;
      OfRank& last = sums.ranks[skew.late_rank];
      ++last.calls;
      last.late_ns += skew.late_ns;
    }
  }
}

const LateSums::OfComm& LateSums::of(const TracedComm& comm) const {
  static const OfComm none;
  const auto found = comms_.find(comm.first().communicator);
  return found == comms_.end() ? none : found->second;
}

std::vector<std::string> labels_of(std::span<const TracedComm> comms) {
  std::map<std::string, int> seen;
  std::vector<std::string> labels;
  for (const TracedComm& comm : comms) {
    const std::string& name = comm.first().name;
    const int number = seen[name]++;
    labels.push_back(number == 0 && !name.empty() ? name : fmt::format("{}#{}", name, number));
  }
  return labels;
}

namespace {

// Writes the metrics one after the other, in groups.
class MetricsWriter {
 public:
  MetricsWriter(std::span<const TracedComm> comms, const LateSums& late,
                std::span<const Culprit> culprits)
      : late_(late), culprits_(culprits) {
    const std::vector<std::string> labels = labels_of(comms);
    for (std::size_t i = 0; i < comms.size(); ++i)
      all_.push_back({&comms[i], fmt::format("communicator=\"{}\"", escaped(labels[i]))});
    metric("rondo_build_info", "gauge", "Version of Rondo; always 1.")
        .sample(fmt::format("version=\"{}\"", RONDO_VERSION), std::uint64_t{1});
    Metric info =
        metric("rondo_communicator_info", "gauge",
               "The id that rondo ps, rondo trace and RAS show, and its ranks; always 1.");
    for (const Labelled& comm : all_)
      info.sample(fmt::format("{},id=\"0x{:x}\",size=\"{}\"", comm.communicator,
                              comm.comm->first().communicator, comm.comm->first().size),
                  std::uint64_t{1});
  }

  void put_calls() {
    put_totals(metric("rondo_calls_total", "counter", "Calls that the rank has entered."), all_,
               [](const CallTotal& sum) { return sum.calls; });
    put_totals(metric("rondo_call_bytes_total", "counter",
                      "Bytes of these calls: count times the size of the type."),
               all_, [](const CallTotal& sum) { return sum.bytes; });
    put_totals(metric("rondo_call_seconds_total", "counter",
                      "Time from entry to end of calls that have ended."),
               all_, [](const CallTotal& sum) { return seconds(sum.spent_ns); });
    put_bandwidths(metric("rondo_bus_bandwidth_bytes_per_second", "gauge",
                          "Bytes over the busiest link by the time of movement, without lateness; "
                          "of the newest calls."),
                   all_);
  }

  void put_lateness() {
    put_ranks(metric("rondo_late_seconds_total", "counter",
                     "Time by which the rank came last, after the median of the others."),
              all_, [&](const TracedComm& comm, const RankTrace& rank) {
                const auto& ranks = late_.of(comm).ranks;
                const auto found = ranks.find(rank.rank);
                return found == ranks.end() ? 0.0 : seconds(found->second.late_ns);
              });
    put_ranks(metric("rondo_late_calls_total", "counter", "Calls to which the rank came last."),
              all_, [&](const TracedComm& comm, const RankTrace& rank) {
                const auto& ranks = late_.of(comm).ranks;
                const auto found = ranks.find(rank.rank);
                return found == ranks.end() ? std::uint64_t{0} : found->second.calls;
              });
    Metric compared = metric("rondo_skew_calls_total", "counter",
                             "Calls whose entries were compared for the two counters above.");
    for (const Labelled& comm : all_)
      compared.sample(comm.communicator, late_.of(*comm.comm).calls);
  }

  void put_waits_and_faults() {
    put_ranks(metric("rondo_waits_total", "counter", "Waits of about 100 us or more."), all_,
              [](const TracedComm&, const RankTrace& rank) { return rank.all_waits; });
    put_ranks(metric("rondo_wait_seconds_total", "counter", "Time in these waits."), all_,
              [](const TracedComm&, const RankTrace& rank) { return seconds(rank.waited_ns); });
    put_ranks(metric("rondo_call_open_seconds", "gauge",
                     "Age of the call that the rank is in; 0: in none."),
              all_, [](const TracedComm&, const RankTrace& rank) { return open_seconds(rank); });
    put_ranks(metric("rondo_blamed_seconds", "gauge",
                     "How long others have waited for this rank, which waits for none; 0: they do "
                     "not wait a second."),
              all_, [&](const TracedComm& comm, const RankTrace& rank) {
                return blamed_seconds(comm.first().communicator, rank.rank);
              });
    Metric elsewhere = metric("rondo_blamed_elsewhere_seconds", "gauge",
                              "How long ranks of this host have waited for this rank of another "
                              "host, which may wait itself.");
    for (const Labelled& comm : all_)
      for (const Culprit& one : culprits_)
        if (one.is_of_other_host && one.communicator == comm.comm->first().communicator)
          elsewhere.sample(fmt::format("{},rank=\"{}\"", comm.communicator, one.rank), one.seconds);
    put_ranks(metric("rondo_faults_total", "counter", "Faults of the communicator at the rank."),
              all_, [](const TracedComm&, const RankTrace& rank) {
                return std::uint64_t{rank.fault.empty() ? 0u : 1u};
              });
  }

  void put_network() {
    const auto counter = [&](const char* name, const char* help, std::uint64_t RankTrace::*value) {
      put_ranks(metric(name, "counter", help), all_,
                [value](const TracedComm&, const RankTrace& rank) { return rank.*value; });
    };
    counter("rondo_network_sent_bytes_total", "Bytes sent to other hosts by the rank's host.",
            &RankTrace::sent_bytes);
    counter("rondo_network_received_bytes_total", "Bytes received from other hosts.",
            &RankTrace::received_bytes);
    counter("rondo_network_lost_peers_total", "Ranks of other hosts whose links have ended.",
            &RankTrace::lost_peers);
    counter("rondo_network_lost_rails_total", "Ports that a link has lost while others go on.",
            &RankTrace::lost_rails);
    counter("rondo_network_resent_parts_total",
            "Parts of messages that were sent again over another port.", &RankTrace::resent_parts);
    const auto rail = [&](const char* name, const char* help, const auto& value) {
      Metric made = metric(name, "counter", help);
      for (const Labelled& comm : all_)
        for (const RankTrace& rank : comm.comm->ranks)
          for (const RailTotal& of : rank.rails)
            made.sample(fmt::format("{},rail=\"{}\"", comm.rank(rank), escaped(of.port)),
                        value(of));
    };
    rail("rondo_rail_sent_bytes_total",
         "Bytes sent to other hosts by one network port of the host.",
         [](const RailTotal& of) { return of.sent_bytes; });
    rail("rondo_rail_received_bytes_total", "Bytes received from other hosts by this port.",
         [](const RailTotal& of) { return of.received_bytes; });
    rail("rondo_rail_busy_seconds_total",
         "Time in which data sent by this port was not acknowledged; 0: the network does not tell.",
         [](const RailTotal& of) { return seconds(of.busy_ns); });
  }

  void put_memory() {
    Metric memory = metric("rondo_memory_bytes", "gauge",
                           "Memory of the rank in this communicator: shared with the host's ranks, "
                           "pinned, on its GPU.");
    for (const Labelled& comm : all_)
      for (const RankTrace& rank : comm.comm->ranks) {
        const auto sample = [&](const char* kind, std::uint64_t bytes) {
          memory.sample(fmt::format("{},kind=\"{}\"", comm.rank(rank), kind), bytes);
        };
        sample("shared", rank.own_bytes);
        if (rank.device_bytes == 0 && rank.pinned_bytes == 0) continue;
        sample("pinned", rank.pinned_bytes);
        sample("device", rank.device_bytes);
      }
    Metric shared = metric("rondo_shared_memory_bytes", "gauge",
                           "Memory of the communicator that its ranks on this host share.");
    for (const Labelled& comm : all_)
      shared.sample(comm.communicator, comm.comm->first().shared_bytes);
  }

  std::string text() && { return std::move(text_); }

 private:
  Metric metric(const char* name, const char* type, const char* help) {
    return {&text_, name, type, help};
  }

  double blamed_seconds(std::uint64_t communicator, int rank) const {
    for (const Culprit& one : culprits_)
      if (!one.is_of_other_host && one.communicator == communicator && one.rank == rank)
        return one.seconds;
    return 0;
  }

  const LateSums& late_;
  const std::span<const Culprit> culprits_;
  std::vector<Labelled> all_;
  std::string text_;
};

}  // namespace

std::string metrics_text(std::span<const TracedComm> comms, const LateSums& late,
                         std::span<const Culprit> culprits) {
  MetricsWriter writer(comms, late, culprits);
  writer.put_calls();
  writer.put_lateness();
  writer.put_waits_and_faults();
  writer.put_network();
  writer.put_memory();
  return std::move(writer).text();
}

}  // namespace rondo::trace
