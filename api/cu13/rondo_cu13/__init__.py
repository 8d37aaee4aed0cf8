# SPDX-License-Identifier: Apache-2.0
"""Rondo's libnccl.so.2 for CUDA 13, in lib/ beside this file. `rondo preload` names it."""
