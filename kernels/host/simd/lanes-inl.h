// How the elements of a type sit in vectors: load() turns one vector of storage into one, two or
// four vectors of accumulators, pack() rounds them back. Compiled once per instruction set.
//
// Narrow floats are taken apart without moving anything between lanes: a 32-bit lane that holds two
// bfloat16 becomes two float lanes by a shift and a mask, one that holds four float8 becomes four.
// The order of the accumulators therefore differs from memory; pack() undoes it.
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

#if HWY_TARGET != HWY_SCALAR  // which has the table's own code
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

// kUnroll: vectors of storage per turn of a loop; enough to keep the processor busy, no more, since
// every operation repeats the code. kGroup: how many sources are combined without a loop where
// their number is not known when compiling.

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
// bfloat16 and a NaN made of them has 16 zero bits below, which rounding leaves alone.
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

// The processor's own conversions: exact one way, to nearest even the other.
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

// Each 32-bit lane holds four elements. The steps are those of number.h, without branches.
template <class Format, int mantissa_bits>
struct Float8Lanes {
  using Storage = std::uint8_t;
  using Acc = float;
  using Pack = Four<Floats>;
  static constexpr int kUnroll = 1;
  static constexpr int kGroup = 2;
  static constexpr int kShift = 23 - mantissa_bits;

  static HWY_INLINE Words word(std::uint32_t value) { return hn::Set(Tag<std::uint32_t>(), value); }

  // `top` holds the element in its upper eight bits; what lies below is ignored.
  static HWY_INLINE Floats widen(Words top) {
    const Tag<float> floats;
    const Tag<std::int32_t> ints;
    const Tag<std::uint32_t> words;
    const auto sign = hn::And(top, word(0x80000000u));
    const auto magnitude =
        hn::And(hn::ShiftRight<mantissa_bits + 1>(top), word(Format::kMagnitude << kShift));
    const auto normal = hn::Add(magnitude, word(Format::kRebias));
    // The exponent one up makes the mantissa count from 1.0: take that 1.0 off again.
    const auto one_up = hn::Add(normal, word(1u << 23));
    const auto subnormal = hn::BitCast(
        words,
        hn::Sub(hn::BitCast(floats, one_up), hn::BitCast(floats, word(Format::kSmallestNormal))));
    const auto as_ints = hn::BitCast(ints, magnitude);
    const auto is_subnormal = hn::Lt(as_ints, hn::Set(ints, 1 << 23));
    const auto is_special =
        hn::Gt(as_ints, hn::Set(ints, static_cast<int>((Format::kInfinity << kShift) - 1)));
    const auto special = hn::IfThenElseZero(hn::RebindMask(words, is_special), word(0x7f800000u));
    const auto value = hn::IfThenElse(hn::RebindMask(words, is_subnormal), subnormal, normal);
    return hn::BitCast(floats, hn::Or(hn::Or(value, sign), special));
  }

  static HWY_INLINE Words narrow(Floats value) {
    const Tag<float> floats;
    const Tag<std::int32_t> ints;
    const Tag<std::uint32_t> words;
    const auto bits = hn::BitCast(words, value);
    const auto magnitude = hn::And(bits, word(0x7fffffffu));
    const auto sign = hn::And(hn::ShiftRight<24>(bits), word(0x80));
    const auto last_bit = hn::And(hn::ShiftRight<kShift>(magnitude), word(1));
    const auto half_below = word((1u << (kShift - 1)) - 1 - Format::kRebias);
    const auto normal = hn::ShiftRight<kShift>(hn::Add(hn::Add(magnitude, half_below), last_bit));
    const auto magic = word(Format::kSubnormalMagic);
    const auto subnormal = hn::Sub(
        hn::BitCast(words, hn::Add(hn::BitCast(floats, magnitude), hn::BitCast(floats, magic))),
        magic);
    const auto as_ints = hn::BitCast(ints, magnitude);
    const auto is_small = hn::Lt(as_ints, hn::Set(ints, static_cast<int>(Format::kSmallestNormal)));
    const auto is_nan = hn::Gt(as_ints, hn::Set(ints, 0x7f800000));
    auto result = hn::IfThenElse(hn::RebindMask(words, is_small), subnormal,
                                 hn::Min(normal, word(Format::kLargest)));
    if constexpr (Format::kInfinityBecomes == Format::kInfinity) {
      const auto is_infinity = hn::Eq(as_ints, hn::Set(ints, 0x7f800000));
      result = hn::IfThenElse(hn::RebindMask(words, is_infinity), word(Format::kInfinity), result);
    }
    result = hn::IfThenElse(hn::RebindMask(words, is_nan), word(Format::kNaN), result);
    return hn::Or(result, sign);
  }

  static HWY_INLINE Pack load(const std::uint8_t* from) {
    const Words all = hn::BitCast(Tag<std::uint32_t>(), hn::LoadU(Tag<std::uint8_t>(), from));
    return {widen(hn::ShiftLeft<24>(all)), widen(hn::ShiftLeft<16>(all)),
            widen(hn::ShiftLeft<8>(all)), widen(all)};
  }
  static HWY_INLINE Bytes pack(Pack acc) {
    const Words low = hn::Or(narrow(acc.a), hn::ShiftLeft<8>(narrow(acc.b)));
    const Words high = hn::Or(hn::ShiftLeft<16>(narrow(acc.c)), hn::ShiftLeft<24>(narrow(acc.d)));
    return hn::BitCast(Tag<std::uint8_t>(), hn::Or(low, high));
  }
};
using Float8e4m3Lanes = Float8Lanes<number::Float8e4m3, 3>;
using Float8e5m2Lanes = Float8Lanes<number::Float8e5m2, 2>;

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
