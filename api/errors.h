// SPDX-License-Identifier: Apache-2.0
// Converts an Error to the result code and the "last error" message of the C API.
//
// Guarantees: report() stores the message for the calling thread and for the process, and logs it
// once as a warning. last_error_text() prefers the calling thread's message, so that ranks in
// threads of one process read their own errors. If memory is exhausted, a thread's message is cut
// to 127 bytes. Cost: one mutex and a copy, on failures only.
//
//   if (auto type = to_data_type("AllReduce", datatype); !type.ok()) return report(type.error());
#pragma once

#include <string_view>

#include "api/nccl.h"
#include "base/result.h"

namespace rondo::api {

constexpr ncclResult_t to_nccl(StatusCode status) { return static_cast<ncclResult_t>(status); }

// Stores and logs the message. kInProgress is not an error and is only converted.
ncclResult_t report(const Error& error);

// Stores the message without logging: the engine has already logged the fault.
ncclResult_t remember(const Error& error);

// Called in a catch block: reports the exception that this API function threw. Never throws.
ncclResult_t report_exception(const char* function);

// Stores the first error of an open group; returns the result unchanged.
ncclResult_t note_in_group(ncclResult_t result);

// ncclGetLastError(comm) tells the newest failure of the calling thread on `comm`: its fault, or
// that no child of it could be made after that. Call it once that failure has been reported.
void note_failed_child(ncclComm_t parent);
// True until the thread reports another error.
bool last_is_failed_child(ncclComm_t parent);

template <class T>
ncclResult_t report(const Result<T>& result) {
  return result.ok() ? ncclSuccess : report(result.error());
}

// The calling thread's last message, else the process's last one, else "". Valid until the thread
// calls it again.
const char* last_error_text();
// Copies text into the buffer that last_error_text() returns, and returns it.
const char* keep_for_caller(std::string_view text);

const char* error_string(ncclResult_t result);

}  // namespace rondo::api
