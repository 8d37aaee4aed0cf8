// SPDX-License-Identifier: Apache-2.0
#include "bench/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rondo::bench {
namespace {

void put(std::string& to, const void* bytes, std::size_t size) {
  to.append(static_cast<const char*>(bytes), size);
}

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  bool take(void* into, std::size_t size) {
    if (size > bytes_.size() - at_) return false;
    std::memcpy(into, bytes_.data() + at_, size);
    at_ += size;
    return true;
  }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};

void put_text(std::string& to, const std::string& text) {
  const std::uint64_t length = text.size();
  put(to, &length, sizeof length);
  to.append(text);
}

std::string take_text(Reader& from) {
  std::uint64_t length = 0;
  if (!from.take(&length, sizeof length) || length > from.left()) return "";
  std::string text(length, '\0');
  from.take(text.data(), length);
  return text;
}

}  // namespace

Summary summarise(std::vector<double> samples) {
  Summary out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  const auto percentile = [&](double p) {
    const double rank = std::ceil(p / 100 * n);
    return samples[static_cast<std::size_t>(std::clamp(rank, 1.0, n)) - 1];
  };
  for (double sample : samples) out.mean += sample / n;
  for (double sample : samples) out.deviation += (sample - out.mean) * (sample - out.mean) / n;
  out.deviation = std::sqrt(out.deviation);
  out.min = samples.front(), out.max = samples.back();
  out.p50 = percentile(50), out.p95 = percentile(95), out.p99 = percentile(99);
  return out;
}

std::string pack(const std::vector<RankMeasurement>& reports) {
  std::string bytes;
  for (const RankMeasurement& report : reports) {
    put(bytes, &report.mean_us, sizeof report.mean_us);
    put(bytes, &report.wrong, sizeof report.wrong);
    put_text(bytes, report.example);
    put_text(bytes, report.plan);
    const std::uint64_t samples = report.samples_us.size();
    put(bytes, &samples, sizeof samples);
    put(bytes, report.samples_us.data(), samples * sizeof(float));
  }
  return bytes;
}

std::vector<RankMeasurement> unpack(const std::string& bytes) {
  std::vector<RankMeasurement> reports;
  for (Reader reader(bytes); reader.left() >= sizeof(double);) {
    RankMeasurement& report = reports.emplace_back();
    reader.take(&report.mean_us, sizeof report.mean_us);
    reader.take(&report.wrong, sizeof report.wrong);
    report.example = take_text(reader);
    report.plan = take_text(reader);
    std::uint64_t samples = 0;
    reader.take(&samples, sizeof samples);
    report.samples_us.resize(std::min<std::uint64_t>(samples, reader.left() / sizeof(float)));
    reader.take(report.samples_us.data(), report.samples_us.size() * sizeof(float));
  }
  return reports;
}

double gbs(double bytes, double microseconds) {
  return microseconds > 0 ? bytes / (microseconds * 1e3) : 0;
}

Side combine(const std::vector<RankMeasurement>& reports, const Options& options,
             const Layout& layout, bool checked) {
  Side side;
  side.measured = true;
  std::size_t iterations = reports[0].samples_us.size();
  std::uint64_t wrong = 0;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const RankMeasurement& report = reports[rank];
    side.rank_us.push_back(report.mean_us);
    iterations = std::min(iterations, report.samples_us.size());
    wrong += report.wrong;
    if (!report.example.empty() && side.example.empty())
      side.example = fmt::format("rank {}: {}", rank, report.example);
  }
  side.ranks = summarise(side.rank_us);
  side.slowest_rank = static_cast<int>(std::max_element(side.rank_us.begin(), side.rank_us.end()) -
                                       side.rank_us.begin());
  for (std::size_t i = 0; i < iterations; ++i) {
    double slowest = 0;
    for (const RankMeasurement& report : reports)
      slowest = std::max<double>(slowest, report.samples_us[i]);
    side.samples_us.push_back(slowest);
  }
  const auto skip = std::min<std::size_t>(static_cast<std::size_t>(options.skip_iterations),
                                          side.samples_us.size());
  side.samples_us.erase(side.samples_us.begin(),
                        side.samples_us.begin() + static_cast<std::ptrdiff_t>(skip));
  side.iterations = summarise(side.samples_us);
  switch (options.average) {
    case 0:
      side.time_us = side.rank_us[0];
      break;
    case 2:
      side.time_us = side.ranks.min;
      break;
    case 3:
      side.time_us = side.ranks.max;
      break;
    default:
      side.time_us = side.ranks.mean;
      break;
  }
  side.algorithm_gbs = gbs(layout.moved_bytes, side.time_us);
  side.bus_gbs = side.algorithm_gbs * layout.bus_factor;
  if (checked) side.wrong = static_cast<std::int64_t>(wrong);
  return side;
}

double Run::average_bus_gbs() const {
  double sum = 0;
  int sides = 0;
  for (const Row& row : rows)
    for (const Side* side : {&row.out_of_place, &row.in_place})
      if (side->measured) sum += side->bus_gbs, ++sides;
  return sides > 0 ? sum / sides : 0;
}

}  // namespace rondo::bench
