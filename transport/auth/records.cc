// SPDX-License-Identifier: Apache-2.0
#include "transport/auth/records.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstring>
#include <thread>

namespace rondo::auth {
namespace {

constexpr std::size_t kLength = 4;
constexpr std::size_t kTag = 16;
constexpr std::size_t kReadAhead = 4096;
using Nonce = std::array<unsigned char, 12>;

// Uses a separate library context that is never freed, so that neither the program's OpenSSL
// settings nor OpenSSL's cleanup at exit affect running threads.
const EVP_CIPHER* make_cipher() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  OSSL_LIB_CTX* library = OSSL_LIB_CTX_new();
  if (library == nullptr) return nullptr;
  const EVP_CIPHER* made = EVP_CIPHER_fetch(library, "AES-256-GCM", nullptr);
  if (made == nullptr) OSSL_LIB_CTX_free(library);
  return made;
}

// One thread of a process makes it while the others wait: OpenSSL 3.0 crashed when two threads made
// a context at once. There is no lock, because a child forked meanwhile would wait for it without
// limit. Instead the child sees that the maker belongs to another process, and makes its own; so
// does a thread that has waited 10 s.
const EVP_CIPHER* cipher() {
  static std::atomic<const EVP_CIPHER*> known{nullptr};
  static std::atomic<pid_t> maker{0};
  constexpr int kMaxWaits = 100'000;  // of 0.1 ms
  for (int waits = 0;; ++waits) {
    if (const EVP_CIPHER* one = known.load(std::memory_order_acquire)) return one;
    pid_t by = maker.load(std::memory_order_acquire);
    if (by == getpid() && waits < kMaxWaits) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      continue;
    }
    if (!maker.compare_exchange_strong(by, getpid())) continue;
    if (known.load(std::memory_order_acquire) == nullptr)
      known.store(make_cipher(), std::memory_order_release);
    maker.store(0, std::memory_order_release);
    return known.load(std::memory_order_acquire);
  }
}

template <class To, class From>
To* octets(From* bytes) {
  return reinterpret_cast<To*>(bytes);
}

Nonce nonce_of(std::uint64_t number) {
  Nonce nonce{};
  for (std::size_t i = 0; i < sizeof(number); ++i)
    nonce[i] = static_cast<unsigned char>(number >> (8 * i));
  return nonce;
}

std::array<std::byte, kLength> header_of(std::size_t bytes) {
  std::array<std::byte, kLength> header{};
  for (std::size_t i = 0; i < kLength; ++i) header[i] = static_cast<std::byte>(bytes >> (8 * i));
  return header;
}

std::size_t length_in(ByteSpan header) { return ByteReader(header).get<std::uint32_t>(); }

}  // namespace

void Records::FreeContext::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

Result<Records::Direction> Records::direction(const Digest& key, bool sealing) {
  Direction made{Context(EVP_CIPHER_CTX_new()), 0};
  const auto* bytes = octets<const unsigned char>(key.data());
  if (cipher() == nullptr || !made.context ||
      EVP_CipherInit_ex2(made.context.get(), cipher(), bytes, nullptr, sealing ? 1 : 0, nullptr) !=
          1)
    return fail(StatusCode::kSystemError, "libcrypto has no AES-256-GCM, or no memory for it");
  return made;
}

Status Records::prepare() {
  if (cipher() != nullptr) return ok_status();
  return fail(StatusCode::kSystemError, "libcrypto has no AES-256-GCM, or no memory for it");
}

Result<Records> Records::make(const Digest& session_key, Side side) {
  const Digest forth = derive(session_key, "records of the connector");
  const Digest back = derive(session_key, "records of the acceptor");
  const bool connector = side == Side::kConnector;
  RONDO_TRY(Direction out, direction(connector ? forth : back, true));
  RONDO_TRY(Direction in, direction(connector ? back : forth, false));
  return Records(std::move(out), std::move(in));
}

