# SPDX-License-Identifier: Apache-2.0
"""rondo.library under the name that the modules of this folder use."""

from rondo.library import *  # noqa: F403
