// SPDX-License-Identifier: Apache-2.0
// Frames: split a byte stream into messages.
//
// A frame is a header of 16 bytes (magic, type, round, length) and its payload. FrameParser takes
// bytes as they arrive and returns whole frames. It refuses a wrong magic or a length above its
// limit before it stores any of the payload, and stores no more than has arrived.
//
//   parser.feed(received);
//   RONDO_TRY(std::optional<Frame> frame, parser.next());
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"

namespace rondo::net {

inline constexpr std::size_t kFrameHeader = 16;
inline constexpr std::size_t kMaxPayload = std::size_t{64} << 20;

struct Frame {
  std::uint16_t type = 0;
  std::uint32_t round = 0;
  Bytes payload;
};

std::array<std::byte, kFrameHeader> frame_header(std::uint16_t type, std::uint32_t round,
                                                 std::uint64_t length);

class FrameParser {
 public:
  explicit FrameParser(std::size_t limit) : limit_(limit) {}
  void set_limit(std::size_t limit) { limit_ = limit; }

  void feed(ByteSpan bytes);
  // The next whole frame; nullopt: not complete yet. kRemoteError: the bytes are not a frame.
  Result<std::optional<Frame>> next();
  bool empty() const { return buffer_.size() == used_; }

 private:
  std::size_t limit_;
  std::size_t used_ = 0;  // bytes at the front of the buffer that next() has returned
  Bytes buffer_;
};

}  // namespace rondo::net
