#include "topology/graph/nic_filter.h"

#include <algorithm>
#include <charconv>

#include "topology/small_file.h"

namespace rondo::topology {
namespace {

Result<NicFilter::Name> parse_nic_name(std::string_view item, std::string_view text) {
  NicFilter::Name name{std::string(take_until(item, ':'))};
  const std::string_view digits = take_until(item, ':');
  if (name.device.empty())
    return fail(StatusCode::kInvalidUsage,
                "NCCL_IB_HCA='{}' has an empty name: use device[:port],...", text);
  if (digits.empty()) return name;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), name.port).ptr;
  if (end != digits.data() + digits.size() || name.port < 1 || name.port > 255)
    return fail(
        StatusCode::kInvalidUsage,
        "NCCL_IB_HCA='{}': the port '{}' is not a number from 1 to 255; use device[:port],...",
        text, digits);
  return name;
}

}  // namespace

Result<NicFilter> NicFilter::parse(std::string_view text) {
  NicFilter filter;
  std::string_view rest = text;
  filter.excludes_ = rest.starts_with('^');
  if (filter.excludes_) rest.remove_prefix(1);
  filter.exact_ = rest.starts_with('=');
  if (filter.exact_) rest.remove_prefix(1);
  while (!rest.empty()) {
    RONDO_TRY(filter.names_.emplace_back(), parse_nic_name(take_until(rest, ','), text));
  }
  return filter;
}

bool NicFilter::fits(const Name& name, std::string_view device, int port) const {
  if (name.port != 0 && port != 0 && name.port != port) return false;
  return exact_ ? device == name.device : device.starts_with(name.device);
}

bool NicFilter::admits(std::string_view device, int port) const {
  if (names_.empty()) return true;
  const bool named = std::any_of(names_.begin(), names_.end(),
                                 [&](const Name& name) { return fits(name, device, port); });
  return named != excludes_;
}

}  // namespace rondo::topology
