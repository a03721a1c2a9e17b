// A CUDA program that says what of a GPU it may use. TestOnDriver compiles it with nvcc and runs it as the clients of soft slices.
//
//   client memory           takes memory until there is no more:        "total MIB" and "took MIB"
//   client size                                                         "multiprocessors N"
//   client compute SECONDS  computes on all multiprocessors that it has: "multiprocessors N" and "rate BLOCKS_PER_SECOND"
//   client copy SECONDS     copies from one part of the memory to another: "rate GIB_PER_SECOND", read and written
//   client hold             has a context until its standard input ends: "holds"
//   client fault            reads where nothing is:                      "error NAME"
//
// It ends with 1 and "error NAME" if CUDA refuses anything else.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <chrono>
#include <cuda_runtime.h>

static void check(cudaError_t e) {
  if (e == cudaSuccess) return;
  printf("error %s\n", cudaGetErrorName(e));
  fflush(stdout);
  exit(1);
}

// Each block does the same work, so blocks per second tell how many multiprocessors work on them.
__global__ void work(float *out, int rounds) {
  float a = threadIdx.x, b = 1.0001f;
  for (int i = 0; i < rounds; i++) a = a * b + 0.5f;
  if (a == 12345.0f) out[0] = a;
}

// A kernel, and not cudaMemcpy: it runs on the multiprocessors that the process has.
__global__ void move(const float4 *from, float4 *to, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) to[i] = from[i];
}

__global__ void fault(int *where) { *where = 1; }

static void memory() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  printf("total %zu\n", total >> 20);
  size_t took = 0;
  const size_t piece = 64u << 20;
  for (void *p; cudaMalloc(&p, piece) == cudaSuccess; took += piece) check(cudaMemset(p, 1, piece));
  printf("took %zu\n", took >> 20);
}

static void size() {
  int n = 0;
  check(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0));
  printf("multiprocessors %d\n", n);
}

static void compute(double seconds) {
  size();
  float *out;
  check(cudaMalloc(&out, 4));
  const int blocks = 132 * 16 * 4;
  work<<<blocks, 256>>>(out, 20000);
  check(cudaDeviceSynchronize());
  auto began = std::chrono::steady_clock::now();
  double took = 0;
  long launches = 0;
  while (took < seconds) {
    work<<<blocks, 256>>>(out, 20000);
    check(cudaDeviceSynchronize());
    launches++;
    took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }
  printf("rate %.0f\n", launches * blocks / took);
}

static void copy(double seconds) {
  const size_t bytes = 1u << 29;  // more than the caches hold
  const int times = 16;
  char *from, *to;
  check(cudaMalloc(&from, bytes));
  check(cudaMalloc(&to, bytes));
  check(cudaMemset(from, 1, bytes));
  check(cudaDeviceSynchronize());
  auto began = std::chrono::steady_clock::now();
  double took = 0;
  long copies = 0;
  while (took < seconds) {
    for (int i = 0; i < times; i++) move<<<132 * 8, 256>>>((const float4 *)from, (float4 *)to, bytes / sizeof(float4));
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
    copies += times;
    took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }
  printf("rate %.1f\n", 2.0 * copies * bytes / took / (1u << 30));
}

int main(int n, char **arguments) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  check(cudaFree(nullptr));  // the context
  if (n == 2 && !strcmp(arguments[1], "memory")) {
    memory();
  } else if (n == 2 && !strcmp(arguments[1], "size")) {
    size();
  } else if (n == 3 && !strcmp(arguments[1], "compute")) {
    compute(atof(arguments[2]));
  } else if (n == 3 && !strcmp(arguments[1], "copy")) {
    copy(atof(arguments[2]));
  } else if (n == 2 && !strcmp(arguments[1], "hold")) {
    puts("holds");
    while (getchar() != EOF) continue;
  } else if (n == 2 && !strcmp(arguments[1], "fault")) {
    fault<<<1, 1>>>(nullptr);
    check(cudaDeviceSynchronize());
  } else {
    fprintf(stderr, "client memory | size | compute SECONDS | copy SECONDS | hold | fault\n");
    return 2;
  }
  return 0;
}
