// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/device/registers.h"

#include <cxxabi.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace rondo::simt {
namespace {

using Table = std::map<std::string, unsigned>;

const Table& table() {
  static const Table* const only = [] {
    auto* const made = new Table;
    std::ifstream file(RONDO_KERNEL_TABLE);
    for (std::string line; std::getline(file, line);) {
      std::istringstream columns(line);
      std::string kernel;
      unsigned registers = 0;
      if (std::getline(columns, kernel, '\t') && columns >> registers)
        made->emplace(kernel, registers);
    }
    return made;
  }();
  return *only;
}

// In the order of base/types.h, in lower case.
constexpr const char* kTypes[kDataTypes] = {
    "int8",    "uint8",   "int32",    "uint32",     "int64",      "uint64", "float16",
    "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2", "int16",  "uint16"};
constexpr const char* kOps[kRedOps] = {"sum",    "prod",  "max",    "min",      "avg",
                                       "bitand", "bitor", "bitxor", "premulsum"};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Label as the table writes kernels: Connected<SumMath<float32>> and so on.
std::string label_of(const char* type) {
  char* const demangled = abi::__cxa_demangle(type, nullptr, nullptr, nullptr);
  std::string label = demangled != nullptr ? demangled : type;
  std::free(demangled);
  for (int i = kDataTypes; i-- > 0;)
    replace_all(label, "(rondo::DataType)" + std::to_string(i), kTypes[i]);
  for (int i = kRedOps; i-- > 0;) replace_all(label, "(rondo::RedOp)" + std::to_string(i), kOps[i]);
  replace_all(label, "rondo::cuda::", "");
  replace_all(label, " >", ">");
  return label;
}

}  // namespace

bool has_register_table() { return !table().empty(); }

unsigned registers_of(const cuda::KernelEntry& kernel) {
  if (kernel.type == nullptr) return 0;
  const std::string label = label_of(kernel.type);
  for (const std::string& row : {label, "stored " + label})
    if (const auto found = table().find(row); found != table().end()) return found->second;
  return 0;
}

}  // namespace rondo::simt
