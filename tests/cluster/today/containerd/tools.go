// SPDX-License-Identifier: Apache-2.0

//go:build tools

// The programs of containerd, which are built by their own names; this file only keeps them in go.mod.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
