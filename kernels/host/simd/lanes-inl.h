// SPDX-License-Identifier: Apache-2.0
// How the elements of a type are stored in vectors. load() expands one vector of storage into one,
// two or four vectors of accumulators; pack() rounds them back. Compiled once per instruction set.
//
// Narrow floats are expanded without moving anything between lanes: a 32-bit lane that holds two
// bfloat16 becomes two float lanes by a shift and a mask. Therefore the accumulators' order differs
// from memory; pack() restores it.
#if defined(RONDO_KERNELS_HOST_SIMD_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_HOST_SIMD_LANES_INL_H_
#undef RONDO_KERNELS_HOST_SIMD_LANES_INL_H_
#else
#define RONDO_KERNELS_HOST_SIMD_LANES_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/number.h"
#include "kernels/reduce.h"

#if HWY_TARGET != HWY_SCALAR  // HWY_SCALAR uses the table's scalar code
HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vector = hn::Vec<Tag<T>>;
using Bytes = Vector<std::uint8_t>;
using Words = Vector<std::uint32_t>;
using Floats = Vector<float>;
inline constexpr std::size_t kVectorBytes = HWY_LANES(std::uint8_t);

// The accumulators of one vector of storage.
template <class V>
struct One {
  V a;
};
template <class V>
struct Two {
  V a, b;
};
template <class V>
struct Four {
  V a, b, c, d;
};

// kUnroll: vectors of storage per loop iteration; enough to keep the processor busy but no more,
// because every operation repeats the code. kGroup: number of sources that are combined without a
// loop if their number is unknown at compile time.
template <class T>
struct PlainLanes {
  using Storage = T;
  using Acc = T;
  using Pack = One<Vector<T>>;
  static constexpr int kUnroll = 4;
  static constexpr int kGroup = 4;
  static HWY_INLINE Pack load(const std::uint8_t* from) {
    return {hn::BitCast(Tag<T>(), hn::LoadU(Tag<std::uint8_t>(), from))};
  }
  static HWY_INLINE Bytes pack(Pack acc) { return hn::BitCast(Tag<std::uint8_t>(), acc.a); }
};

// Each 32-bit lane holds two elements. Rounding needs no case for NaN: accumulators come from
// bfloat16, so a NaN has 16 zero low bits, which rounding does not change.
struct Bfloat16Lanes {
  using Storage = std::uint16_t;
  using Acc = float;
  using Pack = Two<Floats>;
  static constexpr int kUnroll = 2;
  static constexpr int kGroup = 4;

  static HWY_INLINE Pack load(const std::uint8_t* from) {
    const Tag<float> floats;
    const Tag<std::uint32_t> words;
    const Words both = hn::BitCast(words, hn::LoadU(Tag<std::uint8_t>(), from));
    return {hn::BitCast(floats, hn::ShiftLeft<16>(both)),
            hn::BitCast(floats, hn::And(both, hn::Set(words, 0xffff0000u)))};
  }
  static HWY_INLINE Words rounded(Floats value) {
    const Tag<std::uint32_t> words;
    const Words bits = hn::BitCast(words, value);
    const Words last_bit = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
    return hn::Add(bits, hn::Add(last_bit, hn::Set(words, 0x7fff)));
  }
  static HWY_INLINE Bytes pack(Pack acc) {
    const Words low = hn::ShiftRight<16>(rounded(acc.a));
    const Words high = hn::And(rounded(acc.b), hn::Set(Tag<std::uint32_t>(), 0xffff0000u));
    return hn::BitCast(Tag<std::uint8_t>(), hn::Or(low, high));
  }
};

// The processor's conversions: widening is exact, narrowing rounds to nearest even.
struct Float16Lanes {
  using Storage = std::uint16_t;
  using Acc = float;
  using Pack = Two<Floats>;
  static constexpr int kUnroll = 2;
  static constexpr int kGroup = 4;

