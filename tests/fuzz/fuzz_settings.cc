// SPDX-License-Identifier: Apache-2.0
// Any text as a conf file, as the value of every registered variable, as NCCL_ALGO and NCCL_PROTO,
// as a list of CPUs, and as a launcher's variables: each is refused or gives usable values.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/launch_env.h"
#include "base/env.h"
#include "base/log.h"
#include "base/seconds.h"
#include "collectives/planner/algorithm_filter.h"
#include "collectives/planner/protocol_filter.h"
#include "topology/cpu_budget.h"
#include "transport/launch/launch.h"
#include "transport/tcp/tcp_network.h"

namespace {

using namespace rondo;

void require(bool condition) {
  if (!condition) std::abort();
}

void conf_file(std::string_view text) {
  for (const auto& [name, value] : env::parse_conf(text)) {
    require(name.find_first_of("=\n") == std::string::npos && !name.starts_with('#'));
    require(value.find('\n') == std::string::npos);
    require(text.find(value) != std::string_view::npos);
  }
}

// Except the log's variables: they would open files of any name.
void every_variable(const std::string& value) {
  for (const env::Variable& variable : env::all()) {
    if (variable.name == "NCCL_DEBUG_FILE" || variable.name == "NCCL_DEBUG") continue;
    const std::string name(variable.name);
    setenv(name.c_str(), value.c_str(), 1);
    switch (variable.type) {
      case env::Type::kBool:
        (void)env::get_bool(name);
        break;
      case env::Type::kInt:
      case env::Type::kBytes:
        (void)env::get_int(name);
        break;
      case env::Type::kDouble:
        require(!std::isnan(env::get_double(name)));
        break;
      case env::Type::kSeconds:
        require(env::get_seconds(name) > 0 && env::get_seconds(name) <= kMaxSeconds);
        require(to_nanoseconds(env::get_seconds(name)).count() >= 0);
        break;
      case env::Type::kString:
      case env::Type::kFile:
      case env::Type::kSecret:
        require(env::get_string(name) == value.c_str());
        break;
    }
  }
  const auto network = tcp::NetworkOptions::from_environment({});
  require(network.sockets >= 1 && network.vigilance.seconds >= 1);
  for (const env::Variable& variable : env::all()) unsetenv(std::string(variable.name).c_str());
}

void log_settings(const std::string& value) {
  setenv("NCCL_DEBUG_SUBSYS", value.c_str(), 1);
  log::reset();
  (void)log::wanted(log::Level::kInfo, log::kNet);
  unsetenv("NCCL_DEBUG_SUBSYS");
}

void cpu_list(std::string_view text) {
  const auto cpus = topology::parse_cpu_list(text);
  if (cpus) require(topology::parse_cpu_list(topology::to_text(*cpus)) == cpus);
}

// One line per variable.
void launcher(std::string_view text) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"}) {
    const auto end = std::min(text.find('\n'), text.size());
    setenv(name, std::string(text.substr(0, end)).c_str(), 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  rondo_launch_t me;
  const int launched = rondo_launch_read(&me);
  require(launched < 0 || (me.rank >= 0 && me.rank < me.size && launched == (me.size > 1)));
  (void)launch::on_one_host({me.rank, me.size, me.local_size, 0});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 6) {
    case 0:
      conf_file(text);
      break;
    case 1:
      every_variable(text);
      break;
    case 2:
      log_settings(text);
      break;
    case 3:
      if (const auto chosen = parse_algorithms(text, "NCCL_ALGO"); !chosen.ok())
        require(chosen.code() == StatusCode::kInvalidUsage);
      if (const auto chosen = parse_protocols(text, "NCCL_PROTO"); chosen.ok()) {
        for (const std::uint8_t set : chosen->allowed) require(set > 0 && set <= chosen->kAll);
      } else {
        require(chosen.code() == StatusCode::kInvalidUsage);
      }
      break;
    case 4:
      cpu_list(text);
      break;
    default:
      launcher(text);
      break;
  }
  return 0;
}