Status Records::seal(std::span<const ByteSpan> parts, Bytes& out) {
  std::size_t bytes = 0;
  for (const ByteSpan part : parts) bytes += part.size();
  if (bytes == 0 || bytes > kMaxBytes)
    return fail(StatusCode::kInternalError, "a record of {} bytes; 1 to {} fit", bytes, kMaxBytes);
  const auto header = header_of(bytes);
  const Nonce nonce = nonce_of(out_.number++);
  const std::size_t begin = out.size();
  out.resize(begin + bytes + kOverhead);
  std::byte* to = out.data() + begin;
  std::copy(header.begin(), header.end(), to);
  to += kLength;
  EVP_CIPHER_CTX* context = out_.context.get();
  int count = 0;
  bool ok = EVP_EncryptInit_ex2(context, nullptr, nullptr, nonce.data(), nullptr) == 1 &&
            EVP_EncryptUpdate(context, nullptr, &count, octets<const unsigned char>(header.data()),
                              kLength) == 1;
  for (const ByteSpan part : parts) {
    if (part.empty()) continue;
    ok = ok && EVP_EncryptUpdate(context, octets<unsigned char>(to), &count,
                                 octets<const unsigned char>(part.data()),
                                 static_cast<int>(part.size())) == 1;
    to += part.size();
  }
  ok = ok && EVP_EncryptFinal_ex(context, octets<unsigned char>(to), &count) == 1 &&
       EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTag, to) == 1;
  if (ok) return ok_status();
  out.resize(begin);
  return fail(StatusCode::kSystemError, "libcrypto could not encrypt record {}", out_.number - 1);
}

Status Records::seal(ByteSpan bytes, Bytes& out) {
  while (!bytes.empty()) {
    const ByteSpan some = bytes.first(std::min(bytes.size(), kMaxBytes));
    RONDO_CHECK_OK(seal({&some, 1}, out));
    bytes = bytes.subspan(some.size());
  }
  return ok_status();
}

// Number of bytes still missing of the current record.
std::size_t Records::missing() const {
  assert(taken_ <= filled_ && filled_ <= buffer_.size());
  const std::size_t there = filled_ - taken_;
  if (there < kLength) return kLength - there;
  const std::size_t length = length_in(ByteSpan(buffer_).subspan(taken_, kLength));
  const std::size_t whole = std::min(length, kMaxBytes) + kOverhead;
  return whole > there ? whole - there : 0;
}

std::span<std::byte> Records::room() {
  if (taken_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + taken_, filled_ - taken_);
    filled_ -= taken_;
    taken_ = 0;
  }
  const std::size_t wanted = filled_ + std::max(missing(), kReadAhead);
  if (buffer_.size() < wanted) buffer_.resize(wanted);
  return std::span(buffer_).subspan(filled_);
}

Result<std::optional<ByteSpan>> Records::next() {
  if (filled_ - taken_ < kLength) return std::optional<ByteSpan>();
  const ByteSpan header = ByteSpan(buffer_).subspan(taken_, kLength);
  const std::size_t bytes = length_in(header);
  const auto refuse = [&] {
    return fail(StatusCode::kRemoteError,
                "record {} does not verify: it was changed, replayed, left out or inserted on its "
                "way",
                in_.number);
  };
  if (bytes == 0 || bytes > kMaxBytes) return refuse();
  if (missing() != 0) return std::optional<ByteSpan>();
  const Nonce nonce = nonce_of(in_.number);
  std::byte* const content = buffer_.data() + taken_ + kLength;
  auto* const plain = octets<unsigned char>(content);
  EVP_CIPHER_CTX* context = in_.context.get();
  int count = 0;
  const bool verified =
      EVP_DecryptInit_ex2(context, nullptr, nullptr, nonce.data(), nullptr) == 1 &&
      EVP_DecryptUpdate(context, nullptr, &count, octets<const unsigned char>(header.data()),
                        kLength) == 1 &&
      EVP_DecryptUpdate(context, plain, &count, plain, static_cast<int>(bytes)) == 1 &&
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTag, content + bytes) == 1 &&
      EVP_DecryptFinal_ex(context, plain + bytes, &count) == 1;
  if (!verified) return refuse();
  ++in_.number;
  taken_ += bytes + kOverhead;
  return std::optional(ByteSpan(content, bytes));
}

}  // namespace rondo::auth
