// SPDX-License-Identifier: Apache-2.0

//go:build tools

// The program of Kueue, which is built by its own name; this file only keeps it in go.mod.
package kueue

import (
	_ "sigs.k8s.io/kueue/cmd/kueue"
)
