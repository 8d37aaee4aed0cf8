// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace rondo {

using Document = nlohmann::ordered_json;

struct JsonReader {
  static Json read(const Document& from) {
    Json json;
    if (from.is_boolean()) {
      json = from.get<bool>();
    } else if (from.is_number_unsigned()) {
      json = from.get<std::uint64_t>();
    } else if (from.is_number_integer()) {
      json = from.get<std::int64_t>();
    } else if (from.is_number()) {
      json = from.get<double>();
    } else if (from.is_string()) {
      json = from.get_ref<const std::string&>();
    } else if (from.is_array()) {
      json = Json::array();
      for (const Document& element : from) json.push_back(read(element));
    } else if (from.is_object()) {
      Json::Object members;
      for (const auto& [key, value] : from.items()) {
        members.keys.push_back(key);
        members.values.push_back(read(value));
      }
      json.value_ = std::move(members);
    }
    return json;
  }
};

struct JsonWriter {
  static Document write(const Json& json) {
    return std::visit([](const auto& value) { return written(value); }, json.value_);
  }

 private:
  static Document written(std::monostate) { return nullptr; }
  static Document written(const Json::Array& elements) {
    Document document = Document::array();
    for (const Json& element : elements) document.push_back(write(element));
    return document;
  }
  static Document written(const Json::Object& members) {
    Document document = Document::object();
    for (std::size_t i = 0; i < members.keys.size(); ++i)
      document[members.keys[i]] = write(members.values[i]);
    return document;
  }
  static Document written(const auto& scalar) { return scalar; }
};

namespace {

constexpr int kMaxDepth = 64;

}  // namespace

Json::Json(std::initializer_list<Member> members) : value_(Object()) {
  for (const Member& member : members) (*this)[member.key] = member.value;
}

Json Json::array() {
  Json json;
  json.value_ = Array();
  return json;
}

Json Json::parse(std::string_view text) {
  const auto shallow = [](int depth, Document::parse_event_t, Document&) {
    if (depth > kMaxDepth)
      throw JsonError(fmt::format("it is nested deeper than {} levels", kMaxDepth));
    return true;
  };
  try {
    return JsonReader::read(Document::parse(text, shallow));
  } catch (const nlohmann::json::exception& error) {
    throw JsonError(error.what());
  }
}

std::string Json::text(int indent) const {
  return JsonWriter::write(*this).dump(indent, ' ', false, Document::error_handler_t::replace);
}

const Json* Json::find(std::string_view key) const {
  if (const auto* object = std::get_if<Object>(&value_))
    for (std::size_t i = 0; i < object->keys.size(); ++i)
      if (object->keys[i] == key) return &object->values[i];
  return nullptr;
}

Json& Json::operator[](std::string_view key) {
  if (std::holds_alternative<std::monostate>(value_)) value_ = Object();
  if (const Json* found = find(key)) return const_cast<Json&>(*found);
  Object& object = std::get<Object>(value_);
  object.keys.emplace_back(key);
  return object.values.emplace_back();
}

void Json::push_back(Json value) {
  if (std::holds_alternative<std::monostate>(value_)) value_ = Array();
  std::get<Array>(value_).push_back(std::move(value));
}

const Json& Json::at(std::string_view key) const {
  if (const Json* found = find(key)) return *found;
  throw JsonError(fmt::format("'{}' is missing", key));
}

const Json::Array& Json::elements() const {
  if (const auto* array = std::get_if<Array>(&value_)) return *array;
  throw JsonError("a value is not an array");
}

const std::vector<std::string>& Json::keys() const {
  if (const auto* object = std::get_if<Object>(&value_)) return object->keys;
  throw JsonError("a value is not an object");
}

double Json::number() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  throw JsonError("a value is not a number");
}

const std::string& Json::string() const {
  if (const auto* text = std::get_if<std::string>(&value_)) return *text;
  throw JsonError("a value is not a string");
}

bool Json::holds_object(std::string_view key) const {
  const Json* found = find(key);
  return found != nullptr && std::holds_alternative<Object>(found->value_);
}

}  // namespace rondo
