// SPDX-License-Identifier: Apache-2.0
// A profiler plugin in C++ for tests, version 6 of NCCL's interface: the function that
// $RONDO_TEST_PROFILER_THROWS names throws, the others do nothing.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace {

int handle;  // all handles are its address

int call(std::string_view function) {
  const char* const throws = std::getenv("RONDO_TEST_PROFILER_THROWS");
  if (throws != nullptr && function == throws) throw std::runtime_error("thrown by the plugin");
  return 0;
}

int init(void** context, std::uint64_t, int* mask, const char*, int, int, int, void*) {
  *context = &handle;
  *mask = 0xffff;
  return call("init");
}
int start(void*, void** event, void*) {
  *event = &handle;
  return call("startEvent");
}
int stop(void*) { return call("stopEvent"); }
int record(void*, int, void*) { return call("recordEventState"); }
int finish(void*) { return call("finalize"); }

struct Table {
  const char* name;
  int (*init)(void**, std::uint64_t, int*, const char*, int, int, int, void*);
  int (*start)(void*, void**, void*);
  int (*stop)(void*);
  int (*record)(void*, int, void*);
  int (*finish)(void*);
};

}  // namespace

extern "C" {
__attribute__((visibility("default"))) extern const Table ncclProfiler_v6;
const Table ncclProfiler_v6 = {"throwing", init, start, stop, record, finish};
}
