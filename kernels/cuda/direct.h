// SPDX-License-Identifier: Apache-2.0
// The direct kernels. Either one launch does the whole collective for all ranks of a device,
// without waits; or each of several devices that reach each other launches one, with a barrier
// before and after (device_barrier.h), and they share the work.
//
// DirectReduce reads n inputs at a position, reduces them in rank order and writes all outputs, for
// one call or several. DirectCopy moves bytes.
// Guarantees: the bits of reduce.h; safe in place; any alignment and count (16-byte vectors where
// all pointers of a segment agree modulo 16, else single elements); no shared memory, and no
// barrier with one device. Sums of floats of more than 8 inputs have kernels of their own (wide),
// which read groups of 8; others read them element by element.
// Cost: every input is read once and every output written once, with 8 independent 16-byte loads in
// flight per thread (one per input for all but sums and averages of floats).
#pragma once

#include "kernels/cuda/byte_copy.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_barrier.h"
#include "kernels/cuda/device_element.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/job_math.h"
#include "kernels/cuda/staged_parts.h"
#include "kernels/cuda/tree.h"

namespace rondo::cuda {

// The CTAs of all devices that share the work are distributed round robin over `groups` kinds of
// work.
struct Deal {
  int group, groups;   // this CTA's kind
  std::uint64_t step;  // number of threads of this kind
  std::uint64_t first;
};
RONDO_FN inline Deal deal_ctas(int kinds, Crew crew, int devices, int place) {
  const int ctas = crew.ctas * devices;
  const int cta = static_cast<int>(device::cta_index()) * devices + place;
  const int groups = kinds < ctas ? kinds : ctas;
  const int group = cta % groups;
  const int members = (ctas - group + groups - 1) / groups;
  const auto threads = static_cast<std::uint64_t>(crew.threads);
  return {group, groups, threads * members,
          threads * static_cast<std::uint64_t>(cta / groups) + device::thread_index()};
}

// The share of this CTA in the staging of the CTAs with its number: the devices share one segment,
// or each has its own.
RONDO_FN inline Deal deal_part(int kinds, Crew crew, const DeviceBarrier& barrier) {
  const auto threads = static_cast<std::uint64_t>(crew.threads);
  const auto devices = static_cast<std::uint64_t>(barrier.devices);
  const auto place = static_cast<std::uint64_t>(barrier.place);
  if (kinds > 1) return {barrier.place, barrier.devices, threads, device::thread_index()};
  return {0, 1, threads * devices, threads * place + device::thread_index()};
}

// Maximum number of sources that are read as vectors at once; more are read element by element, by
// wide kernels in groups of that number. 8-bit floats with factors would need too many registers
// for 8 sources.
constexpr int max_vectors(DataType type, RedOp op) {
  return op == RedOp::kPreMulSum && is_float(type) && size_of(type) == 1 ? 4 : kNarrowRanks;
}

// stored: the arguments are read from device memory (stored_entry_of). One device does all the
// work. wide: more than kMaxVectors sources, of what sums_in_groups() allows.
template <DataType type, RedOp op, bool stored = false, bool wide = false>
struct DirectReduce {
  using Args = ReduceArgs;
  using E = DeviceElement<type>;
  using T = typename E::Storage;
  using Acc = typename E::Acc;
  // Conversions and scalars need registers of their own.
  static constexpr bool kHeavy = is_heavy(type, op);
  static constexpr int kThreads = kHeavy ? kDirectHeavyThreads : kDirectThreads;
  static constexpr int kCtas = kDirectCtas;
  static constexpr int kPerVector = static_cast<int>(sizeof(device::Vector) / sizeof(T));

