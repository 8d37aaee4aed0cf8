// SPDX-License-Identifier: Apache-2.0
#include "bench/team.h"

#include <cstring>

namespace rondo::bench {
namespace {

std::string pack(const std::vector<std::string>& parts) {
  std::string packed;
  for (const std::string& part : parts) {
    const std::uint64_t length = part.size();
    packed.append(reinterpret_cast<const char*>(&length), sizeof length);
    packed.append(part);
  }
  return packed;
}

std::vector<std::string> unpack_parts(const std::string& packed) {
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

Result<std::unique_ptr<BenchProcesses>> BenchProcesses::meet(const rondo_launch_t& launch,
                                                             double timeout, double deadline) {
  std::unique_ptr<BenchProcesses> team(new BenchProcesses(launch.rank, launch.size, deadline));
  if (launch.size == 1) return team;
  if (rondoLaunchMeet(&team->launch_, launch.rank, launch.size, launch.local_size, 0, timeout) !=
      ncclSuccess)
    return fail(StatusCode::kTimeout, "{}", ncclGetLastError(nullptr));
  return team;
}

BenchProcesses::~BenchProcesses() {
  if (launch_ != nullptr) rondoLaunchLeave(launch_);
}

Result<std::vector<std::string>> BenchProcesses::all_gather(const std::string& mine) {
  if (size_ == 1) return std::vector<std::string>{mine};
  std::vector<std::size_t> sizes(static_cast<std::size_t>(size_));
  const void* all = nullptr;
  if (rondoLaunchExchange(launch_, mine.data(), mine.size(), &all, sizes.data(), deadline_) !=
      ncclSuccess)
    return fail(StatusCode::kRemoteError, "a process left the benchmark: {}",
                ncclGetLastError(nullptr));
  std::vector<std::string> parts;
  const char* at = static_cast<const char*>(all);
  for (const std::size_t size : sizes) {
    parts.emplace_back(at, size);
    at += size;
  }
  return parts;
}

Result<std::vector<std::string>> BenchThreads::all_gather(int thread, std::string bytes) {
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
      for (std::string& member : unpack_parts(process)) all_.push_back(std::move(member));
  }
  ++round_;
  turn_.notify_all();
  return all_;
}

Status BenchThreads::barrier(int thread) {
  RONDO_TRY([[maybe_unused]] auto all, all_gather(thread, ""));
  return ok_status();
}

void BenchThreads::leave(const Error& why) {
  std::lock_guard lock(mutex_);
  if (!failed_) error_ = why;
  failed_ = true;
  turn_.notify_all();
}

}  // namespace rondo::bench
