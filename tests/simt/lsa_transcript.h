// SPDX-License-Identifier: Apache-2.0
// The barrier of the Lsa team as kernels with NVIDIA's nccl_device.h run it: the rows of
// tests/abi/lsa_barrier_steps.inc, step by step, on the words that a library gives them. No code of
// NVIDIA's is here, so nothing of its header runs on the emulated GPU; lsa_barrier_steps.py
// compares the rows with the PTX of its headers. For one CTA and the order acq_rel.
//
//   TranscribedBarrier barrier(kTranscripts[0], comm, cta);
//   barrier.sync();
#pragma once

#include <string_view>
#include <vector>

#define RONDO_DEVICE_PRIMITIVES "tests/simt/device_primitives.h"
#include "api/nccl_device.h"

namespace rondo::simt {

struct Transcript {
  int version;  // of the first header that has it, as NCCL_VERSION_CODE
  std::vector<std::string_view> steps;
};

#define LSA_BARRIER(version, ...) Transcript{version, {__VA_ARGS__}},
inline const std::vector<Transcript> kTranscripts = {
#include "tests/abi/lsa_barrier_steps.inc"
};
#undef LSA_BARRIER

// The step without its order; "": it has none.
inline std::string_view weaker(std::string_view step) {
  if (step == "st.release.sys") return "st.relaxed.sys";
  if (step == "ld.acquire.sys") return "ld.relaxed.sys until it comes";
  if (step == "fence.acq_rel.sys" || step == "bar.sync") return "nothing";
  return "";
}

class TranscribedBarrier {
 public:
  TranscribedBarrier(const Transcript& transcript, const ncclDevComm& comm, unsigned cta)
      : transcript_(transcript), comm_(comm), cta_(cta), epoch_(device::load(kept_epoch())) {}
  ~TranscribedBarrier() {
    if (device::thread_index() == 0) device::store(kept_epoch(), epoch_);
    device::barrier();
  }
  TranscribedBarrier(const TranscribedBarrier&) = delete;
  TranscribedBarrier& operator=(const TranscribedBarrier&) = delete;

  void sync() {
    for (const std::string_view step : transcript_.steps) run(step);
    ++epoch_;
  }

 private:
  static constexpr auto kSystem = device::Scope::kSystem;

  void run(std::string_view step) {
    if (step == "bar.sync")
      device::barrier();
    else if (step == "fence.acq_rel.sys")
      device::fence<kSystem>();
    else if (step == "st.release.sys")
      for_each_peer([&](int peer) {
        device::store_release<kSystem>(inbox(peer, comm_.lsaRank), epoch_ + 1);
      });
    else if (step == "st.relaxed.sys")
      for_each_peer([&](int peer) {
        device::store_relaxed<kSystem>(inbox(peer, comm_.lsaRank), epoch_ + 1);
      });
    else if (step == "ld.acquire.sys")
      for_each_peer([&](int peer) {
        poll([&] { return device::load_acquire<kSystem>(inbox(comm_.lsaRank, peer)); });
      });
    else if (step == "ld.relaxed.sys until it comes")
      for_each_peer([&](int peer) {
        poll([&] { return device::load_relaxed<kSystem>(inbox(comm_.lsaRank, peer)); });
      });
    else if (step != "ld.relaxed.sys" && step != "nothing")  // the abort word: poll() reads it
      std::abort();
  }
  template <class Load>
  void poll(Load&& load) const {
    for (int looks = 1; static_cast<std::int32_t>(load() - (epoch_ + 1)) < 0; ++looks) {
      if (looks % 100 == 0 && comm_.abortFlag != nullptr &&
          device::load_relaxed<kSystem>(comm_.abortFlag) != 0)
        return;
      device::spin();
    }
  }
  template <class Do>
  void for_each_peer(Do&& act) const {
    for (int i = static_cast<int>(device::thread_index()); i < comm_.lsaSize - 1;
         i += static_cast<int>(device::thread_count()))
      act(i < comm_.lsaRank ? i : i + 1);
  }
  std::uint32_t* words(int rank) const {
    const auto& window = comm_.resourceWindow_inlined;
    return reinterpret_cast<std::uint32_t*>(window.lsaFlatBase +
                                            (static_cast<std::uint64_t>(window.stride4G) << 32) *
                                                static_cast<unsigned>(rank) +
                                            std::uint64_t{comm_.lsaBarrier.bufHandle} * 128);
  }
  unsigned count() const { return static_cast<unsigned>(comm_.lsaBarrier.nBarriers); }
  std::uint32_t* kept_epoch() const { return words(comm_.lsaRank) + count() + cta_; }
  std::uint32_t* inbox(int owner, int from) const {
    return words(owner) + 3 * count() + cta_ * static_cast<unsigned>(comm_.lsaSize) +
           static_cast<unsigned>(from);
  }

  const Transcript& transcript_;
  const ncclDevComm& comm_;
  const unsigned cta_;
  std::uint32_t epoch_;
};

}  // namespace rondo::simt
