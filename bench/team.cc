#include "bench/team.h"

#include <cstring>

namespace rondo::bench {
namespace {

constexpr std::uint64_t kMostBytes = 1ull << 30;

struct Hello {
  std::uint64_t job;
  std::uint32_t rank, size;
};

std::string pack(const std::vector<std::string>& parts) {
  std::string packed;
  for (const std::string& part : parts) {
    const std::uint64_t length = part.size();
    packed.append(reinterpret_cast<const char*>(&length), sizeof length);
    packed.append(part);
  }
  return packed;
}

std::vector<std::string> unpack(const std::string& packed) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  std::uint64_t length = 0;
  while (at + sizeof length <= packed.size()) {
    std::memcpy(&length, packed.data() + at, sizeof length);
    at += sizeof length;
    if (length > packed.size() - at) break;
    parts.push_back(packed.substr(at, length));
    at += length;
  }
  return parts;
}

}  // namespace

Result<std::unique_ptr<ProcessTeam>> ProcessTeam::meet(const rondo_launch_t& launch, double timeout,
                                                       double patience) {
  std::unique_ptr<ProcessTeam> team(new ProcessTeam(launch.rank, launch.size, patience));
  if (launch.size == 1) return team;
  const double until = rondo_launch_now_() + timeout;
  Hello mine{rondo_launch_job(), static_cast<std::uint32_t>(launch.rank),
             static_cast<std::uint32_t>(launch.size)};
  if (launch.rank != 0) {
    team->peers_[0].reset(rondo_launch_dial(&launch, until));
    if (!team->peers_[0] ||
        rondo_launch_move_(team->peers_[0].get(), &mine, sizeof mine, 1, until) != 0)
      return fail(Status::kTimeout, "rank {}: rank 0 was not to be reached within {} s",
                  launch.rank, timeout);
    return team;
  }
  const Fd listener(rondo_launch_listen(&launch));
  if (!listener) return fail(Status::kSystemError, "rank 0 cannot serve its peers");
  for (int missing = launch.size - 1; missing > 0;) {
    Fd peer(rondo_launch_accept(listener.get(), until));
    if (!peer)
      return fail(Status::kTimeout, "{} of {} processes did not come within {} s", missing,
                  launch.size, timeout);
    Hello theirs{};
    if (rondo_launch_move_(peer.get(), &theirs, sizeof theirs, 0, rondo_launch_now_() + 2) != 0 ||
        theirs.job != mine.job || theirs.size != mine.size || theirs.rank == 0 ||
        theirs.rank >= mine.size || team->peers_[theirs.rank])
      continue;  // a stranger
    team->peers_[theirs.rank] = std::move(peer);
    --missing;
  }
  return team;
}

Done ProcessTeam::send(int peer, const std::string& bytes) {
  std::uint64_t length = bytes.size();
  const int fd = peers_[static_cast<std::size_t>(peer)].get();
  const double until = rondo_launch_now_() + patience_;
  if (rondo_launch_move_(fd, &length, sizeof length, 1, until) != 0 ||
      rondo_launch_move_(fd, const_cast<char*>(bytes.data()), bytes.size(), 1, until) != 0)
    return fail(Status::kRemoteError, "process {} left the benchmark", peer);
  return done();
}

Result<std::string> ProcessTeam::receive(int peer) {
  std::uint64_t length = 0;
  const int fd = peers_[static_cast<std::size_t>(peer)].get();
  const double until = rondo_launch_now_() + patience_;
  if (rondo_launch_move_(fd, &length, sizeof length, 0, until) == 0 && length <= kMostBytes) {
    std::string bytes(length, '\0');
    if (rondo_launch_move_(fd, bytes.data(), length, 0, until) == 0) return bytes;
  }
  return fail(Status::kRemoteError, "process {} left the benchmark", peer);
}

Result<std::vector<std::string>> ProcessTeam::all_gather(const std::string& mine) {
  if (size_ == 1) return std::vector<std::string>{mine};
  if (rank_ != 0) {
    RONDO_CHECK_OK(send(0, mine));
    RONDO_TRY(std::string packed, receive(0));
    return unpack(packed);
  }
  std::vector<std::string> all{mine};
  for (int peer = 1; peer < size_; ++peer) {
    RONDO_TRY(std::string theirs, receive(peer));
    all.push_back(std::move(theirs));
  }
  const std::string packed = pack(all);
  for (int peer = 1; peer < size_; ++peer) RONDO_CHECK_OK(send(peer, packed));
  return all;
}

Result<std::vector<std::string>> ThreadTeam::all_gather(int thread, std::string bytes) {
  std::unique_lock lock(mutex_);
  if (failed_) return error_;
  mine_[static_cast<std::size_t>(thread)] = std::move(bytes);
  const std::uint64_t round = round_;
  if (++arrived_ < threads_) {
    turn_.wait(lock, [&] { return round_ != round || failed_; });
    if (round_ == round) return error_;
    return all_;
  }
  arrived_ = 0;
  auto gathered = processes_.all_gather(threads_ == 1 ? mine_[0] : pack(mine_));
  if (!gathered) {
    failed_ = true;
    error_ = gathered.error();
    turn_.notify_all();
    return error_;
  }
  if (threads_ == 1) {
    all_ = std::move(gathered).value();
  } else {
    all_.clear();
    for (const std::string& process : *gathered)
      for (std::string& member : unpack(process)) all_.push_back(std::move(member));
  }
  ++round_;
  turn_.notify_all();
  return all_;
}

Done ThreadTeam::barrier(int thread) {
  RONDO_TRY([[maybe_unused]] auto all, all_gather(thread, ""));
  return done();
}

void ThreadTeam::leave(const Error& why) {
  std::lock_guard lock(mutex_);
  if (!failed_) error_ = why;
  failed_ = true;
  turn_.notify_all();
}

}  // namespace rondo::bench
