// SPDX-License-Identifier: Apache-2.0
// load_library(): dlopen() for libraries that the user names, or that may be absent.
//
// Guarantees: it checks the file first, so that a FIFO or a device is refused, not waited for. It
// checks the given path, or for a plain name the first match in the folders of LD_LIBRARY_PATH.
// Descriptors that the library opens, now or later, are 3 or above: where the program runs with 0,
// 1 or 2 closed, a successful load fills these numbers for good with O_PATH descriptors. They can
// not be read or written, so the program's reads and prints fail as before. They are close-on-exec.
// Cost: a dlopen() and a few system calls.
//
//   RONDO_TRY(void* const library, load_library("libucp.so.0"));
#pragma once

#include <dlfcn.h>

#include <string>

#include "base/result.h"

namespace rondo {

// LibraryFunctions: looks up functions of a library that is loaded at run time, by name, into a
// table of pointers.
//
// Guarantees: need() keeps the name of the first missing function, so one check after all look-ups
// is enough. Cost: one dlsym() each.
//
//   RONDO_TRY(void* const library, load_library("libucp.so.0"));
//   LibraryFunctions functions(library);
//   functions.need(table.cleanup, "ucp_cleanup");
//   if (functions.missing() != nullptr) ...
class LibraryFunctions {
 public:
  explicit LibraryFunctions(void* library) : library_(library) {}

  // Stores the function's address in `use`, which has the type from the library's header. dlsym
  // returns the newest version of a name, which has these types.
  template <class Function>
  void need(Function*& use, const char* name) {
    find(use, name);
    if (use == nullptr && missing_ == nullptr) missing_ = name;
  }
  template <class Function>
  void find(Function*& use, const char* name) {
    use = reinterpret_cast<Function*>(dlsym(library_, name));
  }
  const char* missing() const { return missing_; }

 private:
  void* const library_;
  const char* missing_ = nullptr;
};

// "": the program itself. Loads with RTLD_NOW and RTLD_LOCAL. The text of an error is the reason
// only, without the file name before it.
Result<void*> load_library(const std::string& file);

}  // namespace rondo
