// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/tune_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/env.h"
#include "base/log.h"
#include "base/text_file.h"
#include "topology/graph/host_graph.h"
#include "topology/host_topology.h"
#include "topology/small_file.h"

namespace rondo {
namespace {

constexpr std::string_view kFirstWords = "rondo tune ", kGpuWord = "gpu ";
constexpr int kHostVersion = 1, kGpuVersion = 2;
constexpr std::size_t kMaxTuneBytes = 16 << 10;

template <class Number>
bool parse_whole(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_digest(std::string_view text, std::uint64_t* digest) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *digest, 16);
  return text.size() == 16 && error == std::errc() && end == text.data() + text.size();
}

// Index of the row with this name; the number of rows if there is none.
template <class Info, std::size_t rates>
std::size_t rate_named(const Info (&table)[rates], std::string_view name) {
  const auto found =
      std::find_if(table, table + rates, [name](const Info& info) { return info.name == name; });
  return found == table + rates ? rates : static_cast<std::size_t>(found->rate);
}

class TuneParser {
 public:
  TuneParser(std::string_view text, std::string_view source) : rest_(text), source_(source) {}

  Result<TuneFile> run() {
    RONDO_TRY(const std::string_view version, field(kFirstWords));
    int number = 0;
    if (!parse_whole(version, &number) || number < 1)
      return wrong("expected 'rondo tune' and a version");
    if (number > kGpuVersion)
      return wrong(fmt::format("version {} was written by a newer Rondo; run rondo tune", number));
    RONDO_TRY(const std::string_view cpu, field("cpu "));
    file_.cpu = cpu;
    RONDO_TRY(const std::string_view graph, field("graph "));
    if (!parse_digest(graph, &file_.graph))
      return wrong("expected a digest of 16 hexadecimal digits");
    std::uint64_t known = 0;
    for (std::size_t i = 0; i < kHostRates; ++i) {
      RONDO_TRY(const Rate rate, next_rate(kHostRateTable, &known));
      file_.ns[rate.at] = rate.ns;
    }
    if (number == kGpuVersion) RONDO_CHECK_OK(device_rates());
    RONDO_TRY(const std::string_view end, field("end"));
    if (!end.empty() || !rest_.empty()) return wrong("unexpected text after 'end'");
    return file_;
  }

 private:
  struct Rate {
    std::size_t at;  // index in its enum
    double ns;
  };

  Error wrong(std::string_view why) const {
    return fail(StatusCode::kInvalidArgument, "{}: line {}: {}", source_, line_, why);
  }

  // The rest of the next line after `words`.
  Result<std::string_view> field(std::string_view words) {
    ++line_;
    const auto end = rest_.find('\n');
    if (end == std::string_view::npos) return wrong("the file is cut short");
    const std::string_view line = rest_.substr(0, end);
    if (!line.starts_with(words)) return wrong(fmt::format("expected '{}'", words));
    rest_.remove_prefix(end + 1);
    return line.substr(words.size());
  }

  // `known`: rates of the table seen before.
  template <class Info, std::size_t rates>
  Result<Rate> next_rate(const Info (&table)[rates], std::uint64_t* known) {
    static_assert(rates <= 64);
    RONDO_TRY(const std::string_view line, field(""));
    const auto space = std::min(line.find(' '), line.size());
    const std::string_view name = line.substr(0, space);
    const std::size_t at = rate_named(table, name);
    if (at == rates) return wrong("this Rondo has no such rate");
    if ((*known >> at & 1) != 0) return wrong(fmt::format("'{}' occurs twice", name));
    double ns = 0;
    if (space == line.size() || !parse_whole(line.substr(space + 1), &ns) ||
        !(ns > 0 && ns <= HostCosts::kMaxNs))
      return wrong(fmt::format("'{}' must be above 0 and at most {} ns", name, HostCosts::kMaxNs));
    *known |= std::uint64_t{1} << at;
    return Rate{at, ns};
  }

  Status device_rates() {
    RONDO_TRY(const std::string_view name, field(kGpuWord));
    if (name.empty()) return wrong("expected the GPU's name");
    file_.gpu = name;
    std::uint64_t known = 0;
    while (!rest_.starts_with("end\n")) {
      RONDO_TRY(const Rate rate, next_rate(gpu::kDeviceRateTable, &known));
      file_.device.set(static_cast<gpu::DeviceRate>(rate.at), rate.ns);
    }
    return ok_status();
  }

  std::string_view rest_, source_;
  int line_ = 0;
  TuneFile file_;
};

}  // namespace

std::string format_tune_file(const TuneFile& file) {
  std::string text =
      fmt::format("{}{}\ncpu {}\ngraph {:016x}\n", kFirstWords,
                  file.gpu.empty() ? kHostVersion : kGpuVersion, file.cpu, file.graph);
  for (const HostRateInfo& info : kHostRateTable)
    text += fmt::format("{} {:.6g}\n", info.name, file.ns[static_cast<std::size_t>(info.rate)]);
  if (!file.gpu.empty()) text += fmt::format("{}{}\n", kGpuWord, file.gpu);
  for (const gpu::DeviceRateInfo& info : gpu::kDeviceRateTable)
    if (!file.gpu.empty() && file.device.is_measured(info.rate))
      text += fmt::format("{} {:.6g}\n", info.name, file.device.of(info.rate));
  return text + "end\n";
}

Result<TuneFile> parse_tune_file(std::string_view text, std::string_view source) {
  return TuneParser(text, source).run();
}

TuneFile tune_key_of_this_machine() {
  constexpr std::size_t kFirstCore = 1 << 14;
  const std::string info = topology::read_small_file("/proc/cpuinfo", kFirstCore).value_or("");
  const topology::CacheSizes caches = topology::cache_sizes();
  TuneFile key;
  key.cpu = fmt::format("{}, L2 {} KiB, L3 {} KiB", topology::line_value(info, "model name"),
                        caches.core_bytes >> 10, caches.shared_bytes >> 10);
  if (const auto host = topology::read_host_graph(); host.ok()) key.graph = host->graph.digest();
  return key;
}

TunedCosts costs_of_environment(std::string_view gpu) {
  const std::string path = env::get_string("RONDO_TUNE_FILE");
  if (path.empty()) return {};
  TunedCosts costs = costs_of_file(path, gpu);
  if (!costs.refused.empty())
    RONDO_WARN("RONDO_TUNE_FILE: {}; using priors instead", costs.refused);
  return costs;
}

TunedCosts costs_of_file(const std::string& path, std::string_view gpu) {
  TunedCosts costs;
  const auto refuse = [&](std::string_view why) {
    costs.refused = why;
    return costs;
  };
  const auto text = read_text_file("tune file", path, kMaxTuneBytes);
  if (!text.ok()) return refuse(text.error().text);
  const auto file = parse_tune_file(*text, path);
  if (!file.ok()) return refuse(file.error().text);
  const TuneFile here = tune_key_of_this_machine();
  if (file->cpu != here.cpu)
    return refuse(fmt::format("'{}' was measured on another machine ({}; this is {})", path,
                              file->cpu, here.cpu));
  if (file->graph != here.graph)
    return refuse(
        fmt::format("'{}' was measured on a machine with other devices; run rondo tune", path));
  costs.host.ns = file->ns;
  costs.host.measured = true;
  if (gpu.empty() || file->gpu.empty()) return costs;
  if (file->gpu != gpu)
    return refuse(
        fmt::format("'{}' was measured on other GPUs ({}; this is {})", path, file->gpu, gpu));
  costs.device = file->device;
  return costs;
}

}  // namespace rondo
