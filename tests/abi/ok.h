// SPDX-License-Identifier: Apache-2.0
// OK(call) returns from the function if the call does not return ncclSuccess; EXPECT_OK(call)
// continues.
#pragma once

#include <gtest/gtest.h>

#include "api/nccl.h"

#define OK(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
#define EXPECT_OK(call) EXPECT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
