// SPDX-License-Identifier: Apache-2.0
// librondo-watch.so: the profiler plugin for NCCL (NCCL_PROFILER_PLUGIN) by which rondo ps and
// rondo trace see NCCL's jobs. It exports the data symbols ncclProfiler_v1 to ncclProfiler_v7, and
// has no code of its own where librondo.so.1 is installed beside it (CMakeLists.txt).
//
// NCCL loads it with RTLD_LOCAL, so librondo.so.1 takes no symbol of the program's NCCL. Loading
// fills the tables and does nothing else: the first communicator starts the watch.

// As ProfilerTable of collectives/profiler/abi.h.
struct Table {
  const char* name;
  void (*functions[5])(void);
};

// Of tables.cc; the number of tables is in the name, so a librondo.so.1 that has others is not
// used.
extern const struct Table rondo_watch_tables_7[7];

#pragma GCC visibility push(default)  // data, so that no entry point of api/export.h is of use here
struct Table ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4, ncclProfiler_v5,
    ncclProfiler_v6, ncclProfiler_v7;
#pragma GCC visibility pop

// Filled when loaded: the address of another library's data is no constant.
__attribute__((constructor)) static void fill_tables(void) {
  const struct Table* const from = rondo_watch_tables_7;
  ncclProfiler_v1 = from[0];
  ncclProfiler_v2 = from[1];
  ncclProfiler_v3 = from[2];
  ncclProfiler_v4 = from[3];
  ncclProfiler_v5 = from[4];
  ncclProfiler_v6 = from[5];
  ncclProfiler_v7 = from[6];
}
