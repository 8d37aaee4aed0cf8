// OK(call): it returns ncclSuccess, or the function that says so ends; EXPECT_OK(call) goes on.
#pragma once

#include <gtest/gtest.h>

#include "api/nccl.h"

#define OK(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
#define EXPECT_OK(call) EXPECT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
