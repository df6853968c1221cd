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


def convolve(channels, size, filters, backward=False, **kind):
    x = torch.randn(8, channels, size, size, device="cuda", requires_grad=backward, **kind)
    w = torch.randn(filters, channels, 3, 3, device="cuda", requires_grad=backward, **kind)
    y = torch.nn.functional.conv2d(x, w, padding=1).sum()
    if backward:
        y.backward()
        y = x.grad.sum()
    y.item()


def conv():
    convolve(64, 56, 64)


def conv_small():
    convolve(3, 32, 8)


def conv_half():
    convolve(64, 56, 64, dtype=torch.half)


def conv_backward():
    convolve(64, 56, 64, backward=True)


def conv_depthwise():
    x = torch.randn(8, 32, 56, 56, device="cuda")
    torch.nn.functional.conv2d(x, torch.randn(32, 1, 3, 3, device="cuda"), groups=32).sum().item()


def conv_strided():
    x = torch.randn(8, 3, 224, 224, device="cuda")
    torch.nn.functional.conv2d(x, torch.randn(64, 3, 7, 7, device="cuda"), torch.randn(64, device="cuda"), stride=2, padding=3).sum().item()


def conv_dilated():
    x = torch.randn(2, 16, 57, 57, device="cuda")
    torch.nn.functional.conv2d(x, torch.randn(17, 16, 5, 5, device="cuda"), dilation=2).sum().item()


def conv_double():
    convolve(16, 32, 16, dtype=torch.double)


def conv_transpose():
    x = torch.randn(2, 16, 28, 28, device="cuda")
    torch.nn.functional.conv_transpose2d(x, torch.randn(16, 8, 4, 4, device="cuda"), stride=2).sum().item()


def conv1d():
    torch.nn.functional.conv1d(torch.randn(2, 80, 3000, device="cuda"), torch.randn(384, 80, 3, device="cuda")).sum().item()


def conv_benchmark():
    torch.backends.cudnn.benchmark = True
    convolve(64, 56, 64)
    torch.backends.cudnn.benchmark = False


def conv_module():
    torch.nn.Conv2d(3, 8, 3).cuda()(torch.randn(1, 3, 32, 32, device="cuda")).sum().item()


def conv3d():
    torch.nn.functional.conv3d(torch.randn(2, 16, 8, 32, 32, device="cuda"), torch.randn(16, 16, 3, 3, 3, device="cuda")).sum().item()


def batchnorm():
    torch.nn.BatchNorm2d(64).cuda()(torch.randn(8, 64, 56, 56, device="cuda")).sum().item()


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


def conv_brain():
    convolve(64, 56, 64, dtype=torch.bfloat16)


def conv_grouped():
    x = torch.randn(8, 32, 56, 56, device="cuda")
    torch.nn.functional.conv2d(x, torch.randn(64, 8, 3, 3, device="cuda"), groups=4).sum().item()


def gru_training():
    net = torch.nn.GRU(16, 16, 2, bidirectional=True).cuda()
    net(torch.randn(4, 2, 16, device="cuda"))[0].sum().backward()
    next(net.parameters()).grad.sum().item()


def ctc():
    p = torch.randn(50, 2, 20, device="cuda").log_softmax(2)
    long = torch.full((2,), 50, dtype=torch.int)
    torch.nn.functional.ctc_loss(p, torch.randint(1, 20, (20,), dtype=torch.int, device="cuda"), long.cuda(), torch.full((2,), 10, dtype=torch.int, device="cuda")).item()


def grid_sample():
    torch.nn.functional.grid_sample(torch.randn(1, 3, 8, 8, device="cuda"), torch.rand(1, 8, 8, 2, device="cuda"), align_corners=True).sum().item()


def matmul_fp8():
    a = torch.randn(64, 64, device="cuda").to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    torch._scaled_mm(a, a.t(), one, one, out_dtype=torch.half).sum().item()


def semi_structured():
    a = torch.tensor([0, 0, 1, 1], device="cuda").half().tile((128, 32))
    (torch.sparse.to_sparse_semi_structured(a) @ torch.rand(128, 128, device="cuda").half()).sum().item()


def eigh():
    a = torch.randn(64, 64, device="cuda")
    torch.linalg.eigh(a @ a.T)[0].sum().item()


def fft_plane():
    torch.fft.rfft2(torch.randn(1009, 330, device="cuda")).real.sum().item()


def audio():
    import torchaudio  # noqa: F401


if step("import", load) and step("device", device):
    for f in (matmul, linear, conv, conv_small, conv_half, conv_backward, conv_depthwise, conv_strided, conv_dilated, conv_double, conv_transpose, conv1d, conv_module, conv3d, batchnorm, lstm, attention, svd, fft, sparse, random, jiterator, nccl, vision, audio, conv_brain, conv_grouped, gru_training, ctc, grid_sample, matmul_fp8, semi_structured, eigh, fft_plane, conv_benchmark):
        step(f.__name__, f)
mapped()
