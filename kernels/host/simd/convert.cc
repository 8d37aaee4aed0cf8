// SPDX-License-Identifier: Apache-2.0
// Conversions between a float type and the wider one that sums of it are made in.
#include "kernels/host/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/simd/convert.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"
#include "kernels/host/simd/reduce_portable.h"
#include "kernels/host/simd/simd_target.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <DataType type>
void widen_each(void* wide, const void* in, std::size_t from, std::size_t count) {
  for (std::size_t i = from; i < count; ++i) {
    if constexpr (type == DataType::kFloat32) {
      portable::store(wide, i, static_cast<double>(portable::load<float>(in, i)));
    } else {
      using E = Element<type>;
      portable::store(wide, i, E::to_acc(portable::load<typename E::Storage>(in, i)));
    }
  }
}

template <DataType type>
void narrow_each(void* out, const void* wide, std::size_t from, std::size_t count) {
  for (std::size_t i = from; i < count; ++i) {
    if constexpr (type == DataType::kFloat32) {
      portable::store(out, i, static_cast<float>(portable::load<double>(wide, i)));
    } else {
      using E = Element<type>;
      portable::store(out, i, E::from_acc(portable::load<typename E::Acc>(wide, i)));
    }
  }
}

#if HWY_TARGET == HWY_SCALAR

// The number of elements at the beginning that vectors have converted.
template <DataType type>
std::size_t widen_vectors(void*, const void*, std::size_t) {
  return 0;
}
template <DataType type>
std::size_t narrow_vectors(void*, const void*, std::size_t) {
  return 0;
}

#else

template <class Wide, class Narrow>
struct Pair {  // one vector of the wide type
  using WideTag = hn::ScalableTag<Wide>;
  using NarrowTag = hn::Rebind<Narrow, WideTag>;
  static constexpr std::size_t kLanes = HWY_LANES(Wide);
};

template <class Wide, class Narrow, class Body>
std::size_t for_vectors(void* wide, const void* narrow, std::size_t count, const Body& body) {
  using P = Pair<Wide, Narrow>;
  auto* w = static_cast<Wide*>(wide);
  auto* n = static_cast<Narrow*>(const_cast<void*>(narrow));
  std::size_t at = 0;
  for (; at + P::kLanes <= count; at += P::kLanes) body(w + at, n + at);
  return at;
}

template <DataType type>
std::size_t widen_vectors(void* wide, const void* in, std::size_t count) {
  if constexpr (type == DataType::kFloat32) {
    using P = Pair<double, float>;
    return for_vectors<double, float>(wide, in, count, [](double* w, const float* n) HWY_ATTR {
      hn::StoreU(hn::PromoteTo(P::WideTag(), hn::LoadU(P::NarrowTag(), n)), P::WideTag(), w);
    });
  } else if constexpr (type == DataType::kFloat16) {
    using P = Pair<float, hwy::float16_t>;
    return for_vectors<float, hwy::float16_t>(
        wide, in, count, [](float* w, const hwy::float16_t* n) HWY_ATTR {
          hn::StoreU(hn::PromoteTo(P::WideTag(), hn::LoadU(P::NarrowTag(), n)), P::WideTag(), w);
        });
  } else if constexpr (type == DataType::kBfloat16) {
    using P = Pair<float, std::uint16_t>;
    return for_vectors<float, std::uint16_t>(
        wide, in, count, [](float* w, const std::uint16_t* n) HWY_ATTR {
          const hn::RebindToUnsigned<P::WideTag> words;
          const auto bits = hn::PromoteTo(words, hn::LoadU(P::NarrowTag(), n));
          hn::StoreU(hn::BitCast(P::WideTag(), hn::ShiftLeft<16>(bits)), P::WideTag(), w);
        });
  } else {
    return 0;
  }
}

// All round to nearest even. A NaN that came from bfloat16 has 16 zero low bits, and one that
// arose has its highest bit set, so rounding leaves both NaN.
template <DataType type>
std::size_t narrow_vectors(void* out, const void* wide, std::size_t count) {
  void* const in = const_cast<void*>(wide);
  if constexpr (type == DataType::kFloat32) {
    using P = Pair<double, float>;
    return for_vectors<double, float>(in, out, count, [](const double* w, float* n) HWY_ATTR {
      hn::StoreU(hn::DemoteTo(P::NarrowTag(), hn::LoadU(P::WideTag(), w)), P::NarrowTag(), n);
    });
  } else if constexpr (type == DataType::kFloat16) {
    using P = Pair<float, hwy::float16_t>;
    return for_vectors<float, hwy::float16_t>(
        in, out, count, [](const float* w, hwy::float16_t* n) HWY_ATTR {
          hn::StoreU(hn::DemoteTo(P::NarrowTag(), hn::LoadU(P::WideTag(), w)), P::NarrowTag(), n);
        });
  } else if constexpr (type == DataType::kBfloat16) {
    using P = Pair<float, std::uint16_t>;
    return for_vectors<float, std::uint16_t>(
        in, out, count, [](const float* w, std::uint16_t* n) HWY_ATTR {
          const hn::RebindToUnsigned<P::WideTag> words;
          const auto bits = hn::BitCast(words, hn::LoadU(P::WideTag(), w));
          const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
          const auto rounded = hn::Add(bits, hn::Add(last, hn::Set(words, 0x7fff)));
          const auto upper =
              hn::BitCast(hn::RebindToSigned<P::WideTag>(), hn::ShiftRight<16>(rounded));
          hn::StoreU(hn::DemoteTo(P::NarrowTag(), upper), P::NarrowTag(), n);
        });
  } else {
    return 0;
  }
}

#endif

template <DataType type>
void widen_all(void* wide, const void* in, std::size_t count) {
  widen_each<type>(wide, in, widen_vectors<type>(wide, in, count), count);
}

template <DataType type>
void narrow_all(void* out, const void* wide, std::size_t count) {
  narrow_each<type>(out, wide, narrow_vectors<type>(out, wide, count), count);
}

ConvertFn widen_row(DataType type) {
  return portable::with_type(type, []<DataType t>() -> ConvertFn { return widen_all<t>; });
}

ConvertFn narrow_row(DataType type) {
  return portable::with_type(type, []<DataType t>() -> ConvertFn { return narrow_all<t>; });
}

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/simd/pick.h"

namespace rondo::host {

ConvertFn widen_function(SimdTarget target, DataType type) {
  return RONDO_PICK(target, widen_row)(type);
}

ConvertFn narrow_function(SimdTarget target, DataType type) {
  return RONDO_PICK(target, narrow_row)(type);
}

}  // namespace rondo::host
#endif
