// SPDX-License-Identifier: Apache-2.0
// Secret: 32 bytes known only to the ranks of one id, or of one communicator.
//
// A secret never travels between ranks. Anything that needs its own secret (a child communicator,
// links to other hosts, meetings on a host) derives it, for a purpose and a context that all its
// ranks know. Without the first secret the second cannot be computed; the second reveals nothing
// about the first. Cost: one HMAC-SHA256.
//
//   const Secret links = communicator.derive("links");
//   const Secret child = communicator.derive("split", number_and_color);
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "transport/auth/hmac.h"

namespace rondo::bootstrap {

using auth::Digest;

class Secret {
 public:
  Secret() = default;  // zeros: not secret
  explicit Secret(const Digest& bytes) : bytes_(bytes) {}
  static Secret random() { return Secret(auth::random_digest()); }

  Secret derive(std::string_view purpose, std::span<const std::byte> context = {}) const {
    return Secret(auth::derive(bytes_, purpose, context));
  }
  const Digest& bytes() const { return bytes_; }

 private:
  Digest bytes_{};
};

// The secret that the ranks of an id prove to each other: the id's secret; with RONDO_SECRET, a
// secret derived from both. kInvalidArgument if RONDO_SECRET is too short or its file is not as
// above.
//
// The job's secret (RONDO_SECRET). It is mixed into the secret of every id, so that a process that
// reads an id, or can compute one (NCCL_COMM_ID, a launcher's variables), still cannot join.
//
// RONDO_SECRET is the secret itself, at least 16 characters, or @FILE: a file of this user (or
// root) that no other user can access. The file's text, without trailing white space, is the
// secret. `rondo run` makes one for each job. The file is read again only if the variable has
// changed, so a job continues after its file was removed.
Result<Secret> session_secret(const Secret& of_id);

bool has_job_secret();
// Without RONDO_SECRET: logs one WARN per process, "`ranks` without RONDO_SECRET: `who` can join".
void warn_without_job_secret(std::string_view ranks, std::string_view who);

}  // namespace rondo::bootstrap
