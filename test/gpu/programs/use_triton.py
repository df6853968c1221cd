from steps import mapped, step


def load():
    global tl, torch, triton, twice
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def twice(x, y, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def kernel():
    x = torch.ones(64, device="cuda")
    y = torch.empty_like(x)
    twice[(1,)](x, y, 64, BLOCK=64)
    y.sum().item()


def compile():
    torch.compile(lambda x: x.sin() + 1)(torch.ones(64, device="cuda")).sum().item()


if step("import", load):
    for f in (kernel, compile):
        step(f.__name__, f)
mapped()