  static constexpr int kMaxVectors = max_vectors(type, op);
  // True if the arithmetic of 8 inputs at once does not stay in registers beside a barrier.
  static constexpr bool kTight = type == DataType::kFloat16 && op == RedOp::kAvg;
  // Sums of floats have their own code for 2 inputs, and for several rows of 2 and of 4.
  static constexpr bool kUsual = has_sum_kernel(type, op);
  static_assert(!wide || (sums_in_groups(type, op) && !stored));
  static constexpr int kRows = 8;  // vectors in flight per thread, of 2 or 4 inputs

  static RONDO_FN void run(const Args& args) {
    if constexpr (stored) {
      run_dealt(args, 0, 1, whole_crew());
    } else {
      meet_for_each(args.barrier, args.listed, meets(args) ? args.calls : 0, Calls{{}, args});
    }
  }
  // Calls of several devices have barriers of their own; those of one device are one piece of work.
  static RONDO_FN bool meets(const Args& args) { return args.barrier.devices > 1; }
  struct Calls : NothingToDo {
    const Args& args;
    RONDO_FN void work(int k, Crew crew) const {
      run_dealt(args, meets(args) ? k : 0, meets(args) ? 1 : args.calls, crew);
    }
    RONDO_FN void bring_in(int k, Crew crew) const {
      if (args.slice != 0) move_staged(args, k, crew, true);
    }
    RONDO_FN void take_out(int k, Crew crew) const {
      if (args.slice != 0) move_staged(args, k, crew, false);
    }
  };
  // Copies between the rank's own buffers of a call and its staging.
  static RONDO_FN void move_staged(const Args& args, int k, Crew crew, bool in) {
    const StagedCall& call = args.staged[k];
    const Part part = part_of_cta(args.count[k], call.part);
    if (part.count == 0 || (in ? call.send == nullptr : call.receive == nullptr)) return;
    const int place = args.barrier.place;
    const void* const input = args.input[k * args.sources + place];
    const void* const output = args.output[args.targets == 1 ? k : k * args.targets + place];
    auto* const staging = static_cast<std::byte*>(const_cast<void*>(in ? input : output)) +
                          slice_at(args) * sizeof(T);
    auto* const own = static_cast<std::byte*>(const_cast<void*>(in ? call.send : call.receive)) +
                      part.begin * sizeof(T);
    const std::uint64_t own_step = args.own_step[k] * sizeof(T), step = call.part * sizeof(T);
    copy_parts(in ? own : staging, in ? own_step : step, in ? staging : own, in ? step : own_step,
               in ? args.segments : 1, part.count * sizeof(T), crew.threads);
  }
  // One kind of work is one segment of a call.
  static RONDO_FN void run_dealt(const Args& args, int first, int calls, Crew crew) {
    const int kinds = stored ? args.segments : calls * args.segments;
    const bool staged = is_staged(args);
    const Deal deal = staged ? deal_part(kinds, crew, args.barrier)
                             : deal_ctas(kinds, crew, stored ? 1 : args.barrier.devices,
                                         stored ? 0 : args.barrier.place);
    for (int k = deal.group; k < kinds; k += deal.groups) {
      const int call = stored ? 0 : first + k / args.segments;
      const int segment = stored ? k : k % args.segments;
      const std::uint64_t step = staged ? args.staged[call].part : args.count[call];
      const DirectReduce work{args, slice_at(args) + static_cast<std::uint64_t>(segment) * step,
                              segment, call};
      work.run_segment(deal);
    }
  }

  const Args& args;
  std::uint64_t offset;  // offset of the segment in the inputs
  int segment;
  int call_of_list;

