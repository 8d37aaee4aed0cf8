// SPDX-License-Identifier: Apache-2.0
#include "api/arguments.h"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

#include "base/env.h"
#include "base/fd.h"
#include "base/log.h"

namespace rondo::api {
namespace {

// The kernel copies the byte through a pipe and back, and fails with EFAULT instead of a crash.
bool can_touch(const void* at, bool write_too, int out, int in) {
  char away = 0;
  void* back = write_too ? const_cast<void*>(at) : &away;
  if (::write(out, at, 1) != 1) return errno != EFAULT;
  if (::read(in, back, 1) == 1) return true;
  const bool refused = errno == EFAULT;
  [[maybe_unused]] const auto taken = ::read(in, &away, 1);
  return !refused;
}

}  // namespace

bool buffer_checks_wanted() {
  const std::string mode = env::get_string("NCCL_CHECK_MODE");
  for (const char* on : {"DEBUG_LOCAL", "DEBUG_GLOBAL"})
    if (strcasecmp(mode.c_str(), on) == 0) return true;
  static std::once_flag once;
  if (strcasecmp(mode.c_str(), "DEFAULT") != 0 && !mode.empty())
    std::call_once(once, [&] {
      RONDO_WARN("NCCL_CHECK_MODE='{}' is not DEFAULT, DEBUG_LOCAL or DEBUG_GLOBAL; using DEFAULT",
                 mode);
    });
  return env::get_bool("NCCL_CHECK_POINTERS");
}

Status check_buffer(const BufferUse& use, const char* function) {
  if (use.bytes == 0) return ok_status();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ok_status();  // no descriptors left: cannot check
  const Fd in(ends[0]), out(ends[1]);
  const auto touch = [&](const void* at) {
    return can_touch(at, use.written, out.get(), in.get());
  };
  if (!touch(use.at))
    return fail(StatusCode::kInvalidArgument, "{} : {} {} is not a valid pointer", function,
                use.argument, use.at);
  const void* last = static_cast<const std::byte*>(use.at) + (use.bytes - 1);
  if (touch(last)) return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : {} {} is not a valid pointer to {} bytes: memory of this process ends before",
              function, use.argument, use.at, use.bytes);
}

}  // namespace rondo::api
