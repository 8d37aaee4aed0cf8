// open_output(): opens a file that the program writes for its user: logs and results.
//
// Guarantees: only a regular file that this user owns and that has one name (no hard link) is
// emptied. A symbolic link at the end of the path is refused, so that a link in /tmp cannot aim the
// output at another file of this user. Devices are opened without change. /dev/stdout, /dev/stderr
// and /dev/fd/N mean this process's own descriptors, which keep their file offsets.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace rondo {

enum class OutputMode { kReplace, kAppendLines };  // kAppendLines: for several writers

// Errors are kSystemError, with a text that begins with the path.
Result<Fd> open_output(const std::string& path, OutputMode mode, int permissions = 0666);

// Replaces the whole file atomically: readers see the old text or the new one. A symbolic link at
// the end of the path is replaced, not followed.
Status write_output(const std::string& path, const std::string& text);

}  // namespace rondo