  // Stored arguments hold one call; only launches have lists.
  RONDO_FN int call() const { return stored ? 0 : call_of_list; }
  RONDO_FN std::uint64_t count() const {
    const std::uint64_t all = args.count[call()];
    return is_staged(args) ? part_of_cta(all, args.staged[call()].part).count : all;
  }
  static RONDO_FN bool is_staged(const Args& args) { return !stored && args.slice != 0; }
  // Begin of the CTA's slice of staging; 0 if nothing is staged.
  static RONDO_FN std::uint64_t slice_at(const Args& args) {
    return stored ? 0 : device::cta_index() * args.slice;
  }
  RONDO_FN int place_of(int s) const { return call() * args.sources + s; }
  RONDO_FN const T* begin_of(int s) const { return static_cast<const T*>(args.input[place_of(s)]); }
  RONDO_FN const T* input(int s) const { return begin_of(s) + offset; }
  RONDO_FN int first_target() const {
    return call() * args.targets + (args.scattered ? segment : 0);
  }
  RONDO_FN int end_target() const {
    return args.scattered ? first_target() + 1 : first_target() + args.targets;
  }
  RONDO_FN T* output(int t) const { return static_cast<T*>(args.output[t]); }

  // PreMulSum: the factor of source s; unused otherwise. Not kept over a loop: it would take too
  // many registers.
  RONDO_FN T factor(int s) const {
    if (op != RedOp::kPreMulSum || s >= args.sources) return T{};
    const std::uint64_t bits = device::opaque(args.scalar[place_of(s)]);
    if ((args.late_scalars >> place_of(s) & 1) != 0)
      return device::load(reinterpret_cast<const T*>(bits));
    return bits_to<T>(bits);
  }
  static RONDO_FN Acc prepared(T value, T factor) {
    if constexpr (op == RedOp::kPreMulSum) value = scaled_on_device<type>(value, factor);
    return E::to_acc(value);
  }
  static RONDO_FN Acc prepared_at(const device::Vector& vector, int index, T factor) {
    if constexpr (op == RedOp::kPreMulSum) return prepared(get_element<T>(vector, index), factor);
    return acc_at<type>(vector, index);
  }
  RONDO_FN T finished(Acc result) const {
    return E::from_acc(finish_reduction<op>(result, args.ranks));
  }
  // For every e in [0, kPerVector): acc_of(e), finished.
  template <class AccOf>
  RONDO_FN void finish_vector(device::Vector& result, const AccOf& acc_of) const {
    RONDO_UNROLL
    for (int e = 0; e < kPerVector; e += kConvertsPairs<type> ? 2 : 1) {
      const Acc first = acc_of(e);
      if constexpr (kConvertsPairs<type>) {
        const Acc second = acc_of(e + 1);
        put_pair<type>(result, e, finish_reduction<op>(first, args.ranks),
                       finish_reduction<op>(second, args.ranks));
      } else {
        put_element<T>(result, e, finished(first));
      }
    }
  }

  RONDO_FN bool vectors_fit(unsigned misaligned) const {
    bool fit = (wide || args.sources <= kMaxVectors) && misaligned % sizeof(T) == 0;
    for (int s = 0; s < args.sources; ++s) fit = fit && misalignment(input(s)) == misaligned;
    for (int t = first_target(); t < end_target(); ++t)
      fit = fit && misalignment(output(t)) == misaligned;
    return fit;
  }

  RONDO_FN void run_segment(const Deal& deal) const {
    const unsigned misaligned = misalignment(input(0));
    const bool fit = vectors_fit(misaligned);
    const std::uint64_t to_boundary =
        (sizeof(device::Vector) - misaligned) % sizeof(device::Vector) / sizeof(T);
    const std::uint64_t head = fit && to_boundary < count() ? to_boundary : count();
    const std::uint64_t vectors = (count() - head) / kPerVector;
    if constexpr (wide) {
      run_groups(head, 2 * vectors, deal);
    } else if (kUsual && args.sources <= 2) {
      if constexpr (kUsual) run_vectors<2, kRows / 2>(head, vectors, deal);
    } else if (args.sources <= 4) {
      run_vectors<4, kUsual ? (kRows + 3) / 4 : 1>(head, vectors, deal);
    } else if constexpr (kMaxVectors == 8) {
      run_vectors<8, 1>(head, vectors, deal);
    }
    run_elements(head, head + vectors * kPerVector, deal);
  }

