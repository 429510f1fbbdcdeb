# SPDX-License-Identifier: Apache-2.0
"""JAX and XLA."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from rows import Absent, rate_of, row, serve  # noqa: E402

if os.environ.get("EVERYTHING_DEVICE") != "cpu" and jax.default_backend() != "gpu":
    raise SystemExit("JAX finds no GPU")


def numbers(*shape):
    n = 1
    for side in shape:
        n *= side
    return ((jnp.arange(n) * 7919 % 1000).astype(jnp.float32) / 1000).reshape(shape)


def brief(x):
    return f"{float(jnp.sum(x)):.5g}"


@row
def jax_matmul(seconds):
    a = numbers(4096, 4096).astype(jnp.bfloat16)
    f = jax.jit(lambda x: x @ x)
    return brief(f(a).astype(jnp.float32)), rate_of(lambda: f(a).block_until_ready(), seconds)


@row
def jax_conv(seconds):
    x, w = numbers(8, 32, 64, 64), numbers(32, 32, 3, 3)
    f = jax.jit(lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"))
    return brief(f(x, w)), rate_of(lambda: f(x, w).block_until_ready(), seconds)


@row
def jax_linalg(seconds):
    a = numbers(256, 256) + 300 * jnp.eye(256)
    return f"{bool(jnp.allclose(a @ jnp.linalg.solve(a, a), a, atol=1e-1))} {bool(jnp.isfinite(jnp.linalg.svd(a)[1]).all())}"


@row
def jax_fft(seconds):
    x = numbers(256, 1024)
    f = jax.jit(lambda x: jnp.abs(jnp.fft.fft2(x)).mean())
    return f"{float(f(x)):.4g}", rate_of(lambda: f(x).block_until_ready(), seconds)


@row
def jax_grad(seconds):
    w = numbers(256, 256)
    f = jax.jit(jax.grad(lambda w: jnp.tanh(w @ w / 100).sum()))
    return brief(f(w)), rate_of(lambda: f(w).block_until_ready(), seconds)


@row
def jax_scan(seconds):
    f = jax.jit(lambda x: jax.lax.scan(lambda c, _: (c * 0.5 + 1, c.sum()), x, None, length=100)[0])
    return brief(f(numbers(1024)))


@row
def jax_random(seconds):
    return f"{float(jax.random.normal(jax.random.key(3), (1 << 20,)).sum()):.4g}"


@row
def jax_pallas(seconds):
    from jax.experimental import pallas as pl
    if jax.default_backend() != "gpu":
        raise Absent("pallas on a GPU")

    def kernel(x, out):
        out[...] = x[...] * 2
    x = numbers(1024)
    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    return brief(f(x))


if __name__ == "__main__":
    serve()
