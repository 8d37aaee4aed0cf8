// SPDX-License-Identifier: Apache-2.0
// NcclLibrary: a library with NCCL's interface, opened by its path at run time, so that one program
// can run on Rondo's and on NVIDIA's.
//
// Guarantees: calls reach the library at this path, whatever is preloaded (RTLD_LOCAL, dlsym on its
// handle). Every failure ends the process with one sentence on stderr.
//
//   const NcclLibrary nccl(path);
//   nccl.must(nccl.get_version(&version), "ncclGetVersion");
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "api/nccl.h"

namespace rondo::bench {

class NcclLibrary {
 public:
  explicit NcclLibrary(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      std::fprintf(stderr, "%s cannot be loaded: %s\n", path, dlerror());
      std::exit(2);
    }
    find("ncclGetVersion", get_version);
    find("ncclGetUniqueId", get_unique_id);
    find("ncclCommInitRank", init_rank);
    find("ncclCommDestroy", destroy);
    find("ncclAllReduce", all_reduce);
    find("ncclAllGather", all_gather);
    find("ncclReduceScatter", reduce_scatter);
    find("ncclBroadcast", broadcast);
    find("ncclSend", send);
    find("ncclRecv", recv);
    find("ncclGroupStart", group_start);
    find("ncclGroupEnd", group_end);
    find("ncclGetErrorString", error_string);
    find("ncclGetLastError", last_error);
  }

  void must(ncclResult_t result, const char* what) const {
    if (result == ncclSuccess) return;
    std::fprintf(stderr, "%s: %s: %s\n", what, error_string(result), last_error(nullptr));
    std::exit(3);
  }

  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) init_rank;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetLastError) last_error;

 private:
  template <class F>
  void find(const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(handle_, name));
    if (function != nullptr) return;
    std::fprintf(stderr, "the library has no %s\n", name);
    std::exit(2);
  }

  void* handle_;
};

}  // namespace rondo::bench