  // All elements except [from, to), one by one.
  RONDO_FN void run_elements(std::uint64_t from, std::uint64_t to, const Deal& deal) const {
    const std::uint64_t elements = count() - (to - from);
    RONDO_NO_UNROLL
    for (std::uint64_t e = deal.first; e < elements; e += deal.step) {
      const std::uint64_t i = e < from ? e : e + (to - from);
      const T result = finished(counted_tree<op>(args.sources, [&](int s) -> Acc {
        return prepared(device::load(input(s) + i), factor(s));
      }));
      RONDO_NO_UNROLL
      for (int t = first_target(); t < end_target(); ++t)
        device::store(output(t) + slice_at(args) + i, result);
    }
  }

  // `vectors` vectors from element `head` on. A warp takes `unroll` rows of 32 at a time and reads
  // them all before any arithmetic.
  template <int leaves, int unroll>
  RONDO_FN void run_vectors(std::uint64_t head, std::uint64_t vectors, const Deal& deal) const {
    constexpr std::uint64_t kAtOnce = unroll * device::kWarp;
    const std::uint64_t whole = unroll == 1 ? vectors : vectors / kAtOnce * kAtOnce;
    std::uint64_t v = unroll * deal.first - (unroll - 1) * device::lane_index();
    RONDO_NO_UNROLL
    for (; v < whole; v += unroll * deal.step) reduce_vectors<leaves, unroll>(head, v);
    if constexpr (unroll > 1) {
      RONDO_NO_UNROLL
      for (v = whole + deal.first; v < vectors; v += deal.step) reduce_vectors<leaves, 1>(head, v);
    }
  }

  // `words` of 8 bytes from element `head` on, of more inputs than are read at once: whole vectors
  // would need too many registers.
  RONDO_FN void run_groups(std::uint64_t head, std::uint64_t words, const Deal& deal) const {
    RONDO_NO_UNROLL
    for (std::uint64_t w = deal.first; w < words; w += deal.step)
      reduce_groups(head + w * (kPerVector / 2));
  }
  RONDO_FN void reduce_groups(std::uint64_t at) const {
    using Math = SumMath<type>;
    typename Math::template Groups<kMaxVectors> sums;
    int groups = 0;
    RONDO_NO_UNROLL
    for (int first = 0; first < args.sources; first += kMaxVectors, ++groups) {
      const int rest = args.sources - first, size = rest < kMaxVectors ? rest : kMaxVectors;
      std::uint64_t loaded[kMaxVectors] = {};
      RONDO_UNROLL
      for (int s = 0; s < kMaxVectors; ++s)
        if (s < size) loaded[s] = device::load(word_at(begin_of(first + s) + offset + at));
      sums.add(groups, size, loaded);
    }
    CallRecord record{};
    record.op = op;
    const std::uint64_t result = sums.result(Math::of(record, args.ranks, {}), groups);
    RONDO_NO_UNROLL
    for (int t = first_target(); t < end_target(); ++t)
      device::store(word_at(output(t) + slice_at(args) + at), result);
  }
  static RONDO_FN std::uint64_t* word_at(const T* at) {
    return reinterpret_cast<std::uint64_t*>(const_cast<T*>(at));
  }

  template <int leaves, int unroll>
  RONDO_FN void reduce_vectors(std::uint64_t head, std::uint64_t v) const {
    if constexpr ((kHeavy || kTight) && leaves == 8) return reduce_halves(head, v);
    const std::uint64_t from = device::opaque(offset + head + v * kPerVector);
    const std::uint64_t to = device::opaque(slice_at(args) + head + v * kPerVector);
    device::Vector loaded[unroll][leaves];
    RONDO_UNROLL
    for (int s = 0; s < leaves; ++s) {
      RONDO_UNROLL
      for (int u = 0; u < unroll; ++u) {
        loaded[u][s] = device::Vector{};  // otherwise an unwritten register stays live
        if (s < args.sources)
          loaded[u][s] = device::load_once(vector_at(begin_of(s) + from) + u * device::kWarp);
      }
    }
    RONDO_UNROLL
    for (int u = 0; u < unroll; ++u) {
      const device::Vector result = reduce_one<leaves>(loaded[u]);
      RONDO_NO_UNROLL
      for (int t = first_target(); t < end_target(); ++t)
        device::store_once(vector_at(output(t) + to) + u * device::kWarp, result);
    }
  }

