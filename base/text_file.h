// SPDX-License-Identifier: Apache-2.0
// read_text_file(): reads a text file that a variable, an option or the system names.
//
// Guarantees: opening and reading never block, and a file never takes more memory than its limit.
// Only regular files are read (those of /proc and /sys are regular); a FIFO, a device or a socket
// is an error that names its kind. The descriptor is 3 or above. Cost: four system calls.
//
//   RONDO_TRY(const std::string text, read_text_file("topology file", path, 4 << 20));
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace rondo {

// "a FIFO" or the like, for a stat's st_mode.
const char* kind_of_file(unsigned mode);

// `what` names the file in errors: "cannot read the <what> '<path>': ...".
Result<Fd> open_regular_file(std::string_view what, const std::string& path);

// The whole text; an error if it has more than `limit` bytes.
Result<std::string> read_text_file(std::string_view what, const std::string& path,
                                   std::size_t limit);

// The first `limit` bytes, or all if there are fewer.
Result<std::string> read_start_of_file(std::string_view what, const std::string& path,
                                       std::size_t limit);

// open_output(): opens a file that the program writes for its user: logs and results.
//
// Guarantees: only a regular file that this user owns and that has one name (no hard link) is
// emptied. A symbolic link at the end of the path is refused, so that a link in /tmp cannot aim the
// output at another file of this user. Devices are opened without change. /dev/stdout, /dev/stderr
// and /dev/fd/N mean this process's own descriptors, which keep their file offsets.
enum class OutputMode { kReplace, kAppendLines };  // kAppendLines: for several writers

// Errors are kSystemError, with a text that begins with the path.
Result<Fd> open_output(const std::string& path, OutputMode mode, int permissions = 0666);

// Replaces the whole file atomically: readers see the old text or the new one. A symbolic link at
// the end of the path is replaced, not followed.
Status write_output(const std::string& path, const std::string& text);

// Names of files with %h (the host), %p (the process id) and %% (a percent sign), as users give
// them in NCCL_DEBUG_FILE and RONDO_METRICS.
//
//   open_output(expand_path("/var/log/rondo-%h-%p.log", own_host_name()), ...);
//
// Guarantees: what stands for %h is one part of a path that names no other folder, whatever the
// host is called: '/', control characters and a leading dot become '_'. It is not expanded again.
// Other letters after a percent sign stay as they are. Cost: a copy of the text.
std::string expand_path(std::string_view pattern, std::string_view host);

// What gethostname() says.
std::string own_host_name();

}  // namespace rondo
