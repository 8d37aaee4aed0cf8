// SPDX-License-Identifier: Apache-2.0
// HostBook: how the watched processes of several hosts find each other: files in a folder that the
// hosts share (RONDO_WATCH_DIR), one for each rank, with the place where its process answers and
// the secret that an asker proves.
//
// Guarantees: a file is readable by this user only, and files of other users are ignored; a folder
// that cannot be used costs one line. Only the thread that looks reads and writes files, so a file
// server that hangs delays no call. Cost: a file of about 400 bytes a rank; reading all of a
// communicator's, once each.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collectives/watch/watched_process.h"
#include "transport/socket/address.h"

namespace rondo::watch {

class HostBook {
 public:
  // Null: RONDO_WATCH_DIR is not set.
  static std::unique_ptr<HostBook> open();
  ~HostBook();

  // Where this process answers. Without it, the book is only read.
  void answer_at(std::vector<net::SocketAddress> addresses) { addresses_ = std::move(addresses); }
  const auth::Digest& secret() const { return secret_; }

  // Writes the files of own ranks that are new, removes those of others, and reads new files of the
  // same communicators. ranks: hash and rank.
  void update(const std::set<RankName>& ranks);
  // A rank each.
  const std::map<std::string, WatchedProcess>& others() const { return others_; }

 private:
  explicit HostBook(std::string folder) : folder_(std::move(folder)) {}
  Status write(const std::string& name, std::uint64_t hash, int rank) const;
  void read(const std::string& name);

  const std::string folder_;
  const auth::Digest secret_ = auth::random_digest();
  std::vector<net::SocketAddress> addresses_;
  std::set<std::string> written_;
  std::map<std::string, WatchedProcess> others_;  // by file
  bool has_failed_ = false;
};

// The text of a file, and back. An error: it is not of one rank.
std::string text_of(const WatchedProcess& process);
Result<WatchedProcess> parse_file(const std::string& text);

}  // namespace rondo::watch
