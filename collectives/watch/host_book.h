// SPDX-License-Identifier: Apache-2.0
// HostBook: how the watched processes of several hosts find each other: files in a folder that the
// hosts share (RONDO_WATCH_DIR), one for each rank, with the place where its process answers and
// the secret that an asker proves.
//
// Guarantees: a file is readable by this user only, and files of other users are ignored; a folder
// that cannot be used costs one line. All files are read and written by a thread of the book, for
// whose end nobody waits longer than kLongestEnd: a file server that hangs delays the removal of
// the files, and no call. Cost: that thread; a file of about 400 bytes a rank; reading all of a
// communicator's, once each.
#pragma once

#include <chrono>
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
  static constexpr std::chrono::seconds kLongestEnd{1};

  // Null: RONDO_WATCH_DIR is not set, or there is no thread.
  static std::unique_ptr<HostBook> open();
  // Removes the own files.
  ~HostBook();

  // Where this process answers, before the first update. Without it, the book is only read.
  void answer_at(std::vector<net::SocketAddress> addresses);
  const auth::Digest& secret() const { return secret_; }

  // Lets the thread write the files of own ranks that are new, remove those of others, and read new
  // files of the same communicators; takes over what it has found. ranks: hash and rank.
  void update(std::set<RankName> ranks);
  // A rank each, by file.
  const std::map<std::string, WatchedProcess>& others() const { return others_; }

 private:
  struct Desk;  // what both threads use
  HostBook(std::shared_ptr<Desk> desk, const auth::Digest& secret);

  const std::shared_ptr<Desk> desk_;
  const auth::Digest secret_;
  std::map<std::string, WatchedProcess> others_;
};

// The text of a file, and back. An error: it is not of one rank.
std::string text_of(const WatchedProcess& process);
Result<WatchedProcess> parse_file(const std::string& text);

}  // namespace rondo::watch
