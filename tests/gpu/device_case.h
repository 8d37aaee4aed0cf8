// SPDX-License-Identifier: Apache-2.0
// Reference cases on devices: buffers with guards, and the calls of one rank or of a whole process.
//
// Everything goes through nccl.h and the table of CUDA calls, as in a program.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/nccl_rank.h"
#include "tests/support/reference.h"

namespace rondo::test {

// Device memory between guard bytes, `shift` bytes off alignment; shareable: from ncclMemAlloc.
class DeviceBuffer {
 public:
  DeviceBuffer(std::size_t bytes, std::size_t shift, bool shareable = false)
      : host_(bytes + shift + 2 * kGuard, kFill), shareable_(shareable) {
    begin_ = kGuard + shift;
    bytes_ = bytes;
    if (shareable) {
      EXPECT_EQ(ncclMemAlloc(&base_, host_.size()), ncclSuccess) << ncclGetLastError(nullptr);
    } else {
      EXPECT_EQ(gpu_api()->allocate(&base_, host_.size()), kGpuSuccess);
    }
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(base_, other.base_);
    host_.swap(other.host_);
    begin_ = other.begin_;
    bytes_ = other.bytes_;
    shareable_ = other.shareable_;
    return *this;
  }
  ~DeviceBuffer() {
    if (base_ == nullptr) return;
    if (shareable_) {
      EXPECT_EQ(ncclMemFree(base_), ncclSuccess) << ncclGetLastError(nullptr);
    } else {
      gpu_api()->free_memory(base_);
    }
  }

  void* base() const { return base_; }
  std::size_t size() const { return host_.size(); }
  std::byte* data() const { return static_cast<std::byte*>(base_) + begin_; }
  // Fills everything with the guard pattern, then writes `content` at `offset`.
  void put(const Bytes& content, std::size_t offset, GpuStream stream) {
    std::fill(host_.begin(), host_.end(), kFill);
    std::copy(content.begin(), content.end(), host_.begin() + begin_ + offset);
    EXPECT_EQ(gpu_api()->copy(base_, host_.data(), host_.size(), GpuCopy::kHostToDevice, stream),
              kGpuSuccess);
    EXPECT_EQ(gpu_api()->synchronize_stream(stream), kGpuSuccess);
  }
  void get(GpuStream stream) {
    EXPECT_EQ(gpu_api()->copy(host_.data(), base_, host_.size(), GpuCopy::kDeviceToHost, stream),
              kGpuSuccess);
    EXPECT_EQ(gpu_api()->synchronize_stream(stream), kGpuSuccess);
  }
  // After get():
  const std::byte* host() const { return host_.data() + begin_; }
  bool guards_intact() const {
    for (std::size_t i = 0; i < host_.size(); ++i)
      if ((i < begin_ || i >= begin_ + bytes_) && host_[i] != kFill) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kFill{0xa5};
  void* base_ = nullptr;
  Bytes host_;
  std::size_t begin_ = 0, bytes_ = 0;
  bool shareable_ = false;
};

// One rank's part of a collective, with input and expected output from the reference.
class RankCase {
 public:
  struct Options {
    bool in_place = false;
    std::size_t shift = 0;   // bytes off alignment
    bool shareable = false;  // buffers from ncclMemAlloc
  };
  RankCase(ncclComm_t comm, GpuStream stream, const Case& c, int rank, const Options& options);
  ~RankCase();
  RankCase(RankCase&& other) noexcept;
  void fill_input();
  ncclResult_t call();
  // Compares output and guards; returns "" if all is right. Waits for the stream.
  std::string check();
  DeviceBuffer& input() { return in_; }
  DeviceBuffer& output() { return out_; }

 private:
  std::size_t own_block() const;

  ncclComm_t comm_;
  GpuStream stream_;
  Case c_;
  int rank_;
  Options options_;
  DeviceBuffer in_, out_;
  ncclRedOp_t op_;
  bool own_op_ = false;
};

// One collective on all ranks of a process.
class DeviceCase {
 public:
  DeviceCase(DeviceRanks& ranks, const Case& c, bool in_place, std::size_t shift);
  // Makes the call of one rank, inside a group or on its own thread.
  ncclResult_t call(int rank) { return parts_[rank].call(); }
  void fill_inputs();
  // Compares every rank's output and guards.
  void check();

 private:
  DeviceRanks& ranks_;
  std::vector<RankCase> parts_;
};

// Makes all ranks' calls of a case in one group on one thread, as nccl-tests does, and checks them.
void run_grouped(DeviceRanks& ranks, const Case& c, bool in_place, std::size_t shift);

// Each rank sends a message to the next one, all in one group, from `shift` bytes off alignment.
void send_round_a_ring(DeviceRanks& ranks, std::size_t bytes, std::size_t shift);

}  // namespace rondo::test
