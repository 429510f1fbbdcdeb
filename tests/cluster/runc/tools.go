// SPDX-License-Identifier: Apache-2.0

//go:build tools

// The program of runc, which is built by its own name; this file only keeps it in go.mod.
package runc

import (
	_ "github.com/opencontainers/runc"
)
