// A kernel, launched once. It prints "runs" if the kernel wrote its number, else the number
// and the text of CUDA's error.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void write(int *out) { *out = 42; }

int main() {
  int *out = nullptr, got = 0;
  cudaError_t e = cudaMalloc(&out, sizeof *out);
  if (e == cudaSuccess) {
    write<<<1, 1>>>(out);
    e = cudaGetLastError();
  }
  if (e == cudaSuccess) e = cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) {
    std::printf("%d %s\n", int(e), cudaGetErrorString(e));
    return 1;
  }
  std::printf(got == 42 ? "runs\n" : "wrong\n");
  return got != 42;
}
