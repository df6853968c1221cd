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


def conv_half():
    jax.lax.conv(jnp.ones((8, 64, 56, 56), jnp.bfloat16), jnp.ones((64, 64, 3, 3), jnp.bfloat16), (1, 1), "SAME").sum().item()


def conv1d():
    jax.lax.conv(jnp.ones((2, 80, 3000)), jnp.ones((384, 80, 3)), (1,), "SAME").sum().item()


def matmul_half():
    a = jnp.ones((256, 256), jnp.bfloat16)
    (a @ a).sum().item()


def attention():
    q = jnp.ones((1, 128, 4, 64), jnp.bfloat16)
    jax.nn.dot_product_attention(q, q, q, implementation="cudnn").sum().item()


def lstm():
    from jax.experimental import rnn

    w = rnn.init_lstm_weight(jax.random.key(0), 16, 16, 1, False)
    zero = jnp.zeros((1, 2, 16))
    lengths = jnp.full((2,), 4, jnp.int32)
    rnn.lstm(jnp.ones((2, 4, 16)), zero, zero, w, lengths, 16, 16, 1, 0.0, False)[0].sum().item()


def eigh():
    jnp.linalg.eigh(jnp.eye(64))[0].sum().item()


def fft_plane():
    jnp.abs(jnp.fft.rfft2(jnp.ones((1009, 330)))).sum().item()


def random():
    jax.random.normal(jax.random.key(0), (64,)).sum().item()


if step("import", load) and step("device", device):
    for f in (add, matmul, conv, conv_small, conv_backward, svd, cholesky, fft, sparse, random, conv_half, conv1d, matmul_half, attention, lstm, eigh, fft_plane):
        step(f.__name__, f)
mapped()
