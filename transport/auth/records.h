// Records: what travels on a connection after its handshake: numbered, encrypted, authenticated.
//
// A record is its length (4 bytes), up to 16 KiB of AES-256-GCM and a tag of 16 bytes; its number
// is in the nonce and never travels, and each direction has a key of its own. Guarantees: open()
// gives exactly the bytes that seal() got, in order; a record that was changed, replayed, left out,
// inserted or cut short ends the connection with an error that names its number. Moves no bytes
// itself. Cost: no allocation once its buffers have grown to the longest record; about 0.3 us and
// 0.3 ns a byte.
//
//   RONDO_TRY(auto records, Records::make(shake.session_key(), Records::Side::kConnector));
//   RONDO_CHECK_OK(records.seal({parts}, outgoing));              // appends to outgoing
//   ... recv(fd, records.room()...);  records.received(count);
//   RONDO_TRY(std::optional<ByteSpan> plain, records.next());     // valid until the next call
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/auth/hmac.h"

struct evp_cipher_ctx_st;

namespace rondo::auth {

class Records {
 public:
  enum class Side { kConnector, kAcceptor };
  static constexpr std::size_t kMaxBytes = 16 << 10;  // of a record's content
  static constexpr std::size_t kOverhead = 4 + 16;

  static Result<Records> make(const Digest& session_key, Side side);
  // What the first make() of a process does once, about a millisecond: to be called before threads
  // begin, beside which the program may fork.
  static Status prepare();
  Records(Records&&) = default;
  Records& operator=(Records&&) = default;

  // Appends one record with all parts, 1 to kMaxBytes together, to `out`.
  Status seal(std::span<const ByteSpan> parts, Bytes& out);
  // The same for any number of bytes: as many records as they need.
  Status seal(ByteSpan bytes, Bytes& out);

  // Where the next bytes of the stream go, then how many came.
  std::span<std::byte> room();
  void received(std::size_t count) { filled_ += count; }
  // The content of the next record, or nothing yet. kRemoteError: it does not verify.
  Result<std::optional<ByteSpan>> next();
  // A stream may only end here.
  bool between_records() const { return taken_ == filled_; }

 private:
  struct FreeContext {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, FreeContext>;
  struct Direction {
    Context context;
    std::uint64_t number = 0;
  };
  Records(Direction out, Direction in) : out_(std::move(out)), in_(std::move(in)) {}
  static Result<Direction> direction(const Digest& key, bool sealing);
  std::size_t missing() const;

  Direction out_;
  Direction in_;
  Bytes buffer_;
  std::size_t taken_ = 0;   // up to here it was given out
  std::size_t filled_ = 0;  // up to here it came
};

}  // namespace rondo::auth
