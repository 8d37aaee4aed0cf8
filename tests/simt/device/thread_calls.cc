// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/device/thread_calls.h"

#include <fmt/core.h>
#include <pthread.h>

#include <algorithm>
#include <string_view>

#include "tests/simt/machine/violation.h"

namespace rondo::simt {
namespace {

// calls: separated by spaces. Not there: cudaMalloc, frees (of nullptr: it makes a context),
// pinning, launches, waits for streams of programs. Memory that others ask for is virtual, and
// filled on a stream that has no other work. ipc_close: by free_when_idle(), which lets nothing be
// enqueued meanwhile and closes once the process has no unfinished work.
struct ThreadRow {
  std::string_view thread, calls;
};
// Queries, and memory by virtual memory or CUDA IPC.
#define RONDO_MEMORY_CALLS                                                                \
  "error_name error_text get_device set_device device_count attribute can_access_peer "   \
  "memory_info pointer_info may_access address_range exchange_capture_mode query_stream " \
  "query_event vmm_granularity vmm_create vmm_release vmm_reserve vmm_unreserve vmm_map " \
  "vmm_unmap vmm_allow vmm_export vmm_import vmm_retain ipc_export ipc_open dmabuf_export "
constexpr ThreadRow kRows[] = {
    {"the watch of a GPU", RONDO_MEMORY_CALLS "ipc_close create_stream fill copy "
                                              "synchronize_stream destroy_stream "
                                              "multicast_bind"},
    {"a GPU's proxy", RONDO_MEMORY_CALLS "flush_direct_writes"},
};
#undef RONDO_MEMORY_CALLS

constexpr std::size_t kNameLength = 15;  // the system keeps no more

const ThreadRow* row_of_this_thread() {
  char name[kNameLength + 1] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  const auto* const found = std::find_if(std::begin(kRows), std::end(kRows), [&](const auto& row) {
    return row.thread.substr(0, kNameLength) == name;
  });
  return found == std::end(kRows) ? nullptr : found;
}

bool has(std::string_view calls, std::string_view call) {
  for (std::size_t at = calls.find(call); at != calls.npos; at = calls.find(call, at + 1)) {
    const std::size_t end = at + call.size();
    if ((at == 0 || calls[at - 1] == ' ') && (end == calls.size() || calls[end] == ' '))
      return true;
  }
  return false;
}

}  // namespace

void check_thread(const char* call) {
  thread_local const ThreadRow* const row = row_of_this_thread();
  if (row == nullptr || has(row->calls, call)) return;
  report(
      Violation::kThread,
      fmt::format("{} calls {}, which its list does not have (tests/simt/device/thread_calls.cc): "
                  "other ranks may wait for this thread, so it must call nothing that may wait "
                  "for work of a stream",
                  row->thread, call));
}

}  // namespace rondo::simt
