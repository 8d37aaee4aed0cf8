// Variables of NCCL's that mean nothing to Rondo, with the reason: set in many job scripts, so they
// are accepted, and whoever asks is told (`rondo env`, `rondo doctor`, NCCL_DEBUG).
//
// Cost: looking one up is a walk over a table; telling is once a process.
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
