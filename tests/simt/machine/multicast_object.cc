// SPDX-License-Identifier: Apache-2.0
// What processes do to a multicast object.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/simt/machine/address_space.h"
#include "tests/simt/machine/multicast.h"

namespace rondo::simt {
namespace {

constexpr const char* kName = "rondo-simt-multicast";

int new_file(std::size_t bytes) {
  const int file = memfd_create(kName, MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  std::perror("emulated GPU: no multicast object");
  std::abort();
}

// Memory bound by this object has a size; other memory has none, or a size if mapped here.
template <class Found>
bool is_own(const Found& found) {
  return found.memory != nullptr && found.bytes != 0;
}

}  // namespace

MulticastObject::MulticastObject(int file) : file_(file) {
  void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    std::perror("emulated GPU: no multicast object");
    std::abort();
  }
  shared_ = static_cast<Shared*>(at);
}

MulticastObject::MulticastObject(std::size_t bytes, int wanted)
    : MulticastObject(new_file(sizeof(Shared))) {
  shared_->bytes = bytes;
  shared_->wanted = wanted;
}

MulticastObject* MulticastObject::open(int file) {
  char text[64] = "";
  const std::string link = fmt::format("/proc/self/fd/{}", file);
  if (readlink(link.c_str(), text, sizeof text - 1) < 0 || std::strstr(text, kName) == nullptr)
    return nullptr;
  const int own = fcntl(file, F_DUPFD_CLOEXEC, 0);
  return own < 0 ? nullptr : new MulticastObject(own);
}

MulticastObject::~MulticastObject() {
  for (const Row& row : shared_->rows) {
    const auto found = found_.find(row.number);
    if (row.state == kBound && found != found_.end() && is_own(found->second)) close(row.file);
  }
  for (const auto& [number, found] : found_)
    if (found.mapped != nullptr) munmap(found.mapped, found.bytes);
  munmap(shared_, sizeof(Shared));
  close(file_);
}

bool MulticastObject::add(int device) {
  return !complete() && (shared_->added.fetch_or(1u << device) >> device & 1) == 0;
}

bool MulticastObject::bind(int device, std::size_t at, std::size_t bytes, const Allocation& memory,
                           std::size_t memory_at) {
  for (const Row& row : shared_->rows)
    if (row.state == kBound && row.device == device && row.overlaps(at, bytes)) return false;
  for (Row& row : shared_->rows) {
    std::uint32_t free = kFree;
    if (!row.state.compare_exchange_strong(free, kBeingWritten)) continue;
    row.device = device, row.process = getpid();
    row.file = memory.file < 0 ? -1 : fcntl(memory.file, F_DUPFD_CLOEXEC, 0);
    row.number = ++shared_->numbers;
    row.at = at, row.bytes = bytes, row.memory_at = memory_at;
    const std::lock_guard lock(mutex_);
    found_[row.number] = {.memory = &memory, .bytes = bytes};
    row.state = kBound;
    return true;
  }
  return false;
}

bool MulticastObject::unbind(int device, std::size_t at, std::size_t bytes) {
  for (Row& row : shared_->rows) {
    if (row.state != kBound || row.device != device || row.process != getpid() || row.at != at ||
        row.bytes != bytes)
      continue;
    if (row.file >= 0) close(row.file);
    row.state = kFree;
    return true;
  }
  return false;
}

std::byte* MulticastObject::place(const AddressSpace& memory, int device, std::size_t at,
                                  std::size_t bytes) const {
  for (const Row& row : shared_->rows) {
    if (row.state != kBound || row.device != device || !row.covers(at, bytes)) continue;
    const Found& found = find(memory, row);
    const std::size_t offset = row.memory_at + (at - row.at);
    if (found.memory == nullptr) return found.mapped + offset;
    return found.memory->freed ? nullptr : found.memory->real + offset;
  }
  return nullptr;
}

// Memory already mapped here is used through that mapping: access order is tracked by address.
const MulticastObject::Found& MulticastObject::find(const AddressSpace& memory,
                                                    const Row& row) const {
  const std::lock_guard lock(mutex_);
  Found& found = found_[row.number];
  if (found.memory != nullptr && (!found.memory->freed || is_own(found))) return found;
  if (found.mapped != nullptr) return found;
  const std::string link = fmt::format("/proc/{}/fd/{}", row.process, row.file);
  struct stat file {};
  if (stat(link.c_str(), &file) == 0) found.memory = memory.find_file(file.st_dev, file.st_ino);
  if (found.memory == nullptr) found = map(row);
  return found;
}

MulticastObject::Found MulticastObject::map(const Row& row) {
  const std::string link = fmt::format("/proc/{}/fd/{}", row.process, row.file);
  const int file = ::open(link.c_str(), O_RDWR | O_CLOEXEC);
  const std::size_t bytes = row.memory_at + row.bytes;
  const int flags = file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (file >= 0) close(file);
  if (at != MAP_FAILED) return {.mapped = static_cast<std::byte*>(at), .bytes = bytes};
  std::perror("emulated GPU: no memory of a multicast object");
  std::abort();
}

}  // namespace rondo::simt
