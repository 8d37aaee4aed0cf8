// SPDX-License-Identifier: Apache-2.0
// Records: the encryption of a connection after its handshake: numbered, encrypted, authenticated.
//
// A record is its length (4 bytes), up to 16 KiB of AES-256-GCM and a tag of 16 bytes. Its number
// is part of the nonce and never travels; each direction has its own key. Guarantees: next()
// returns exactly the bytes that seal() got, in order. A record that was changed, replayed, left
// out, inserted or cut short ends the connection with an error that names its number. Moves no
// bytes itself. Cost: no allocation once its buffers have grown to the longest record; about 0.3 us
// per record and 0.3 ns per byte.
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
  static constexpr std::size_t kMaxBytes = 16 << 10;  // max content of a record
  static constexpr std::size_t kOverhead = 4 + 16;

  static Result<Records> make(const Digest& session_key, Side side);
  // The one-time work of the first make() in a process, about a millisecond. Call it before
  // starting threads if the program may fork beside them.
  static Status prepare();
  Records(Records&&) = default;
  Records& operator=(Records&&) = default;

  // Appends one record with all parts to `out`; 1 to kMaxBytes in total.
  Status seal(std::span<const ByteSpan> parts, Bytes& out);
  // The same for any number of bytes, as several records if necessary.
  Status seal(ByteSpan bytes, Bytes& out);

  // The buffer for the next received bytes; then the number received.
  std::span<std::byte> room();
  void received(std::size_t count) { filled_ += count; }
  // The content of the next record; nullopt: not complete yet. kRemoteError: it does not verify.
  Result<std::optional<ByteSpan>> next();
  // A stream must end only at a record boundary.
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
  std::size_t taken_ = 0;   // end of the bytes that next() has returned
  std::size_t filled_ = 0;  // end of the received bytes
};

}  // namespace rondo::auth
