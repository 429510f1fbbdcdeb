/* SPDX-License-Identifier: Apache-2.0 */
/* Reports to the service manager. */
#pragma once

void notify(const char *state); /* "READY=1"; without NOTIFY_SOCKET nothing happens */
