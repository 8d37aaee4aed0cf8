// SPDX-License-Identifier: Apache-2.0
// The registry of every environment variable that Rondo reads: name, type, default, one line of
// help.
//
// Guarantees: a variable that is not in the table cannot be read (in a debug build the getters
// abort on an unknown name; tests cover every call). Names are NCCL_* where NCCL has the variable,
// RONDO_* otherwise. Values are taken from the process environment first, then from the conf files
// (NCCL_CONF_FILE, else ~/.nccl.conf, then /etc/nccl.conf; regular files of up to 1 MiB), then from
// the table. Numbers: env.h. Cost: a getenv. Call at initialisation and keep the value; never call
// in a data path.
//
//   std::string level = env::get_string("NCCL_DEBUG");
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::env {

// kFile, kSecret: text. A setuid program ignores its value in the environment (secure_getenv).
// The value of a kSecret is never printed.
enum class Type { kBool, kInt, kDouble, kSeconds, kBytes, kString, kFile, kSecret };

struct Variable {
  std::string_view name;
  Type type;
  std::string_view fallback;  // the default, as text
  std::string_view help;
};

std::span<const Variable> all();
const Variable* find(std::string_view name);
// The same for a name that must be in the table.
const Variable& require(std::string_view name);

// The text as set by the user; nullopt if it is not set.
std::optional<std::string> raw(std::string_view name);

// Every NCCL_* and RONDO_* variable that is set, known or unknown, with its text; sorted by name.
std::vector<std::pair<std::string, std::string>> set_anywhere();

// The text, or the default if it is unset.
std::string get_string(std::string_view name);

// Errors of conf files that exist, or that NCCL_CONF_FILE names, but could not be read.
std::span<const std::string> conf_complaints();

// The NAME=VALUE lines of a conf file, in order. Lines that begin with '#' and others are ignored.
std::vector<std::pair<std::string, std::string>> parse_conf(std::string_view text);

}  // namespace rondo::env
