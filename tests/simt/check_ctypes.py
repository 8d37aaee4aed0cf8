# SPDX-License-Identifier: Apache-2.0
"""ctypes on the emulated libcudart.so.13 (first argument): allocate, copy, fill, read back."""
import ctypes
import sys

runtime = ctypes.CDLL(sys.argv[1])
devices = ctypes.c_int()
assert runtime.cudaGetDeviceCount(ctypes.byref(devices)) == 0
assert devices.value == 8, devices.value

data = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(data), ctypes.c_size_t(16)) == 0
assert runtime.cudaMemset(data, 5, ctypes.c_size_t(16)) == 0
host = ctypes.create_string_buffer(b"abcdefgh", 16)
assert runtime.cudaMemcpy(data, host, ctypes.c_size_t(8), 1) == 0
assert runtime.cudaMemcpy(host, data, ctypes.c_size_t(16), 2) == 0
assert host.raw == b"abcdefgh" + b"\5" * 8, host.raw
assert runtime.cudaFree(data) == 0
assert runtime.cudaDeviceSynchronize() == 0
