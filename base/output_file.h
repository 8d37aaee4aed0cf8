// open_output(): a file that the program writes for its user: logs and results.
//
// Guarantees: a file that is emptied is a regular one of this user's with one name; no symbolic
// link is followed at the end of the path, so that nobody can aim a name in /tmp at another file of
// ours. Devices are opened as they are. /dev/stdout, /dev/stderr and /dev/fd/N mean the descriptors
// that this process has, which go on where they are.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace rondo {

enum class OutputMode { kReplace, kAppendLines };  // the latter: several processes may write to it

// kSystemError, with a text that begins with the path.
Result<Fd> open_output(const std::string& path, OutputMode mode, int permissions = 0666);

// The whole of a file at once: who reads it sees the old text or the new one. A link at the end of
// the path is replaced, not followed.
Status write_output(const std::string& path, const std::string& text);

}  // namespace rondo
