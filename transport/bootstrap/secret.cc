// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap/secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "base/env.h"
#include "base/log.h"
#include "base/text_file.h"

namespace rondo::bootstrap {
namespace {

constexpr std::size_t kMinCharacters = 16;
constexpr std::size_t kMaxCharacters = 4096;

Result<std::string> secret_in(const std::string& path) {
  RONDO_TRY(const Fd file, open_regular_file("file of RONDO_SECRET", path));
  struct stat about {};
  if (fstat(file.get(), &about) != 0)
    return fail_errno(errno, "RONDO_SECRET=@{} cannot be read", path);
  if ((about.st_uid != geteuid() && about.st_uid != 0) || (about.st_mode & 077) != 0)
    return fail(StatusCode::kInvalidArgument,
                "RONDO_SECRET=@{} may be read by others (user {}, mode {:o}): it must be this "
                "user's, with mode 0600",
                path, about.st_uid, about.st_mode & 07777);
  std::string text(kMaxCharacters + 1, '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return fail_errno(errno, "RONDO_SECRET=@{} cannot be read", path);
  text.resize(static_cast<std::size_t>(size));
  text.resize(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

Result<Secret> secret_of(const std::string& setting) {
  std::string text = setting;
  if (setting[0] == '@') {
    RONDO_TRY(text, secret_in(setting.substr(1)));
  }
  if (text.size() < kMinCharacters || text.size() > kMaxCharacters)
    return fail(StatusCode::kInvalidArgument,
                "RONDO_SECRET has {} characters; {} to {} random ones keep strangers out (openssl "
                "rand -hex 32)",
                text.size(), kMinCharacters, kMaxCharacters);
  return Secret(
      auth::sha256({std::as_bytes(std::span("RONDO_SECRET")), std::as_bytes(std::span(text))}));
}

struct Known {
  std::mutex mutex;
  std::string setting;
  std::optional<Secret> secret;
};

}  // namespace

Result<Secret> session_secret(const Secret& of_id) {
  static Known& known = *new Known;  // never destroyed: threads may still join at exit
  const std::string setting = env::get_string("RONDO_SECRET");
  if (setting.empty()) return of_id;
  std::lock_guard lock(known.mutex);
  if (!known.secret || known.setting != setting) {
    RONDO_TRY(known.secret, secret_of(setting));
    known.setting = setting;
  }
  return known.secret->derive("id", of_id.bytes());
}

bool has_job_secret() { return !env::get_string("RONDO_SECRET").empty(); }

void warn_without_job_secret(std::string_view ranks, std::string_view who) {
  static std::atomic<bool> warned{false};
  if (has_job_secret() || warned.exchange(true)) return;
  RONDO_WARN(
      "{} without RONDO_SECRET: {} can join this job; set RONDO_SECRET to the same random text on "
      "all ranks (or run on a network that you trust)",
      ranks, who);
}

}  // namespace rondo::bootstrap
