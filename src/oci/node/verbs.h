/* SPDX-License-Identifier: Apache-2.0 */
/* The verb of this room. */
#pragma once

int node_main(int argc, char **argv);
