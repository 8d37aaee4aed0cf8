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
#pragma once

#include <dlfcn.h>

namespace rondo {

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

}  // namespace rondo
