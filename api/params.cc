// SPDX-License-Identifier: Apache-2.0
// ncclParam*: NCCL's parameter interface over the registry of environment variables (base/env.h).
//
// A key is the variable's name. A handle is the address of its row; it is checked on every use, so
// a foreign pointer is an error. A value is what the library would read now. Integers and booleans
// are 64-bit integers, fractions are doubles, and every value has a string form.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "api/arguments.h"
#include "api/errors.h"
#include "api/export.h"
#include "base/env.h"
#include "base/log.h"

using namespace rondo;
using namespace rondo::api;

namespace {

using env::Type;
using env::Variable;

ncclParamHandle_t to_handle(const Variable* row) {
  return reinterpret_cast<ncclParamHandle_t>(const_cast<Variable*>(row));
}

Result<const Variable*> from_handle(ncclParamHandle_t handle, const char* function) {
  RONDO_CHECK_OK(not_null(handle, function, "h"));
  for (const Variable& row : env::all())
    if (to_handle(&row) == handle) return &row;
  return fail(StatusCode::kInvalidArgument, "{} : {} is not a handle of ncclParamBind", function,
              static_cast<const void*>(handle));
}

Result<const Variable*> by_key(const char* key, const char* function) {
  RONDO_CHECK_OK(not_null(key, function, "key"));
  if (const Variable* row = env::find(key)) return row;
  return fail(StatusCode::kInvalidArgument,
              "{} : no parameter '{}'; ncclParamGetAllParameterKeys lists them", function, key);
}

std::optional<std::int64_t> integer_value(const Variable& row) {
  switch (row.type) {
    case Type::kInt:
    case Type::kBytes:
      return env::get_int(row.name);
    case Type::kBool:
      return env::get_bool(row.name) ? 1 : 0;
    case Type::kDouble:
    case Type::kSeconds:
    case Type::kString:
    case Type::kFile:
    case Type::kSecret:
      break;
  }
  return std::nullopt;
}

std::optional<double> fraction_value(const Variable& row) {
  if (row.type == Type::kDouble) return env::get_double(row.name);
  if (row.type == Type::kSeconds) return env::get_seconds(row.name);
  return std::nullopt;
}

std::string text_value(const Variable& row) {
  if (auto number = integer_value(row)) return std::to_string(*number);
  if (auto fraction = fraction_value(row)) return fmt::format("{}", *fraction);
  if (row.type == Type::kSecret) return "";
  return env::get_string(row.name);
}

template <class Integer>
Status get_integer(ncclParamHandle_t handle, Integer* out, const char* function) {
  RONDO_TRY(const Variable* row, from_handle(handle, function));
  RONDO_CHECK_OK(not_null(out, function, "out"));
  const auto value = integer_value(*row);
  if (!value)
    return fail(StatusCode::kInvalidArgument,
                "{} : {} is not a whole number; ncclParamGetStr reads it", function, row->name);
  if (!std::in_range<Integer>(*value))
    return fail(StatusCode::kInvalidArgument, "{} : {} = {} does not fit {}..{}", function,
                row->name, *value, std::numeric_limits<Integer>::min(),
                std::numeric_limits<Integer>::max());
  *out = static_cast<Integer>(*value);
  return ok_status();
}

Status get_bytes(ncclParamHandle_t handle, void* out, int capacity, int* length) {
  constexpr const char* kFunction = "ParamGet";
  RONDO_TRY(const Variable* row, from_handle(handle, kFunction));
  RONDO_CHECK_OK(not_null(out, kFunction, "out"));
  RONDO_CHECK_OK(not_null(length, kFunction, "len"));
  std::string bytes;
  if (auto number = integer_value(*row)) {
    bytes.assign(reinterpret_cast<const char*>(&*number), sizeof(*number));
  } else if (auto fraction = fraction_value(*row)) {
    bytes.assign(reinterpret_cast<const char*>(&*fraction), sizeof(*fraction));
  } else {
    bytes = env::get_string(row->name);
    bytes.push_back('\0');
  }
  *length = static_cast<int>(bytes.size());
  if (capacity < *length)
    return fail(StatusCode::kInvalidArgument, "{} : {} needs {} bytes, maxLen is {}", kFunction,
                row->name, *length, capacity);
  bytes.copy(static_cast<char*>(out), bytes.size());
  return ok_status();
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, ParamBind, ncclParamHandle_t* out, const char* key) {
  RONDO_ENTER(ParamBind);
  if (auto checked = not_null(out, "ParamBind", "out"); !checked.ok()) return report(checked);
  auto row = by_key(key, "ParamBind");
  if (row.ok()) *out = to_handle(*row);
  return report(row);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, ParamGetI8, ncclParamHandle_t h, int8_t* out) {
  RONDO_ENTER(ParamGetI8);
  return report(get_integer(h, out, "ParamGetI8"));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, ParamGetI16, ncclParamHandle_t h, int16_t* out) {
  RONDO_ENTER(ParamGetI16);
  return report(get_integer(h, out, "ParamGetI16"));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, ParamGetI32, ncclParamHandle_t h, int32_t* out) {
  RONDO_ENTER(ParamGetI32);
  return report(get_integer(h, out, "ParamGetI32"));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, ParamGetI64, ncclParamHandle_t h, int64_t* out) {
  RONDO_ENTER(ParamGetI64);
  return report(get_integer(h, out, "ParamGetI64"));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, ParamGetU8, ncclParamHandle_t h, uint8_t* out) {
  RONDO_ENTER(ParamGetU8);
  return report(get_integer(h, out, "ParamGetU8"));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, ParamGetU16, ncclParamHandle_t h, uint16_t* out) {
  RONDO_ENTER(ParamGetU16);
  return report(get_integer(h, out, "ParamGetU16"));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, ParamGetU32, ncclParamHandle_t h, uint32_t* out) {
  RONDO_ENTER(ParamGetU32);
  return report(get_integer(h, out, "ParamGetU32"));
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, ParamGetU64, ncclParamHandle_t h, uint64_t* out) {
  RONDO_ENTER(ParamGetU64);
  return report(get_integer(h, out, "ParamGetU64"));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, ParamGetStr, ncclParamHandle_t h, const char** out) {
  RONDO_ENTER(ParamGetStr);
  thread_local std::string kept;
  auto row = from_handle(h, "ParamGetStr");
  if (!row.ok()) return report(row);
  if (auto checked = not_null(out, "ParamGetStr", "out"); !checked.ok()) return report(checked);
  kept = text_value(**row);
  *out = kept.c_str();
  return ncclSuccess;
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, ParamGet, ncclParamHandle_t h, void* out, int maxLen, int* len) {
  RONDO_ENTER(ParamGet);
  return report(get_bytes(h, out, maxLen, len));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, ParamGetParameter, const char* key, const char** value,
                   int* valueLen) {
  RONDO_ENTER(ParamGetParameter);
  thread_local std::string kept;
  auto row = by_key(key, "ParamGetParameter");
  if (!row.ok()) return report(row);
  if (auto checked = not_null(value, "ParamGetParameter", "value"); !checked.ok())
    return report(checked);
  kept = text_value(**row);
  *value = kept.c_str();
  if (valueLen != nullptr) *valueLen = static_cast<int>(kept.size());
  return ncclSuccess;
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, ParamGetAllParameterKeys, const char*** table, int* tableLen) {
  RONDO_ENTER(ParamGetAllParameterKeys);
  if (auto checked = not_null(table, "ParamGetAllParameterKeys", "table"); !checked.ok())
    return report(checked);
  if (auto checked = not_null(tableLen, "ParamGetAllParameterKeys", "tableLen"); !checked.ok())
    return report(checked);
  thread_local std::vector<const char*> kept;
  kept.clear();
  for (const Variable& row : env::all()) kept.push_back(row.name.data());  // literals: end in NUL
  *table = kept.data();
  *tableLen = static_cast<int>(kept.size());
  return ncclSuccess;
}
RONDO_CATCH

RONDO_API_FUNCTION(void, ParamDumpAll, void) {
  RONDO_ENTER(ParamDumpAll);
  for (const Variable& row : env::all())
    log::write_line(log::Level::kInfo, __FILE__, __LINE__,
                    fmt::format("{}={}", row.name, text_value(row)));
}
RONDO_CATCH_GIVING()
