#include "bench/placement.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/printable.h"
#include "bench/sweep_facts.h"

namespace rondo::bench {

int Placement::processes_here() const {
  return launch_.local_size > 0 ? launch_.local_size : processes_;
}

int Placement::ranks_here() const { return processes_here() * options_.threads * options_.gpus; }

std::string Placement::misfit() const {
  const int most = options_.ranks_per_gpu * options_.devices;
  if (options_.ranks_per_gpu == 0 || ranks_here() <= most) return "";
  return fmt::format(
      "{} ranks of this host, but --ranks-per-gpu {} on {} devices are {}: leave it out, or "
      "raise it",
      ranks_here(), options_.ranks_per_gpu, options_.devices, most);
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
      text += fmt::format("{} {} {} 0000:00:00 0 0 host memory\n", getpid(), host_name(),
                          lane->number() % (options_.threads * options_.gpus));
      continue;
    }
    double copies = 0, link = 0;
    bool first = false;
    {
      std::lock_guard lock(mutex_);
      first = measured_.insert(gpu->device()).second;
    }
    if (first && !options_.plain) {
      RONDO_TRY(copies, gpu_copy_bandwidth(gpu->device()));
      RONDO_TRY(link, gpu_link_bandwidth(gpu->device()));
    }
    text += fmt::format("{} {} {} {} {:.3f} {:.3f} {}\n", getpid(), host_name(), gpu->device(),
                        gpu_bus_id(gpu->device()), copies, link, gpu_name(gpu->device()));
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
          rank.link_gbs >> std::ws;
      std::getline(words, rank.device);
      rank.host = printable(rank.host);
      rank.device = printable(rank.device);
      ranks.push_back(std::move(rank));
    }
  }
  return ranks;
}

}  // namespace rondo::bench
