// JobOutput: the ranks' output, line by line, on our own stdout and stderr.
//
// Lines of different ranks never mix; a line without an end is passed on when its writer has closed
// the pipe, or in pieces beyond 64 KiB. Never blocks: where our reader is slow, lines wait in
// memory up to 1 MiB a stream, and beyond that the ranks wait in their own write().
// Cost: one read and one write per burst of output.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/fd.h"

namespace rondo::cli {

class JobOutput {
 public:
  explicit JobOutput(bool prefix) : prefix_(prefix) {}

  // The reading end of a rank's pipe; `target` is 1 or 2.
  void add(int rank, int target, Fd pipe);

  // What to poll for; then hand the same list back.
  void ask(std::vector<pollfd>& polls) const;
  void serve(const std::vector<pollfd>& polls);

  bool sources_open() const;
  bool pending() const { return !waiting_[0].empty() || !waiting_[1].empty(); }
  bool reader_gone() const { return reader_gone_; }
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
  void write_to(int target);
  std::string& waiting(int target) { return waiting_[target - 1]; }
  const std::string& waiting(int target) const { return waiting_[target - 1]; }

  bool prefix_;
  bool reader_gone_ = false;
  std::vector<Source> sources_;
  std::string waiting_[2];
};

}  // namespace rondo::cli
