// LibraryFunctions: the functions of a library that is loaded at run time, by their names, into a
// table of pointers.
//
// Guarantees: the first name that is missing is kept, so one check does after all look-ups. Cost: a
// dlsym() each.
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

  // dlsym gives the newest version of a name, whose types are those of the header. `use` is what
  // the function is called by here; the types are the header's own but for renamed parameters.
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
