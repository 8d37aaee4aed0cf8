// SPDX-License-Identifier: Apache-2.0
// Compiled with -DFACTS=<function name> and -include <the nccl.h to be described>, and perhaps
// -include <its nccl_device.h> -DDEVICE_FACTS.
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "facts.h"

namespace {

template <class T>
std::string type_name() {
  const std::string whole = __PRETTY_FUNCTION__;
  return whole.substr(whole.find("T = "));
}

template <class T>
std::string initial_bytes(const T& value) {
  std::string text;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

#define SIZE(type) facts.push_back({"sizeof(" #type ")", std::to_string(sizeof(type))});
#define FIELD(type, field)                                                                     \
  facts.push_back({"offsetof(" #type ", " #field ")", std::to_string(offsetof(type, field))}); \
  facts.push_back({"typeof(" #type "::" #field ")", type_name<decltype(type::field)>()});
#define VALUE(constant) facts.push_back({#constant, std::to_string(static_cast<double>(constant))});
#define POINTER(constant) facts.push_back({#constant, (constant) == nullptr ? "null" : "not null"});
#define FUNCTION(name)                                                \
  facts.push_back({"nccl" #name, type_name<decltype(nccl##name)>()}); \
  facts.push_back({"pnccl" #name, type_name<decltype(pnccl##name)>()});
#define UNPROFILED(name) facts.push_back({"nccl" #name, type_name<decltype(nccl##name)>()});
// Padding is zeroed first, so that all bytes compare.
#define INITIALIZER(type, initializer)                                                 \
  {                                                                                    \
    alignas(type) static unsigned char storage[sizeof(type)];                          \
    new (storage) type initializer;                                                    \
    facts.push_back({#initializer, initial_bytes(*reinterpret_cast<type*>(storage))}); \
  }

#include <new>

Facts FACTS() {
  Facts facts;
#include "facts_22809.inc"
#if NCCL_VERSION_CODE >= 23203
#include "facts_23203.inc"
#endif
#ifdef DEVICE_FACTS
#include "facts_device.inc"
#endif
  return facts;
}
