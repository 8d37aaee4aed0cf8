// NCCL variables that have no effect in Rondo, each with the reason. Many job scripts set them, so
// Rondo accepts them and reports them in `rondo env`, `rondo doctor` and the NCCL_DEBUG log.
//
// Cost: a lookup is a linear search in a table; each process reports them once.
//
//   env::tell_unused();  // when a communicator is made
#pragma once

#include <span>
#include <string_view>

namespace rondo::env {

struct Unused {
  std::string_view name;  // a last '*' stands for any ending that the registry does not have
  bool asks;              // for something that Rondo does not do: WARN; else a hint: INFO
  std::string_view why;
};

std::span<const Unused> unused();
const Unused* find_unused(std::string_view name);

// The variable of Rondo's or NCCL's that is at most `edits` single-character edits away; empty if
// none is.
std::string_view nearest(std::string_view name, std::size_t edits);

// Logs, once a process, conf files that could not be read, every NCCL_* variable that is set
// (environment or conf files) and has no effect, and names that look like a mistyped one of
// Rondo's. Nothing is looked at where the log does not want it.
void tell_unused();

}  // namespace rondo::env
