// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/frame.h"

#include <cassert>
#include <cstring>

namespace rondo::net {
namespace {

constexpr std::uint16_t kMagic = 0x6f52;  // "Ro"

}  // namespace

std::array<std::byte, kFrameHeader> frame_header(std::uint16_t type, std::uint32_t round,
                                                 std::uint64_t length) {
  std::array<std::byte, kFrameHeader> header{};
  std::size_t at = 0;
  const auto put = [&](auto value) {
    std::memcpy(header.data() + at, &value, sizeof(value));
    at += sizeof(value);
  };
  put(kMagic);
  put(type);
  put(round);
  put(length);
  return header;
}

void FrameParser::feed(ByteSpan bytes) {
  assert(used_ <= buffer_.size());
  if (used_ > 0 && used_ * 2 >= buffer_.size()) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Frame>> FrameParser::next() {
  const ByteSpan rest = ByteSpan(buffer_).subspan(used_);
  ByteReader in(rest);
  if (rest.size() >= sizeof(kMagic) && in.get<std::uint16_t>() != kMagic)
    return fail(StatusCode::kRemoteError, "the peer does not speak Rondo's protocol");
  if (rest.size() < kFrameHeader) return std::optional<Frame>();
  Frame frame;
  frame.type = in.get<std::uint16_t>();
  frame.round = in.get<std::uint32_t>();
  const auto length = in.get<std::uint64_t>();
  if (length > limit_)
    return fail(StatusCode::kRemoteError,
                "the peer announced a message of {} bytes; at most {} fit", length, limit_);
  if (rest.size() - kFrameHeader < length) return std::optional<Frame>();
  const ByteSpan payload = in.raw(length);
  frame.payload.assign(payload.begin(), payload.end());
  used_ += kFrameHeader + length;
  return std::optional(std::move(frame));
}

}  // namespace rondo::net
