// SPDX-License-Identifier: Apache-2.0
// A JSON document: null, bool, number, string, array, or object. Objects keep the order of keys.
//
//   Json row{{"name", name}, {"bytes", bytes}};
//   row["ranks"] = std::vector<int>{0, 1};
//   fmt::print("{}\n", row.text(2));
//
// nlohmann-json reads and writes it. That header takes 5 s to compile, so only json.cc includes it.
// Not for hot paths.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rondo {

// The text is not JSON, or the document lacks the requested value.
struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Json {
 public:
  struct Member;
  using Array = std::vector<Json>;
  struct Object {  // two vectors, because Member is an incomplete type here
    std::vector<std::string> keys;
    std::vector<Json> values;
  };

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(std::signed_integral auto value) : value_(std::int64_t{value}) {}
  Json(std::unsigned_integral auto value) : value_(std::uint64_t{value}) {}
  Json(std::floating_point auto value) : value_(double{value}) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(std::string text) : value_(std::move(text)) {}
  template <class Value>
  Json(const std::vector<Value>& values) : value_(Array(values.begin(), values.end())) {}
  Json(std::initializer_list<Member> members);

  static Json array();
  // Throws JsonError, also for documents that are nested deeper than 64 levels.
  static Json parse(std::string_view text);
  // `indent`: spaces per level. Bytes that are not UTF-8 are replaced.
  std::string text(int indent) const;

  // Null becomes an object or an array.
  Json& operator[](std::string_view key);
  void push_back(Json value);

  // These throw JsonError if the value is of another kind.
  const Json& at(std::string_view key) const;
  const Array& elements() const;
  const std::vector<std::string>& keys() const;  // of an object
  double number() const;
  const std::string& string() const;
  // Whether the member `key` exists and is an object.
  bool holds_object(std::string_view key) const;

 private:
  friend struct JsonReader;
  friend struct JsonWriter;
  const Json* find(std::string_view key) const;

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

}  // namespace rondo
