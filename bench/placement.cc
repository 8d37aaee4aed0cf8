// SPDX-License-Identifier: Apache-2.0
#include "bench/placement.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/printable.h"
#include "bench/sweep_facts.h"

namespace rondo::bench {

int Placement::processes_here() const {
  return launch_.local_size > 0 ? launch_.local_size : processes_;
}

int Placement::ranks_here() const { return processes_here() * options_.threads * options_.gpus; }

std::string Placement::misfit() const {
  const int maximum = options_.ranks_per_gpu * options_.devices;
  if (options_.ranks_per_gpu == 0 || ranks_here() <= maximum) return "";
  return fmt::format(
      "this host has {}, but --ranks-per-gpu {} on {} gives {}: leave it out, or raise it",
      counted(ranks_here(), "rank"), options_.ranks_per_gpu, counted(options_.devices, "device"),
      maximum);
}

int Placement::device_of(int thread, int lane) const {
  if (options_.devices == 0) return -1;
  const int process = launch_.local_rank >= 0 ? launch_.local_rank : launch_.rank;
  const int local = (process * options_.threads + thread) * options_.gpus + lane;
  if (options_.ranks_per_gpu > 0) return local / options_.ranks_per_gpu;
  if (ranks_here() <= options_.devices) return local;
  return static_cast<int>(std::int64_t{local} * options_.devices / ranks_here());
}

Result<std::string> Placement::describe(std::span<const std::unique_ptr<Lane>> lanes) {
  std::string text;
  for (const auto& lane : lanes) {
    const GpuLane* gpu = lane->backend().gpu();
    if (gpu == nullptr) {
      text += fmt::format("{} {} {} 0000:00:00 0 0 0 host memory\n", getpid(), host_name(),
                          lane->number() % (options_.threads * options_.gpus));
      continue;
    }
    double copies = 0, link = 0, network = 0;
    bool first = false;
    {
      std::lock_guard lock(mutex_);
      first = measured_.insert(gpu->device()).second;
    }
    if (first && !options_.plain) {
      RONDO_TRY(copies, gpu_copy_bandwidth(gpu->device()));
      RONDO_TRY(link, gpu_link_bandwidth(gpu->device()));
    }
    if (!options_.plain) network = lane->backend().network_gbs();
    text +=
        fmt::format("{} {} {} {} {:.3f} {:.3f} {:.3f} {}\n", getpid(), host_name(), gpu->device(),
                    gpu_bus_id(gpu->device()), copies, link, network, gpu_name(gpu->device()));
  }
  return text;
}

std::vector<Rank> ranks_of(const std::vector<std::string>& described) {
  std::vector<Rank> ranks;
  for (const std::string& member : described) {
    std::istringstream lines(member);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      Rank rank;
      rank.rank = static_cast<int>(ranks.size());
      words >> rank.pid >> rank.host >> rank.number >> rank.bus_id >> rank.copy_gbs >>
          rank.link_gbs >> rank.network_gbs >> std::ws;
      std::getline(words, rank.device);
      rank.host = printable(rank.host);
      rank.device = printable(rank.device);
      ranks.push_back(std::move(rank));
    }
  }
  return ranks;
}

std::string speeds_of(std::span<const Rank> ranks) {
  std::string text;
  std::map<std::string, double> network;  // by host
  for (const Rank& rank : ranks) {
    double& gbs = network[rank.host];
    gbs = std::max(gbs, rank.network_gbs);
    if (rank.copy_gbs > 0)
      text += fmt::format(
          "#  Copies inside device {} of {} read and write {:.1f} GB/s{}: %roof is of that\n",
          rank.number, rank.host, rank.copy_gbs,
          rank.link_gbs > 0 ? fmt::format(", to another device {:.1f}", rank.link_gbs) : "");
  }
  if (text.empty() || network.size() < 2) return text;
  std::vector<double> known;
  for (const auto& [host, gbs] : network)
    if (gbs > 0) known.push_back(gbs);
  if (known.empty())
    return text + "#  No rate of the network between hosts is known: %roof leaves it out\n";
  const auto [minimum, maximum] = std::minmax_element(known.begin(), known.end());
  const std::string rates = *minimum < *maximum
                                ? fmt::format("{:.4g} to {:.4g}", *minimum, *maximum)
                                : fmt::format("{:.4g}", *maximum);
  const std::size_t unknown = network.size() - known.size();
  return text +
         fmt::format(
             "#  Network of a host: {} GB/s each way by the topology's ports{}: %roof is of that "
             "too\n",
             rates,
             unknown > 0 ? fmt::format(", {} of {} hosts not known", unknown, network.size()) : "");
}

}  // namespace rondo::bench
