from steps import mapped, step


def load():
    global torch
    import torch


def device():
    torch.zeros(1).cuda()


def matmul():
    a = torch.randn(64, 64, device="cuda")
    (a @ a).sum().item()


def linear():
    torch.nn.Linear(64, 64).cuda().half()(torch.randn(64, 64, device="cuda").half()).sum().item()


def conv():
    torch.nn.functional.conv2d(torch.randn(2, 3, 32, 32, device="cuda"), torch.randn(8, 3, 3, 3, device="cuda")).sum().item()


def lstm():
    torch.nn.LSTM(16, 16).cuda()(torch.randn(4, 2, 16, device="cuda"))[0].sum().item()


def attention():
    q = torch.randn(1, 4, 64, 64, device="cuda", dtype=torch.half)
    torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().item()


def svd():
    torch.linalg.svd(torch.randn(32, 32, device="cuda"))[1].sum().item()


def fft():
    torch.fft.fft(torch.randn(64, device="cuda")).abs().sum().item()


def sparse():
    a = torch.eye(32, device="cuda").to_sparse_csr()
    (a @ torch.randn(32, 32, device="cuda")).sum().item()


def random():
    torch.randn(64, device="cuda").exponential_().sum().item()


def jiterator():
    f = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return x + x; }")
    f(torch.randn(64, device="cuda")).sum().item()


def nccl():
    import torch.distributed as dist

    dist.init_process_group("nccl", init_method="file:///tmp/imgcheck-nccl", rank=0, world_size=1)
    t = torch.ones(4, device="cuda")
    dist.all_reduce(t)
    t.sum().item()
    dist.destroy_process_group()


def vision():
    import torchvision

    torchvision.ops.nms(torch.tensor([[0.0, 0.0, 1.0, 1.0]], device="cuda"), torch.ones(1, device="cuda"), 0.5).sum().item()


def audio():
    import torchaudio  # noqa: F401


if step("import", load) and step("device", device):
    for f in (matmul, linear, conv, lstm, attention, svd, fft, sparse, random, jiterator, nccl, vision, audio):
        step(f.__name__, f)
mapped()
