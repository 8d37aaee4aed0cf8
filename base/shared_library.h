// load_library(): dlopen() of libraries that the user names, or that may be there.
//
// Guarantees: the file is looked at first, so that a FIFO or a device is refused instead of waited
// for: the path, or for a plain name what lies in the folders of LD_LIBRARY_PATH. Descriptors that
// the library opens, now or later, are 3 or above: where the program runs with 0, 1 or 2 closed,
// these are filled once a library has been loaded, by descriptors that nothing can be read from or
// written to (O_PATH), so the program's reads and prints fail as before. They are closed on exec.
// Cost: a dlopen() and a few system calls.
//
//   RONDO_TRY(void* const library, load_library("libucp.so.0"));
#pragma once

#include <string>

#include "base/result.h"

namespace rondo {

// With RTLD_NOW and RTLD_LOCAL. The error's text is the reason alone, without the file's name
// before it.
Result<void*> load_library(const std::string& file);

}  // namespace rondo
