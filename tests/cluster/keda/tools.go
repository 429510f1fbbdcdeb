// SPDX-License-Identifier: Apache-2.0

//go:build tools

// The programs of KEDA, which are built by their own names; this file only keeps them in go.mod.
package keda

import (
	_ "github.com/kedacore/keda/v2/cmd/adapter"
	_ "github.com/kedacore/keda/v2/cmd/operator"
)
