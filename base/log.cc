// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string_view>

#include "base/text_file.h"
#include "base/variables.h"

namespace rondo::log {
namespace {

struct Settings {
  Level level = Level::kNone;
  unsigned subsystems = kAll;
  int fd = 1;  // like NCCL: stdout unless NCCL_DEBUG_FILE is set
  std::string host;
  std::string time_format;      // strftime's, plus %1f to %9f (%3f: milliseconds)
  unsigned stamped_levels = 0;  // bit l: lines of Level l begin with the time
};

std::atomic<int> cached_level{-1};
std::mutex settings_mutex;
Settings settings;

// Reports errors of the log itself to standard error.
void complain(const std::string& text) {
  const std::string line = fmt::format("{}:{} NCCL WARN {}\n", settings.host, getpid(), text);
  [[maybe_unused]] const auto written = ::write(2, line.data(), line.size());
}

Level parse_level(const std::string& text) {
  struct Row {
    const char* name;
    Level level;
  };
  for (Row row : {Row{"VERSION", Level::kVersion}, Row{"WARN", Level::kWarn},
                  Row{"INFO", Level::kInfo}, Row{"TRACE", Level::kTrace}})
    if (strcasecmp(text.c_str(), row.name) == 0) return row.level;
  return Level::kNone;
}

unsigned parse_subsystems(std::string text) {
  if (text.empty()) return kAll;
  const bool excludes = text[0] == '^';
  if (excludes) text.erase(0, 1);
  struct Row {
    const char* name;
    unsigned bit;
  };
  unsigned bits = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const std::string name = text.substr(start, comma - start);
    for (Row row : {Row{"INIT", kInit}, Row{"COLL", kColl}, Row{"NET", kNet}, Row{"GRAPH", kGraph},
                    Row{"TUNING", kTuning}, Row{"ENV", kEnv}, Row{"SHM", kShm},
                    Row{"BOOTSTRAP", kBootstrap}, Row{"ALL", kAll}})
      if (strcasecmp(name.c_str(), row.name) == 0) bits |= row.bit;
    start = comma + 1;
  }
  return excludes ? ~bits : bits;
}

// "WARN,INFO" or "^INFO", as bits.
unsigned parse_levels(std::string text) {
  const bool excludes = !text.empty() && text[0] == '^';
  if (excludes) text.erase(0, 1);
  unsigned bits = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const std::string name = text.substr(start, comma - start);
    if (strcasecmp(name.c_str(), "ALL") == 0) bits = ~0u;
    bits |= 1u << static_cast<int>(parse_level(name));
    start = comma + 1;
  }
  return excludes ? ~bits : bits;
}

// The time in the given format. A digit N before f prints N digits of the second's fraction.
std::string time_text(const std::string& format) {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::tm parts{};
  localtime_r(&now.tv_sec, &parts);
  std::string plain;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const bool fraction = format[i] == '%' && i + 2 < format.size() && format[i + 1] >= '1' &&
                          format[i + 1] <= '9' && format[i + 2] == 'f';
    if (fraction) {
      plain += fmt::format("{:09}", now.tv_nsec)
                   .substr(0, static_cast<std::size_t>(format[i + 1] - '0'));
      i += 2;
    } else {
      plain += format[i];
      if (format[i] == '%' && i + 1 < format.size()) plain += format[++i];
    }
  }
  char text[256] = "";
  return std::string(text, std::strftime(text, sizeof(text), plain.c_str(), &parts));
}

int load() {
  std::lock_guard lock(settings_mutex);
  if (const int level = cached_level.load(std::memory_order_acquire); level >= 0) return level;
  const std::string host = own_host_name();
  settings.host = host.substr(0, host.find('.'));
  cached_level.store(0, std::memory_order_relaxed);  // reading the variables must not recurse
  const std::string level = env::get_string("NCCL_DEBUG");
  settings.level = parse_level(level);
  if (settings.level == Level::kNone && !level.empty() && strcasecmp(level.c_str(), "NONE") != 0)
    complain(fmt::format("NCCL_DEBUG='{}' is not VERSION, WARN, INFO or TRACE: nothing is logged",
                         level));
  settings.subsystems = parse_subsystems(env::get_string("NCCL_DEBUG_SUBSYS"));
  const std::string file = env::get_string("NCCL_DEBUG_FILE");
  settings.time_format = env::get_string("NCCL_DEBUG_TIMESTAMP_FORMAT");
  settings.stamped_levels = parse_levels(env::get_string("NCCL_DEBUG_TIMESTAMP_LEVELS"));
  settings.fd = 1;
  if (strcasecmp(file.c_str(), "stderr") == 0) {
    settings.fd = 2;
  } else if (!file.empty() && strcasecmp(file.c_str(), "stdout") != 0) {
    const std::string path = expand_path(file, settings.host);
    auto opened = open_output(path, OutputMode::kAppendLines, 0644);
    if (opened.ok()) {
      settings.fd = opened->release();
    } else if (settings.level != Level::kNone) {
      complain(
          fmt::format("NCCL_DEBUG_FILE={}; the log goes to standard output", opened.error().text));
    }
  }
  cached_level.store(static_cast<int>(settings.level), std::memory_order_release);
  return static_cast<int>(settings.level);
}

}  // namespace

bool wanted(Level level, unsigned subsystem) {
  int current = cached_level.load(std::memory_order_acquire);
  if (current < 0) current = load();
  if (current < static_cast<int>(level)) return false;
  return level <= Level::kWarn || (settings.subsystems & subsystem) != 0;
}

void write_line(Level level, const char* file, int line, const std::string& text) {
  const char* base = std::strrchr(file, '/');
  const long thread = syscall(SYS_gettid);
  std::string out;
  if ((settings.stamped_levels >> static_cast<int>(level)) & 1)
    out = time_text(settings.time_format);
  if (level == Level::kWarn) {
    out += fmt::format("{}:{}:{} [-1] {}:{} NCCL WARN {}\n", settings.host, getpid(), thread,
                       base ? base + 1 : file, line, text);
  } else {
    out += fmt::format("{}:{}:{} [-1] NCCL INFO {}\n", settings.host, getpid(), thread, text);
  }
  [[maybe_unused]] const auto written = ::write(settings.fd, out.data(), out.size());
}

void reset() { cached_level.store(-1, std::memory_order_release); }

}  // namespace rondo::log

namespace rondo {

void notice(const std::string& text) {
  RONDO_WARN("{}", text);
  if (log::wanted(log::Level::kWarn)) return;
  const std::string line = "rondo: " + text + '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace rondo