  static HWY_INLINE Pack load(const std::uint8_t* from) {
    const hn::Rebind<hwy::float16_t, Tag<float>> halves;
    const auto* at = reinterpret_cast<const hwy::float16_t*>(from);
    return {hn::PromoteTo(Tag<float>(), hn::LoadU(halves, at)),
            hn::PromoteTo(Tag<float>(), hn::LoadU(halves, at + HWY_LANES(float)))};
  }
  static HWY_INLINE Bytes pack(Pack acc) {
    const hn::Rebind<hwy::float16_t, Tag<float>> halves;
    const hn::Rebind<std::uint16_t, Tag<float>> bits;
    const auto low = hn::BitCast(bits, hn::DemoteTo(halves, acc.a));
    const auto high = hn::BitCast(bits, hn::DemoteTo(halves, acc.b));
    return hn::BitCast(Tag<std::uint8_t>(), hn::Combine(Tag<std::uint16_t>(), high, low));
  }
};

// Each 16-bit lane holds two elements. A float8 in the upper byte of a lane is almost a float16:
// e5m2 is one; e4m3 has one exponent bit fewer, so the value is 256 times too small. So the
// processor's float16 conversions do the work, subnormals included. narrow() rounds once before
// they convert, so they round nothing.
template <class Format>
struct Float8Lanes {
  using Storage = std::uint8_t;
  using Acc = float;
  using Pack = Four<Floats>;
  static constexpr int kUnroll = 1;
  static constexpr int kGroup = 2;
  static constexpr bool kIsHalf = Format::kBias == number::Float16::kBias;  // e5m2
  using Pairs = Vector<std::uint16_t>;

  static HWY_INLINE Pairs pair(unsigned value) {
    return hn::Set(Tag<std::uint16_t>(), static_cast<std::uint16_t>(value));
  }
  static HWY_INLINE Words word(std::uint32_t value) { return hn::Set(Tag<std::uint32_t>(), value); }

  // The float16 bits of the elements in the upper bytes; the lower bytes are zero.
  static HWY_INLINE Pairs as_halves(Pairs upper) {
    if constexpr (kIsHalf) return upper;
    const auto magnitude = hn::And(hn::ShiftRight<1>(upper), pair(0x3f80));
    const auto nan_bit = hn::And(hn::Add(magnitude, pair(0x0080)), pair(0x4000));
    const auto sign = hn::And(upper, pair(0x8000));
    return hn::Or(hn::Or(magnitude, sign), nan_bit);  // only NaN's 0x3f80 carries into bit 14
  }
  static HWY_INLINE Floats scaled(Floats value, float factor) {
    if constexpr (kIsHalf) return value;
    return hn::Mul(value, hn::Set(Tag<float>(), factor));
  }
  static HWY_INLINE Two<Floats> widen(Pairs upper) {
    const Tag<float> floats;
    const hn::Rebind<std::uint16_t, Tag<float>> half_of_them;
    const hn::Rebind<hwy::float16_t, Tag<float>> halves;
    const auto bits = as_halves(upper);
    const auto low = hn::LowerHalf(half_of_them, bits);
    const auto high = hn::UpperHalf(half_of_them, bits);
    return {scaled(hn::PromoteTo(floats, hn::BitCast(halves, low)), 256.0f),
            scaled(hn::PromoteTo(floats, hn::BitCast(halves, high)), 256.0f)};
  }

