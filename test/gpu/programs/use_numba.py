import math

from steps import mapped, step


def load():
    global cuda, np
    import numpy as np

    if not hasattr(np, "row_stack"):  # which Numba 0.68 asks for, and NumPy 2.5 has no more
        np.row_stack = np.vstack
    from numba import cuda


def device():
    cuda.to_device(np.ones(4))


def run(body):
    x = cuda.to_device(np.ones(64))
    body[1, 64](x)
    x.copy_to_host()


def kernel():
    @cuda.jit
    def twice(x):
        x[cuda.threadIdx.x] *= 2

    run(twice)


def mathematics():
    @cuda.jit
    def sine(x):
        x[cuda.threadIdx.x] = math.sin(x[cuda.threadIdx.x])

    run(sine)


def atomic():
    @cuda.jit
    def add(x):
        cuda.atomic.add(x, 0, 1)

    run(add)


def reduce():
    cuda.reduce(lambda a, b: a + b)(cuda.to_device(np.ones(64)))


if step("import", load) and step("device", device):
    for f in (kernel, mathematics, atomic, reduce):
        step(f.__name__, f)
mapped()
