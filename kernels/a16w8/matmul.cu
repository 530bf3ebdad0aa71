// Y[b,M,N] = X[b,M,K] W[b,N,K]^T (+ bias[b,N]) on sm90: W in e4m3, without NaN, with a scale per 128 x 128 elements, X and Y in
// 16 bits.
//
// A tile is 128 rows of W by COLUMNS, 128 or 256, rows of X, a stage 64 columns of both. One thread copies stages ahead of the
// others through TMA, which fills in zeros beyond the matrices. Two groups of four warps multiply 64 rows of W each by all of
// X, on the matrix units (wgmma). W is the operand in registers: it is decoded there, in two sets by turns, while the product
// of the stage before runs, and the groups need not wait for each other. Y goes through shared memory, where it is transposed.
//
// Blocks take the tiles of one b after another.
//
// Compiled with COLUMNS, STAGES and FP16 (1: fp16, 0: bf16). N is a multiple of 8, K of 16. W is scaled before it is multiplied,
// in the type of X: by scales over the tile's factor, a power of two that they do not exceed. Sums are multiplied by it.

constexpr int ROWS = 128, W_BYTES = ROWS * 64, X_BYTES = COLUMNS * 128, STAGE = W_BYTES + X_BYTES;
constexpr int Y_AT = STAGES * STAGE, HALF_OF_Y = COLUMNS * 128, BARRIERS = Y_AT + 2 * HALF_OF_Y;

// Scales over factors, from 0 to 1, use the range of the type: 448, the largest e4m3, times 2^7 is an fp16, and `decoded` takes
// 2^120 away from a bf16.
constexpr float SPREAD = FP16 ? 0x1p7f : 0x1p120f, GATHER = FP16 ? 0x1p-7f : 1.f;

extern __shared__ __align__(1024) char memory[];

// Two e4m3 times a scale over its factor, spread.
__device__ __forceinline__ u32 decoded(u32 two, u32 scale) {
#if FP16
  return multiply_pairs(e4m3_pair(two), scale);
#else
  // The bits of an e4m3, read as those of a bf16, are 2^-120 times its value.
  const u32 apart = permute(two, 0, 0x1404);
  return multiply_pairs(apart & 0x80008000u | apart >> 4 & 0x07f007f0u, scale);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_a16w8(const __grid_constant__ TensorMap w_map, const __grid_constant__ TensorMap x_map, const float* scales,
                 const float* factors, const u16* bias, u16* y, int B, int M, int N, int K) {
  const int thread = threadIdx.x, lane = thread % 32, warp = of_warp(thread / 32);
  const int m_tiles = (M + COLUMNS - 1) / COLUMNS, n_tiles = (N + ROWS - 1) / ROWS, groups = (K + 127) / 128;
  const int all = B * m_tiles * n_tiles;
  const u32 stages = shared_address(memory), full = stages + BARRIERS, empty = full + 8 * STAGES;
  int slot = 0;
  u32 parity = 0;

  if (thread == WORKERS) init_stages(full, empty, 1);
  __syncthreads();

  if (warp >= WORKERS / 32) {
    give_up_registers<40>();
    if (thread == WORKERS)
      for (int i = blockIdx.x; i < all; i += gridDim.x) {
        const Tile tile = tile_at(i % (m_tiles * n_tiles), m_tiles, n_tiles);
        const int b = i / (m_tiles * n_tiles);
        for (int step = 0; step < 2 * groups; ++step) {
          const u32 to = stages + slot * STAGE, ready = full + 8 * slot;
          barrier_wait(empty + 8 * slot, parity ^ 1);
          barrier_expect(ready, STAGE);
          copy_box(to, &x_map, step * 64, tile.m * COLUMNS, b, ready);
          copy_box(to + X_BYTES, &w_map, step * 64, tile.n * ROWS, b, ready);
          if (++slot == STAGES) slot = 0, parity ^= 1;
        }
      }
    return;
  }

  // Lane 4 g + t of a warp holds rows g and g + 8 of its 16 rows of W, here `row` and `row` + 8, of each 16 columns 2 t, 2 t + 1,
  // and 8 more. Rows have 64 bytes, of which TMA has permuted 16-byte pieces by the pair of rows' number modulo 4.
  take_registers<232>();
  const int g = lane / 4, t = lane % 4, half = warp / 4, row = warp * 16 + g;
  char* const own_y = memory + Y_AT + half * HALF_OF_Y;
  u32 w[2][4][4] = {};
  for (int i = blockIdx.x; i < all; i += gridDim.x) {
    const Tile tile = tile_at(i % (m_tiles * n_tiles), m_tiles, n_tiles);
    const int b = i / (m_tiles * n_tiles);
    const long long row_of_tiles = (long long)b * n_tiles + tile.n;
    const float* scale_at = scales + row_of_tiles * groups;
    const float factor = __ldg(factors + row_of_tiles), reciprocal = 1 / factor;
    float sums[COLUMNS / 8][4];
    int before = slot;
    float next_scale = __ldg(scale_at);
    for (int k = 0; k < groups; ++k) {
      const u32 scale = rounded_pair(next_scale * reciprocal * SPREAD);
      next_scale = __ldg(scale_at + (k + 1 < groups ? k + 1 : k));
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        barrier_wait(full + 8 * slot, parity);
        const char* at = memory + slot * STAGE + X_BYTES + row * 64 + 2 * t;
#pragma unroll
        for (int piece = 0; piece < 4; ++piece)
#pragma unroll
          for (int r = 0; r < 4; ++r)
            w[j][piece][r] = decoded(*(const u16*)(at + r % 2 * 512 + (piece ^ g / 2) * 16 + r / 2 * 8), scale);
        multiply_stage(sums, w[j], stages + slot * STAGE, k + j > 0);
        multiplied<1>(w[1 - j]);  // the product of the stage before
        __syncwarp();  // all lanes have read it
        if (k + j > 0 && lane == 0) barrier_arrive(empty + 8 * before);
        before = slot;
        if (++slot == STAGES) slot = 0, parity ^= 1;
      }
    }
    multiplied<0>(sums);
    multiplied<0>(w[1]);
    __syncwarp();
    if (lane == 0) barrier_arrive(empty + 8 * before);

    // Lane 4 g + t has rows g and g + 8 of W, and of X rows 8 n + 2 t and the next.
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int own = warp % 4 * 16 + g + j / 2 * 8, out = tile.n * ROWS + half * 64 + own;
      const float added = bias && out < N ? widened(bias[(long long)b * N + out]) : 0.f;
      const int m = 2 * t + j % 2;
      char* const at = own_y + m * 128 + (own / 8 ^ m) * 16 + own % 8 * 2;
#pragma unroll
      for (int n = 0; n < COLUMNS / 8; ++n) *(u16*)(at + n * 1024) = rounded(sums[n][j] * (factor * GATHER) + added);
    }
    meet_half(half);
    for (int at = thread % 128; at < COLUMNS * 8; at += 128) {
      const int m = at / 8, to_m = tile.m * COLUMNS + m, to_n = tile.n * ROWS + half * 64 + at % 8 * 8;
      if (to_m < M && to_n < N)
        *(uint4*)(y + ((long long)b * M + to_m) * N + to_n) = *(const uint4*)(own_y + m * 128 + (at % 8 ^ m % 8) * 16);
    }
    meet_half(half);
  }
}
