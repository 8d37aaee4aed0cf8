#include "api/cli/tune_report.h"

#include <fmt/format.h>

namespace rondo::cli {
namespace {

void print_head(const char* where) {
  fmt::print("{:<15} {:<20} {:>5} {:>5} {:>10} {:>12} {:>12} {:>8} {:>8}\n", "collective",
             "algorithm", "ranks", where, "bytes", "measured us", "predicted", "ratio", "prior");
}

void print_call(const MeasuredCall& call, int where, double ns, double prior_ns) {
  const TuneRun& run = call.run;
  std::string way = run.algorithm;
  if (!run.protocol.empty()) way += fmt::format(":{}", run.protocol);
  if (run.ctas > 0) way += fmt::format(":{}", run.ctas);
  const double us = ns / 1000;
  fmt::print("{:<15} {:<20} {:>5} {:>5} {:>10} {:>12.2f} {:>12.2f} {:>8.2f} {:>8.2f}\n",
             run.collective, way, run.ranks, where, call.bytes, call.us, us, us / call.us,
             prior_ns / 1000 / call.us);
}

}  // namespace

void print_rates(const HostCosts& costs) {
  fmt::print("{:<12} {:>12} {:>12}\n", "rate", "ns", "prior");
  for (const HostRateInfo& info : kHostRateTable)
    fmt::print("{:<12} {:>12.4g} {:>12.4g}\n", info.name, costs.of(info.rate), info.prior);
}

void print_rates(const gpu::DeviceCosts& costs, int devices) {
  fmt::print("{:<12} {:>12} {:>12}\n", "on GPUs", "ns", "prior");
  std::string unknown;
  for (const gpu::DeviceRateInfo& info : gpu::kDeviceRateTable) {
    if (costs.is_measured(info.rate)) {
      fmt::print("{:<12} {:>12.4g} {:>12.4g}\n", info.name, costs.of(info.rate), info.prior);
    } else {
      unknown += fmt::format("{}{}", unknown.empty() ? "" : ", ", info.name);
    }
  }
  if (!unknown.empty())
    fmt::print("not measured, priors are used: {}{}\n", unknown,
               devices == 1 ? " (one GPU measures no link)" : "");
}

void print_calls(const std::vector<MeasuredCall>& calls, const std::vector<CostSample>& samples,
                 const HostCosts& costs) {
  const HostCosts priors;
  print_head("hosts");
  for (std::size_t i = 0; i < calls.size(); ++i)
    print_call(calls[i], calls[i].run.hosts, samples[i].work.ns(costs), samples[i].work.ns(priors));
}

void print_calls(const std::vector<MeasuredCall>& calls,
                 const std::vector<gpu::DeviceSample>& samples, const gpu::DeviceCosts& costs) {
  print_head("GPUs");
  for (std::size_t i = 0; i < calls.size(); ++i)
    print_call(calls[i], calls[i].run.devices, samples[i].predicted(costs),
               samples[i].predicted(gpu::kDevicePriors));
}

void print_share(double close, std::size_t calls) {
  fmt::print("{:.0f} % of {} measured calls are predicted within a factor of {} of their time\n",
             100 * close, calls, kCloseFactor);
}

}  // namespace rondo::cli
