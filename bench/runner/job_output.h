// SPDX-License-Identifier: Apache-2.0
// JobOutput: forwards the ranks' output, line by line, to our own stdout and stderr.
//
// Lines of different ranks never mix, nor do lines of stdout and stderr that are one pipe, up to
// 4096 bytes each. A line without an end is forwarded when its writer closes the pipe, or in
// pieces if it exceeds 64 KiB. Never blocks: if our reader is slow, up to 1 MiB per stream waits in
// memory; beyond that the ranks wait in their own write().
// Cost: one read and one write per burst of output.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace rondo::runner {

class JobOutput {
 public:
  explicit JobOutput(bool prefix) : prefix_(prefix) {}

  // From now on the rank's lines, without prefix, also go to this file. A file that cannot be
  // written is reported once and left.
  void log(int rank, Fd file, std::string path);
  // Adds the reading end of a rank's pipe; `target` is 1 (stdout) or 2 (stderr).
  void add(int rank, int target, Fd pipe);

  // ask() adds what to poll for; pass the same list to serve() after poll().
  void ask(std::vector<pollfd>& polls) const;
  void serve(const std::vector<pollfd>& polls);
  // Forwards what the ranks have written so far, as far as our reader takes it now. Ends although a
  // rank goes on writing.
  void settle();

  bool sources_open() const;
  bool pending() const { return !waiting_[0].empty() || !waiting_[1].empty(); }
  // errno of the first failed write to our stdout or stderr, after which nothing is forwarded; 0:
  // none failed.
  int write_error() const { return write_error_; }
  void close_sources();

 private:
  struct Source {
    int rank;
    int target;
    Fd pipe;
    std::string partial;
  };

  void read_from(Source& source);
  void emit(const Source& source, std::string_view line);
  void append(int rank, std::string_view line);
  void write_to(int target);
  std::string& waiting(int target) { return waiting_[target - 1]; }
  const std::string& waiting(int target) const { return waiting_[target - 1]; }

  bool prefix_;
  int write_error_ = 0;
  struct Log {
    Fd file;
    std::string path;
  };
  std::vector<Log> logs_;  // [rank]; empty: none
  std::vector<Source> sources_;
  std::string waiting_[2];
};

}  // namespace rondo::runner
