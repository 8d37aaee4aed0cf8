// The C edge of errors: an Error becomes a result code, its sentence the "last error".
//
// Guarantees: report() remembers the sentence for the calling thread and for the process, and logs
// it once as a warning. last_error_text() prefers the caller's own thread: ranks that are threads
// of one process read their own story. Where there is no memory to keep a thread's sentence, its
// beginning is kept. Cost: one mutex and a copy, on failures only.
//
//   if (auto type = to_data_type("AllReduce", datatype); !type.ok()) return report(type.error());
#pragma once

#include <string_view>

#include "api/nccl.h"
#include "base/result.h"

namespace rondo::api {

constexpr ncclResult_t to_nccl(StatusCode status) { return static_cast<ncclResult_t>(status); }

// Remembers and logs. kInProgress is not an error: only converted.
ncclResult_t report(const Error& error);

// Remembers without logging: the engine has logged the fault where it found it.
ncclResult_t remember(const Error& error);

// Inside a handler: reports what was thrown in this function of the C API. Throws nothing.
ncclResult_t report_exception(const char* function);

template <class T>
ncclResult_t report(const Result<T>& result) {
  return result.ok() ? ncclSuccess : report(result.error());
}

// The calling thread's last sentence, else the process's last one, else "". Valid until the thread
// asks again.
const char* last_error_text();
// Copies text where last_error_text() keeps its answers, and returns it.
const char* keep_for_caller(std::string_view text);

const char* error_string(ncclResult_t result);

}  // namespace rondo::api