  // The lesser of both; NaN if `magnitude` is that.
  static HWY_INLINE Floats limited_to(Floats largest, Floats magnitude) {
#if HWY_ARCH_X86
    return hn::Min(largest, magnitude);  // gives the right operand if that is NaN
#else
    return hn::IfThenElse(hn::Lt(largest, magnitude), largest, magnitude);
#endif
  }
  // The value of the format nearest to `value`, as a float that converts to float16 exactly.
  static HWY_INLINE Floats nearest(Floats value) {
    const Tag<float> floats;
    const Tag<std::int32_t> ints;
    const Tag<std::uint32_t> words;
    constexpr auto kLargest = number::as_bits(Format::widen(Format::kLargest));
    const auto bits = hn::BitCast(words, value);
    const auto magnitude = hn::Abs(value);
    auto limited = hn::BitCast(words, limited_to(hn::BitCast(floats, word(kLargest)), magnitude));
    if constexpr (kIsHalf) {  // infinity stays too
      const auto as_ints = hn::BitCast(ints, magnitude);
      const auto is_special = hn::Gt(as_ints, hn::Set(ints, 0x7f7fffff));
      limited =
          hn::IfThenElse(hn::RebindMask(words, is_special), hn::BitCast(words, magnitude), limited);
    }
    // One unit in the last place of `magic` is one step of the format at this magnitude.
    const auto exponent =
        hn::Max(hn::And(limited, word(0x7f800000u)), word(Format::kSmallestNormal));
    const auto magic = hn::BitCast(
        floats, hn::Add(exponent, word(static_cast<std::uint32_t>(Format::kShift) << 23)));
    const auto rounded = hn::Sub(hn::Add(hn::BitCast(floats, limited), magic), magic);
    const auto sign = hn::And(bits, word(0x80000000u));
    return scaled(hn::BitCast(floats, hn::Or(hn::BitCast(words, rounded), sign)), 1.0f / 256);
  }
  // The elements in the upper bytes of 16-bit lanes; the lower bytes are zero.
  static HWY_INLINE Pairs narrow(Floats low, Floats high) {
    const hn::Rebind<hwy::float16_t, Tag<float>> halves;
    const hn::Rebind<std::uint16_t, Tag<float>> half_of_them;
    const auto l = hn::BitCast(half_of_them, hn::DemoteTo(halves, nearest(low)));
    const auto h = hn::BitCast(half_of_them, hn::DemoteTo(halves, nearest(high)));
    const auto bits = hn::Combine(Tag<std::uint16_t>(), h, l);
    if constexpr (kIsHalf) return hn::And(bits, pair(0xff00));
    const auto magnitude = hn::Min(hn::And(bits, pair(0x7fff)), pair(0x3f80));  // the code of NaN
    return hn::Or(hn::Add(magnitude, magnitude), hn::And(bits, pair(0x8000)));
  }

  static HWY_INLINE Pack load(const std::uint8_t* from) {
    const Pairs all = hn::BitCast(Tag<std::uint16_t>(), hn::LoadU(Tag<std::uint8_t>(), from));
    const auto even = widen(hn::ShiftLeft<8>(all));
    const auto odd = widen(hn::And(all, pair(0xff00)));
    return {even.a, even.b, odd.a, odd.b};
  }
  static HWY_INLINE Bytes pack(Pack acc) {
    const Pairs even = hn::ShiftRight<8>(narrow(acc.a, acc.b));
    return hn::BitCast(Tag<std::uint8_t>(), hn::Or(even, narrow(acc.c, acc.d)));
  }
};
using Float8e4m3Lanes = Float8Lanes<number::Float8e4m3>;
using Float8e5m2Lanes = Float8Lanes<number::Float8e5m2>;

template <DataType type>
struct LanesOfType : std::type_identity<PlainLanes<typename Element<type>::Storage>> {};
template <>
struct LanesOfType<DataType::kFloat16> : std::type_identity<Float16Lanes> {};
template <>
struct LanesOfType<DataType::kBfloat16> : std::type_identity<Bfloat16Lanes> {};
template <>
struct LanesOfType<DataType::kFloat8e4m3> : std::type_identity<Float8e4m3Lanes> {};
template <>
struct LanesOfType<DataType::kFloat8e5m2> : std::type_identity<Float8e5m2Lanes> {};
template <DataType type>
using LanesOf = typename LanesOfType<type>::type;

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
