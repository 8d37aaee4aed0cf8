// SPDX-License-Identifier: Apache-2.0
// The reduction loop over memory: sources in, one result, targets out. Compiled once per
// instruction set.
//
// reduce<Lanes, Op, Finish, n> is the loop for n sources; n = 0: for any number. Common numbers
// have their own loop so that the tree stays in registers. Ends shorter than a vector use
// reduce_part(), at most once per call at each end.
#if defined(RONDO_KERNELS_HOST_SIMD_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_HOST_SIMD_REDUCE_INL_H_
#undef RONDO_KERNELS_HOST_SIMD_REDUCE_INL_H_
#else
#define RONDO_KERNELS_HOST_SIMD_REDUCE_INL_H_
#endif

#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/host/simd/operations-inl.h"
#include "kernels/host/simd/reduce_kernels.h"

#if HWY_TARGET != HWY_SCALAR  // HWY_SCALAR uses the table's scalar code
HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {

// Reads whole vectors of the sources at a byte offset.
struct WholeVectors {
  const void* const* sources;
  std::size_t at;
  template <class Lanes>
  HWY_INLINE typename Lanes::Pack load(int s) const {
    return Lanes::load(static_cast<const std::uint8_t*>(sources[s]) + at);
  }
};

// The first `bytes` bytes of a vector; no memory after them is read.
HWY_INLINE Bytes load_part(const std::uint8_t* from, std::size_t bytes) {
  const Tag<std::uint8_t> tag;
#if HWY_TARGET <= HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(tag, bytes), tag, from);
#else
  alignas(kVectorBytes) std::uint8_t whole[kVectorBytes] = {};
  std::memcpy(whole, from, bytes);
  return hn::Load(tag, whole);
#endif
}

HWY_INLINE void store_part(Bytes value, std::uint8_t* to, std::size_t bytes) {
  const Tag<std::uint8_t> tag;
#if HWY_TARGET <= HWY_AVX3
  hn::BlendedStore(value, hn::FirstN(tag, bytes), tag, to);
#else
  alignas(kVectorBytes) std::uint8_t whole[kVectorBytes];
  hn::Store(value, tag, whole);
  std::memcpy(to, whole, bytes);
#endif
}

struct PartVectors {
  const void* const* sources;
  std::size_t at;
  std::size_t bytes;
  template <class Lanes>
  HWY_INLINE typename Lanes::Pack load(int s) const {
    alignas(kVectorBytes) std::uint8_t whole[kVectorBytes];
    const auto* from = static_cast<const std::uint8_t*>(sources[s]) + at;
    hn::Store(load_part(from, bytes), Tag<std::uint8_t>(), whole);
    return Lanes::load(whole);
  }
};

constexpr int largest_power_below(int n) {
  int power = 1;
  while (2 * power < n) power *= 2;
  return power;
}

// The balanced tree over sources [first, first + n).
template <class Lanes, class Op, int n, class Sources>
HWY_INLINE typename Lanes::Pack tree(const Sources& sources, int first) {
  if constexpr (n == 1) {
    return sources.template load<Lanes>(first);
  } else {
    constexpr int kLeft = largest_power_below(n);
    const auto left = tree<Lanes, Op, kLeft>(sources, first);
    const auto right = tree<Lanes, Op, n - kLeft>(sources, first + kLeft);
    return combine<Op>(left, right);
  }
}

// The same for any number of sources: a binary counter over groups of them (like combine_tree in
// kernels/reduce.h).
template <class Lanes, class Op, class Sources>
HWY_INLINE typename Lanes::Pack counted_tree(const Sources& sources, int n) {
  constexpr int kGroup = Lanes::kGroup;
  typename Lanes::Pack partial[32];
  int depth = 0;
  int s = 0;
  for (; n - s >= kGroup; s += kGroup) {
    auto value = tree<Lanes, Op, kGroup>(sources, s);
    for (int carry = s / kGroup; carry & 1; carry >>= 1) {
      value = combine<Op>(partial[--depth], value);
    }
    partial[depth++] = value;
  }
  if constexpr (kGroup > 2) {
    if (n - s == 3) partial[depth++] = tree<Lanes, Op, 3>(sources, s);
    if (n - s == 2) partial[depth++] = tree<Lanes, Op, 2>(sources, s);
  }
  if (n - s == 1) partial[depth++] = tree<Lanes, Op, 1>(sources, s);
  auto result = partial[--depth];
  while (depth > 0) result = combine<Op>(partial[--depth], result);
  return result;
}

// Reduces fewer bytes than one vector.
template <class Lanes, class Op, class Finish>
HWY_NOINLINE void reduce_part(const ReduceArgs& args, const Finish& f, std::size_t at,
                              std::size_t bytes) {
  const PartVectors sources{args.sources, at, bytes};
  const auto result = counted_tree<Lanes, Op>(sources, args.source_count);
  const Bytes packed = Lanes::pack(finish(f, result));
  for (int t = 0; t < args.target_count; ++t) {
    store_part(packed, static_cast<std::uint8_t*>(args.targets[t]) + at, bytes);
  }
}

HWY_INLINE void store(Bytes value, std::uint8_t* to, bool stream) {
  const Tag<std::uint8_t> tag;
  if (stream) {
    hn::Stream(value, tag, to);
  } else {
    hn::StoreU(value, tag, to);
  }
}

HWY_INLINE std::size_t misalignment(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kVectorBytes;
}

constexpr std::size_t kAlignFrom = 2048;  // bytes: the head costs about 10 ns

template <class Lanes, class Op, class Finish, int n>
struct Loop {
  static constexpr int kHeld = n == 0 ? 1 : n;
  const ReduceArgs& args;
  const Finish& f;
  const void* held[kHeld];  // a copy that stores cannot alias: pointers stay in registers

  HWY_INLINE Bytes result(std::size_t at) const {
    if constexpr (n == 0) {
      return Lanes::pack(
          finish(f, counted_tree<Lanes, Op>(WholeVectors{args.sources, at}, args.source_count)));
    } else {
      return Lanes::pack(finish(f, tree<Lanes, Op, n>(WholeVectors{held, at}, 0)));
    }
  }

  // Computes all results of a step before any store: a target may be a source.
  template <int vectors>
  HWY_INLINE void step(std::size_t at) const {
    static_assert(vectors == 1 || vectors == 2 || vectors == 4);
    const Bytes r0 = result(at);
    const Bytes r1 = vectors > 1 ? result(at + kVectorBytes) : r0;
    const Bytes r2 = vectors > 2 ? result(at + 2 * kVectorBytes) : r0;
    const Bytes r3 = vectors > 2 ? result(at + 3 * kVectorBytes) : r0;
    for (int t = 0; t < args.target_count; ++t) {
      auto* to = static_cast<std::uint8_t*>(args.targets[t]) + at;
      const bool stream = t < args.streamed && misalignment(to) == 0;
      store(r0, to, stream);
      if (vectors > 1) store(r1, to + kVectorBytes, stream);
      if (vectors > 2) store(r2, to + 2 * kVectorBytes, stream);
      if (vectors > 2) store(r3, to + 3 * kVectorBytes, stream);
    }
  }

  HWY_INLINE void run() {
    const std::size_t bytes = args.count * sizeof(typename Lanes::Storage);
    std::size_t at = 0;
    // Streaming stores need aligned addresses, and other stores are faster if they split no line.
    // The first target decides: large buffers of one allocator often have equal alignment.
    if (args.streamed > 0 || bytes >= kAlignFrom) {
      const std::size_t head = (kVectorBytes - misalignment(args.targets[0])) % kVectorBytes;
      if (head > 0 && head < bytes && head % sizeof(typename Lanes::Storage) == 0) {
        reduce_part<Lanes, Op>(args, f, 0, head);
        at = head;
      }
    }
    constexpr int kUnroll = n == 0 ? 1 : Lanes::kUnroll;
    constexpr std::size_t kStep = kUnroll * kVectorBytes;
    for (; bytes - at >= kStep; at += kStep) step<kUnroll>(at);
    for (; kUnroll > 1 && bytes - at >= kVectorBytes; at += kVectorBytes) step<1>(at);
    if (at < bytes) reduce_part<Lanes, Op>(args, f, at, bytes - at);
    if (args.streamed > 0) hwy::FlushStream();
  }
};

template <class Lanes, class Op, int n, class Finish>
HWY_NOINLINE void reduce(const ReduceArgs& args, const Finish& f) {
  Loop<Lanes, Op, Finish, n> loop{args, f, {}};
  if constexpr (n > 0) std::memcpy(loop.held, args.sources, sizeof(loop.held));
  loop.run();
}

// For one source and nothing to finish.
template <class Lanes>
HWY_INLINE void copy_to_targets(const ReduceArgs& args) {
  for (int t = 0; t < args.target_count; ++t) {
    copy_bytes(args.targets[t], args.sources[0], args.count * sizeof(typename Lanes::Storage),
               t < args.streamed);
  }
}

// Two sources have their own loop. With `hot` (the hot path of training: sums of types that are
// cheap to convert), 3, 4 and 8 sources also have one.
template <class Lanes, class Op, bool hot, class Finish>
void reduce_sources(const ReduceArgs& args, const Finish& f) {
  const int n = args.source_count;
  if constexpr (std::is_same_v<Finish, Nothing>) {
    if (n == 1) return copy_to_targets<Lanes>(args);
  }
  if (n == 2) return reduce<Lanes, Op, 2>(args, f);
  if constexpr (hot && Lanes::kUnroll > 1) {
    if (n == 3) return reduce<Lanes, Op, 3>(args, f);
    if (n == 4) return reduce<Lanes, Op, 4>(args, f);
    if (n == 8) return reduce<Lanes, Op, 8>(args, f);
  }
  reduce<Lanes, Op, 0>(args, f);
}

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
