// Frames: how messages are cut out of a byte stream.
//
// A frame is a header of 16 bytes (magic, type, round, length) and its payload. FrameParser takes
// bytes as they come and gives whole frames; it refuses a wrong magic and a length above its limit
// before it stores anything of the payload, and stores no more than has arrived.
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
  // The next whole frame, or nothing yet. kRemoteError: these bytes are no frame.
  Result<std::optional<Frame>> next();
  bool empty() const { return buffer_.size() == used_; }

 private:
  std::size_t limit_;
  std::size_t used_ = 0;  // bytes at the front of the buffer that were given out
  Bytes buffer_;
};

}  // namespace rondo::net
