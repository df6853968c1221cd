from steps import mapped, step


def load():
    global jax, jnp
    import jax
    import jax.numpy as jnp


def device():
    found = jax.devices()[0].platform
    if found != "gpu":
        raise RuntimeError("jax.devices() has no GPU: " + found)


def add():
    (jnp.ones(64) + 1).sum().item()


def matmul():
    a = jnp.ones((256, 256))
    (a @ a).sum().item()


def conv():
    jax.lax.conv(jnp.ones((8, 64, 56, 56)), jnp.ones((64, 64, 3, 3)), (1, 1), "SAME").sum().item()


def conv_small():
    jax.lax.conv(jnp.ones((2, 3, 32, 32)), jnp.ones((8, 3, 3, 3)), (1, 1), "SAME").sum().item()


def conv_backward():
    x = jnp.ones((8, 64, 56, 56))
    jax.grad(lambda w: jax.lax.conv(x, w, (1, 1), "SAME").sum())(jnp.ones((64, 64, 3, 3))).sum().item()


def svd():
    jnp.linalg.svd(jnp.eye(32))[1].sum().item()


def cholesky():
    jnp.linalg.cholesky(jnp.eye(256)).sum().item()


def fft():
    jnp.abs(jnp.fft.fft(jnp.ones(64))).sum().item()


def sparse():
    from jax.experimental import sparse as s

    (s.CSR.fromdense(jnp.eye(32)) @ jnp.ones((32, 32))).sum().item()


def random():
    jax.random.normal(jax.random.key(0), (64,)).sum().item()


if step("import", load) and step("device", device):
    for f in (add, matmul, conv, conv_small, conv_backward, svd, cholesky, fft, sparse, random):
        step(f.__name__, f)
mapped()