  // Up to 8 inputs in two halves, for types whose arithmetic needs the registers.
  RONDO_FN void reduce_halves(std::uint64_t head, std::uint64_t v) const {
    Acc left[kPerVector];
    device::Vector result{};
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::uint64_t from = device::opaque(offset + head + v * kPerVector);
      device::Vector loaded[4];
      T factors[4];
      RONDO_UNROLL
      for (int s = 0; s < 4; ++s) {
        factors[s] = factor(4 * half + s);
        loaded[s] = device::Vector{};
        if (4 * half + s < args.sources)
          loaded[s] = device::load_once(vector_at(begin_of(4 * half + s) + from));
      }
      const auto sum_of = [&](int e) -> Acc {
        return fixed_tree<op, 4>(args.sources - 4 * half, [&](int s) -> Acc {
          return prepared_at(loaded[s], e, factors[s]);
        });
      };
      if (half == 1) {
        finish_vector(result, [&](int e) { return Reduction<op>::combine(left[e], sum_of(e)); });
      } else {
        RONDO_UNROLL
        for (int e = 0; e < kPerVector; ++e) left[e] = sum_of(e);
      }
    }
    const std::uint64_t to = device::opaque(slice_at(args) + head + v * kPerVector);
    RONDO_NO_UNROLL
    for (int t = first_target(); t < end_target(); ++t)
      device::store_once(vector_at(output(t) + to), result);
  }

  template <int leaves>
  RONDO_FN device::Vector reduce_one(const device::Vector (&loaded)[leaves]) const {
    T factors[leaves];
    RONDO_UNROLL
    for (int s = 0; s < leaves; ++s) factors[s] = factor(s);
    device::Vector result{};
    finish_vector(result, [&](int e) -> Acc {
      return fixed_tree<op, leaves>(
          args.sources, [&](int s) -> Acc { return prepared_at(loaded[s], e, factors[s]); });
    });
    return result;
  }
};

template <bool stored = false>
struct DirectCopy {
  using Args = CopyArgs;
  static constexpr int kThreads = kDirectThreads;
  static constexpr int kCtas = kDirectCtas;

  static RONDO_FN void run(const Args& args) {
    if constexpr (stored) {
      run_dealt(args, 0, args.items, whole_crew());
    } else {
      const auto calls = static_cast<int>(args.calls);
      meet_for_each(args.barrier, args.listed, calls, Calls{{}, args});
    }
  }
  struct Calls : NothingToDo {
    const Args& args;
    RONDO_FN void work(int k, Crew crew) const {
      const int first = k == 0 ? 0 : args.listed[k - 1].end_item;
      run_dealt(args, first, args.calls == 0 ? args.items : args.listed[k].end_item, crew);
    }
  };
  static RONDO_FN void run_dealt(const Args& args, int first, int end, Crew crew) {
    const Deal deal = deal_ctas(end - first, crew, stored ? 1 : args.barrier.devices,
                                stored ? 0 : args.barrier.place);
    for (int i = first + deal.group; i < end; i += deal.groups) {
      const Args::Item& item = args.item[i];
      copy_bytes(item.from, item.bytes, item.targets,
                 [&](unsigned t) { return args.target[item.first_target + t]; },
                 {deal.first, deal.step});
    }
  }
};

}  // namespace rondo::cuda
