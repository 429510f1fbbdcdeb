#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program under MPS whose control daemon is the caller's own: starts it, runs families, ends it.
set -u
CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
command -v nvidia-cuda-mps-control > /dev/null || exit 77
nvidia-cuda-mps-control -d < /dev/null || exit 1
trap 'echo quit -t 2 | timeout 10 nvidia-cuda-mps-control > /dev/null; rm -rf "$CUDA_MPS_PIPE_DIRECTORY"' EXIT
timeout 40 "$1" alloc 16 64
status=$?
grep -ciE 'error|fail' "$CUDA_MPS_LOG_DIRECTORY/server.log"
exit $status
