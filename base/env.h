// The registry of every environment variable that Rondo reads: name, type, default, one line of
// help.
//
// Guarantees: a variable that is not in the table cannot be read (the getters take its name and
// abort in a debug build on an unknown one; tests cover every call). NCCL_* names where NCCL has
// the name, RONDO_* otherwise. Values come from the process environment first, then from the conf
// files (NCCL_CONF_FILE, else ~/.nccl.conf, then /etc/nccl.conf; regular files of up to 1 MiB),
// then from the table. Cost: a getenv and a parse; call at initialisation and keep the value, never
// in a data path.
//
//   double seconds = env::get_double("RONDO_TIMEOUT");
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::env {

// kFile, kSecret: texts that are as if unset in a program with more rights than its user (setuid).
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

// The text as set by the user, or nothing if it is set nowhere.
std::optional<std::string> raw(std::string_view name);

// Every NCCL_* and RONDO_* variable that is set, known or not, with its text; sorted by name.
std::vector<std::pair<std::string, std::string>> set_anywhere();

// The value, or the default where it is unset or does not parse (which is logged once, with the
// value, what is accepted, and the default used instead).
std::int64_t get_int(std::string_view name);  // kInt, kBytes (suffixes K, M, G: powers of 1024)
bool get_bool(std::string_view name);         // 0/1, true/false, yes/no, on/off
double get_double(std::string_view name);     // fractions allowed; never NaN
double get_seconds(std::string_view name);    // above 0, fractions allowed; a year at most
std::string get_string(std::string_view name);

// Why conf files that are there, or that NCCL_CONF_FILE names, were not read.
std::span<const std::string> conf_complaints();

// The lines of a conf file: NAME=VALUE, in order; '#' starts a comment, other lines mean nothing.
std::vector<std::pair<std::string, std::string>> parse_conf(std::string_view text);

// "4M" -> 4194304; nothing where the text is not a number with an optional suffix K, M or G.
std::optional<std::int64_t> parse_bytes(std::string_view text);

}  // namespace rondo::env
