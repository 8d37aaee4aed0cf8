// SPDX-License-Identifier: Apache-2.0
// NVTX ranges. They are off if Rondo was built without the NVTX header.
#include "api/entered_call.h"

#if RONDO_NVTX

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>
#include <iterator>

#include "base/env.h"

namespace rondo::api {
namespace {

struct Tool {
  nvtxDomainHandle_t domain = nullptr;  // null: no profiler
  std::uint64_t schema = 0;
};

template <std::size_t n>
std::uint64_t register_enum(nvtxDomainHandle_t domain, const char* name,
                            const nvtxPayloadEnum_t (&entries)[n]) {
  nvtxPayloadEnumAttr_t attributes{};
  attributes.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME | NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                         NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
                         NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
  attributes.name = name;
  attributes.entries = entries;
  attributes.numEntries = n;
  attributes.sizeOfEnum = sizeof(std::int32_t);
  return nvtxPayloadEnumRegister(domain, &attributes);
}

std::uint64_t register_facts(nvtxDomainHandle_t domain) {
  static constexpr nvtxPayloadEnum_t kTypes[] = {
      {"int8", 0, 0},    {"uint8", 1, 0},    {"int32", 2, 0},       {"uint32", 3, 0},
      {"int64", 4, 0},   {"uint64", 5, 0},   {"float16", 6, 0},     {"float32", 7, 0},
      {"float64", 8, 0}, {"bfloat16", 9, 0}, {"float8e4m3", 10, 0}, {"float8e5m2", 11, 0},
      {"int16", 64, 0},  {"uint16", 65, 0}};
  static constexpr nvtxPayloadEnum_t kOps[] = {{"none", 0xffffffff, 0}, {"sum", 0, 0},
                                               {"prod", 1, 0},          {"max", 2, 0},
                                               {"min", 3, 0},           {"avg", 4, 0}};
  const std::uint64_t types = register_enum(domain, "Datatype", kTypes);
  const std::uint64_t ops = register_enum(domain, "Reduction operation", kOps);
  const auto entry = [](std::uint64_t type, const char* name, std::size_t offset) {
    nvtxPayloadSchemaEntry_t made{};
    made.type = type;
    made.name = name;
    made.offset = offset;
    return made;
  };
  const nvtxPayloadSchemaEntry_t entries[] = {
      entry(NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS, "Communicator", offsetof(CallFacts, comm)),
      entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "Count", offsetof(CallFacts, count)),
      entry(types, "Datatype", offsetof(CallFacts, type)),
      entry(ops, "Reduction operation", offsetof(CallFacts, op)),
      entry(NVTX_PAYLOAD_ENTRY_TYPE_INT32, "Root or peer", offsetof(CallFacts, root))};
  nvtxPayloadSchemaAttr_t attributes{};
  attributes.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                         NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                         NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                         NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  attributes.name = "Call";
  attributes.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  attributes.entries = entries;
  attributes.numEntries = std::size(entries);
  attributes.payloadStaticSize = sizeof(CallFacts);
  return nvtxPayloadSchemaRegister(domain, &attributes);
}

Tool find_tool() {
  Tool tool;
  if (!env::get_bool("NCCL_NVTX_DISABLE")) tool.domain = nvtxDomainCreateA("NCCL");
  if (tool.domain != nullptr) {
    tool.schema = register_facts(tool.domain);
  } else {
    ranges_off.store(true, std::memory_order_relaxed);
  }
  return tool;
}

const Tool& tool() {
  static const Tool found = find_tool();
  return found;
}

}  // namespace

std::atomic<bool> ranges_off{false};

bool begin_range(EntryPoint function, const CallFacts* facts) {
  if (tool().domain == nullptr) return false;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = kEntryPointNames[static_cast<std::size_t>(function)].data();
  nvtxPayloadData_t payload{tool().schema, sizeof(CallFacts), facts};
  if (facts != nullptr && tool().schema != 0) {
    attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
    attributes.reserved0 = 1;  // payloads
    attributes.payload.ullValue = NVTX_POINTER_AS_PAYLOAD_ULLVALUE(&payload);
  }
  nvtxDomainRangePushEx(tool().domain, &attributes);
  return true;
}

void end_range() { nvtxDomainRangePop(tool().domain); }

}  // namespace rondo::api

#else

namespace rondo::api {

std::atomic<bool> ranges_off{true};
bool begin_range(EntryPoint, const CallFacts*) { return false; }
void end_range() {}

}  // namespace rondo::api

#endif
