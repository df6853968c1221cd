from steps import mapped, step


def load():
    global cupy
    import cupy


def device():
    cupy.zeros(4)


def kernel():
    float((cupy.arange(64, dtype="f") * 2 + 1).sum())


def raw():
    k = cupy.RawKernel('extern "C" __global__ void one(float *x) { x[threadIdx.x] = 1; }', "one")
    x = cupy.zeros(32, dtype="f")
    k((1,), (32,), (x,))
    float(x[0])


def matmul():
    a = cupy.ones((64, 64), dtype="f")
    float((a @ a)[0, 0])


def svd():
    float(cupy.linalg.svd(cupy.eye(32, dtype="f"))[1][0])


def fft():
    complex(cupy.fft.fft(cupy.ones(64, dtype="F"))[0])


def random():
    float(cupy.random.rand(64)[0])


def sparse():
    import cupyx.scipy.sparse as s

    float((s.csr_matrix(cupy.eye(32, dtype="f")) @ cupy.ones((32, 32), dtype="f"))[0, 0])


def sort():
    float(cupy.sort(cupy.ones(64, dtype="f"))[0])


def solve():
    float(cupy.linalg.solve(cupy.eye(32), cupy.ones(32))[0])


def filter():
    import cupyx.scipy.ndimage as n

    float(n.gaussian_filter(cupy.ones((64, 64), dtype="f"), 2)[0, 0])


def jit():
    from cupyx import jit as j

    @j.rawkernel()
    def one(x):
        x[j.threadIdx.x] = 1

    x = cupy.zeros(32, dtype="f")
    one((1,), (32,), (x,))
    float(x[0])


if step("import", load) and step("device", device):
    for f in (kernel, raw, matmul, svd, fft, random, sparse, sort, solve, filter, jit):
        step(f.__name__, f)
mapped()
