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

#include "collectives/status/own_ranks.h"
#include "transport/socket/address.h"

namespace rondo::watch {

class HostBook {
 public:
  struct Entry {  // a rank
    std::uint64_t hash = 0, process = 0, host = 0;
    int rank = -1, pid = 0;
    std::string host_name;
    std::vector<net::SocketAddress> addresses;  // with the port
    auth::Digest secret{};                      // of its process
  };

  // Null: RONDO_WATCH_DIR is not set.
  static std::unique_ptr<HostBook> open();
  ~HostBook();

  // Where this process answers. Without it, the book is only read.
  void answer_at(std::vector<net::SocketAddress> addresses) { addresses_ = std::move(addresses); }
  const auth::Digest& secret() const { return secret_; }

  // Writes the files of own ranks that are new, removes those of others, and reads new files of the
  // same communicators. ranks: hash and rank.
  void update(const std::set<std::pair<std::uint64_t, int>>& ranks);
  // Of other processes.
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  explicit HostBook(std::string folder) : folder_(std::move(folder)) {}
  Status write(const std::string& name, std::uint64_t hash, int rank) const;
  void read(const std::string& name);

  const std::string folder_;
  const auth::Digest secret_ = auth::random_digest();
  std::vector<net::SocketAddress> addresses_;
  std::set<std::string> written_;
  std::map<std::string, Entry> entries_;  // by file
  bool has_failed_ = false;
};

// The text of a file, and back. An error: it is none.
std::string text_of(const HostBook::Entry& entry);
Result<HostBook::Entry> parse_entry(const std::string& text);

}  // namespace rondo::watch
