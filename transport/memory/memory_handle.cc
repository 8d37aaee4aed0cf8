// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/memory_handle.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace rondo::gpu {

MemoryHandle MemoryHandle::clone() const {
  return {plain, file ? Fd::duplicate_of(file.get()) : Fd()};
}

Status send_files(int socket, const std::vector<const MemoryHandle*>& handles,
                  const net::Deadline& deadline) {
  std::vector<int> files;
  for (const MemoryHandle* handle : handles)
    if (handle->file) files.push_back(handle->file.get());
  std::span<const int> left(files);
  do {
    const auto some = left.first(std::min(shm::kMaxDescriptors, left.size()));
    left = left.subspan(some.size());
    RONDO_CHECK_OK(shm::send_fds(socket, static_cast<int>(left.size()), some, deadline));
  } while (!left.empty());
  return ok_status();
}

Result<std::vector<MemoryHandle>> receive_handles(int socket,
                                                  const std::vector<const PlainHandle*>& plain,
                                                  const net::Deadline& deadline) {
  std::vector<Fd> files;
  for (int left = 1; left > 0;) {
    RONDO_TRY(shm::FdMessage message, shm::receive_fds(socket, deadline));
    left = message.value;
    std::move(message.fds.begin(), message.fds.end(), std::back_inserter(files));
  }
  std::vector<MemoryHandle> handles;
  auto next = files.begin();
  for (const PlainHandle* part : plain) {
    MemoryHandle& handle = handles.emplace_back(MemoryHandle{*part, Fd()});
    if (handle.plain.kind == PlainHandle::kFile && next != files.end())
      handle.file = std::move(*next++);
  }
  return handles;
}

}  // namespace rondo::gpu
