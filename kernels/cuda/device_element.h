// SPDX-License-Identifier: Apache-2.0
// DeviceElement: reduce.h's Element with the conversions that a device has in hardware.
//
// Guarantees: the bits of number.h, except for the sign and payload of a NaN, which are unspecified
// there too. In hardware: float16 and bfloat16 on all devices; the 8-bit floats from sm_89 on
// (float8e5m2 is widened as the upper byte of a float16 on all). Otherwise, and on an emulated GPU:
// number.h. Cost: one or two instructions instead of about ten.
#pragma once

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
};

template <>
struct DeviceElement<DataType::kBfloat16> : Element<DataType::kBfloat16> {
  static __device__ __forceinline__ std::uint16_t from_acc(float value) {
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
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
    std::uint16_t bits;  // the instruction turns infinity into the max; here it stays
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(value));
    const bool infinite = (number::as_bits(value) & 0x7fffffffu) == 0x7f800000u;
    return static_cast<std::uint8_t>(bits + (infinite ? 1 : 0));
  }
#endif
};

#if __CUDA_ARCH__ >= 890
template <>
struct DeviceElement<DataType::kFloat8e4m3> : Element<DataType::kFloat8e4m3> {
  static __device__ __forceinline__ float to_acc(std::uint8_t bits) {
    std::uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<std::uint16_t>(bits)));
    return widen_half(static_cast<std::uint16_t>(halves));
  }
  static __device__ __forceinline__ std::uint8_t from_acc(float value) {
    std::uint16_t bits;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(value));
    return static_cast<std::uint8_t>(bits);
  }
};
#endif

#endif

// reduce.h's scaled() with these conversions.
template <DataType type>
RONDO_FN inline auto scaled_on_device(typename Element<type>::Storage value,
                                      typename Element<type>::Storage scalar) {
  using E = DeviceElement<type>;
  return E::from_acc(Reduction<RedOp::kProd>::combine(E::to_acc(value), E::to_acc(scalar)));
}

}  // namespace rondo::cuda
