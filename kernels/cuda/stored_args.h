// SPDX-License-Identifier: Apache-2.0
// How an emulated kernel gets at arguments that lie in device memory: by the accessors, like
// everything else there. Under nvcc they are read in place and nothing of this is needed.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/direct_args.h"

#ifdef RONDO_SIMT
namespace rondo::cuda {

template <class T>
inline void load_field(T* to, const T* from) {
  *to = device::load(from);
}

inline void load_stored(ReduceArgs* to, const ReduceArgs* from) {
  load_field(&to->count[0], &from->count[0]);
  load_field(&to->sources, &from->sources);
  load_field(&to->targets, &from->targets);
  load_field(&to->segments, &from->segments);
  load_field(&to->ranks, &from->ranks);
  load_field(&to->scattered, &from->scattered);
  load_field(&to->op, &from->op);
  load_field(&to->is_signed, &from->is_signed);
  load_field(&to->late_scalars, &from->late_scalars);
  for (int s = 0; s < to->sources; ++s) {
    load_field(&to->input[s], &from->input[s]);
    load_field(&to->scalar[s], &from->scalar[s]);
  }
  for (int t = 0; t < to->targets; ++t) load_field(&to->output[t], &from->output[t]);
}

inline void load_stored(CopyArgs* to, const CopyArgs* from) {
  load_field(&to->items, &from->items);
  load_field(&to->all_targets, &from->all_targets);
  for (int i = 0; i < to->items; ++i) {
    load_field(&to->item[i].from, &from->item[i].from);
    load_field(&to->item[i].bytes, &from->item[i].bytes);
    load_field(&to->item[i].first_target, &from->item[i].first_target);
    load_field(&to->item[i].targets, &from->item[i].targets);
  }
  for (int t = 0; t < to->all_targets; ++t) load_field(&to->target[t], &from->target[t]);
}

}  // namespace rondo::cuda
#endif
