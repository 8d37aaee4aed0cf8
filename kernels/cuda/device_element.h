// SPDX-License-Identifier: Apache-2.0
// DeviceElement: reduce.h's Element with the conversions that a device has in hardware.
//
// Guarantees: the bits of number.h, except for the sign and payload of a NaN, which are unspecified
// there too. In hardware: float16 and bfloat16 on all devices; the 8-bit floats from sm_89 on
// (float8e5m2 is widened as the upper byte of a float16 on all). Otherwise, and on an emulated GPU:
// number.h. Cost: one or two instructions instead of about ten; half of that in a vector, where one
// instruction converts two elements.
#pragma once

#include "kernels/cuda/elements.h"
#include "kernels/reduce.h"

namespace rondo::cuda {

template <DataType type>
struct DeviceElement : Element<type> {};

#ifdef __CUDA_ARCH__

__device__ __forceinline__ float widen_half(std::uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

template <>
struct DeviceElement<DataType::kFloat16> : Element<DataType::kFloat16> {
  static __device__ __forceinline__ float to_acc(std::uint16_t bits) { return widen_half(bits); }
  static __device__ __forceinline__ std::uint16_t from_acc(float value) {
    std::uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
  static __device__ __forceinline__ std::uint32_t pair_from(float first, float second) {
    std::uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
  }
};

template <>
struct DeviceElement<DataType::kBfloat16> : Element<DataType::kBfloat16> {
  static __device__ __forceinline__ std::uint16_t from_acc(float value) {
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
  static __device__ __forceinline__ std::uint32_t pair_from(float first, float second) {
    std::uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
  }
};

template <>
struct DeviceElement<DataType::kFloat8e5m2> : Element<DataType::kFloat8e5m2> {
  static __device__ __forceinline__ float to_acc(std::uint8_t bits) {
    return widen_half(static_cast<std::uint16_t>(bits << 8));
  }
#if __CUDA_ARCH__ >= 890
  static __device__ __forceinline__ std::uint8_t from_acc(float value) {
    return static_cast<std::uint8_t>(pair_from(value, 0.0f));
  }
  static __device__ __forceinline__ std::uint32_t pair_from(float first, float second) {
    std::uint16_t bits;  // the instruction turns infinity into the max; here it stays
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(second), "f"(first));
    return bits + (is_infinite(first) ? 1u : 0u) + (is_infinite(second) ? 0x100u : 0u);
  }

 private:
  static __device__ __forceinline__ bool is_infinite(float value) {
    return (number::as_bits(value) & 0x7fffffffu) == 0x7f800000u;
  }
#endif
};

#if __CUDA_ARCH__ >= 890
template <>
struct DeviceElement<DataType::kFloat8e4m3> : Element<DataType::kFloat8e4m3> {
  static __device__ __forceinline__ float to_acc(std::uint8_t bits) {
    return widen_half(static_cast<std::uint16_t>(halves_of(bits)));
  }
  // Of two elements, as float16. The compiler converts once for both.
  static __device__ __forceinline__ std::uint32_t halves_of(std::uint16_t pair) {
    std::uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
    return halves;
  }
  static __device__ __forceinline__ std::uint8_t from_acc(float value) {
    return static_cast<std::uint8_t>(pair_from(value, 0.0f));
  }
  static __device__ __forceinline__ std::uint32_t pair_from(float first, float second) {
    std::uint16_t bits;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(second), "f"(first));
    return bits;
  }
};
#endif

#endif

// Whether elements of vectors are converted in pairs.
template <DataType type>
inline constexpr bool kConvertsPairs = is_float(type) && size_of(type) <= 2;

// Element `index` of a vector.
template <DataType type>
RONDO_FN inline auto acc_at(const device::Vector& vector, int index) {
  using E = DeviceElement<type>;
#ifdef __CUDA_ARCH__
  if constexpr (requires { E::halves_of(0); }) {
    const std::uint32_t pair = vector.word[index / 4] >> (index % 4 / 2 * 16);
    const std::uint32_t halves = E::halves_of(static_cast<std::uint16_t>(pair));
    return widen_half(static_cast<std::uint16_t>(halves >> (index % 2 * 16)));
  }
#endif
  return E::to_acc(get_element<typename E::Storage>(vector, index));
}

// Elements `index` (even) and the next one; both must be zero before.
template <DataType type>
RONDO_FN inline void put_pair(device::Vector& vector, int index, typename Element<type>::Acc first,
                              typename Element<type>::Acc second) {
  using E = DeviceElement<type>;
  using T = typename E::Storage;
#ifdef __CUDA_ARCH__
  if constexpr (requires { E::pair_from(first, second); }) {
    constexpr int kPerWord = 4 / sizeof(T);
    vector.word[index / kPerWord] |= E::pair_from(first, second)
                                     << (index % kPerWord * 8 * sizeof(T));
    return;
  }
#endif
  put_element<T>(vector, index, E::from_acc(first));
  put_element<T>(vector, index + 1, E::from_acc(second));
}

// reduce.h's scaled() with these conversions.
template <DataType type>
RONDO_FN inline auto scaled_on_device(typename Element<type>::Storage value,
                                      typename Element<type>::Storage scalar) {
  using E = DeviceElement<type>;
  return E::from_acc(Reduction<RedOp::kProd>::combine(E::to_acc(value), E::to_acc(scalar)));
}

}  // namespace rondo::cuda
