#include "transport/socket/frame.h"

#include <algorithm>

namespace rondo::net {
namespace {

constexpr std::uint16_t kMagic = 0x6f52;  // "Ro"

}  // namespace

std::array<std::byte, kFrameHeader> frame_header(std::uint16_t type, std::uint32_t round,
                                                 std::uint64_t length) {
  ByteWriter out;
  out.put<std::uint16_t>(kMagic);
  out.put<std::uint16_t>(type);
  out.put<std::uint32_t>(round);
  out.put<std::uint64_t>(length);
  std::array<std::byte, kFrameHeader> header{};
  std::copy(out.written().begin(), out.written().end(), header.begin());
  return header;
}

void FrameParser::feed(ByteSpan bytes) {
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
    return fail(Status::kRemoteError, "the peer does not speak Rondo's protocol");
  if (rest.size() < kFrameHeader) return std::optional<Frame>();
  Frame frame;
  frame.type = in.get<std::uint16_t>();
  frame.round = in.get<std::uint32_t>();
  const auto length = in.get<std::uint64_t>();
  if (length > limit_)
    return fail(Status::kRemoteError, "the peer announced a message of {} bytes; at most {} fit",
                length, limit_);
  if (rest.size() - kFrameHeader < length) return std::optional<Frame>();
  const ByteSpan payload = in.raw(length);
  frame.payload.assign(payload.begin(), payload.end());
  used_ += kFrameHeader + length;
  return std::optional(std::move(frame));
}

}  // namespace rondo::net
