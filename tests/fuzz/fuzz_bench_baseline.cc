// SPDX-License-Identifier: Apache-2.0
// Any file as the baseline of `rondo bench`: it is refused with a reason, or the comparison runs.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "bench/report.h"

// Replaces the library's function; the report contains its value.
extern "C" const char* rondoGetVersion(void) { return "fuzzed"; }

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

rondo::bench::Run one_measurement() {
  rondo::bench::Row row;
  row.bytes = 1024;
  row.count = 256;
  row.type = "float";
  row.op = "sum";
  row.out_of_place.measured = true;
  row.out_of_place.iterations.p50 = 10;
  rondo::bench::Run run;
  run.rows.push_back(row);
  return run;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rondo::bench;
  static const int fd = memfd_create("baseline", MFD_CLOEXEC);
  static const Run run = one_measurement();
  static const Context context{};
  static const Options options{};
  // Every third input overwrites part of a valid baseline, at the offset that it gives.
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size > 2 && data[0] % 3 == 0) {
    std::string right = json_of(context, options, run);
    const std::size_t at = (data[1] << 8 | data[2]) % right.size();
    bytes = right.replace(at, bytes.size() - 3, bytes, 3);
  }
  require(ftruncate(fd, 0) == 0);
  require(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  const auto compared = compare("/proc/self/fd/" + std::to_string(fd), context, options, run);
  require(compared.ok() ? compared->compared == 1 : !compared.error().text.empty());
  return 0;
}
