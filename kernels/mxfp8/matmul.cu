// Y[M,N] = X[M,K] W[N,K]^T on sm90, both in MX-FP8: e4m3 with a scale 2^(byte - 127) per 32 columns of a row; Y in bf16.
//
// A stage is 128 columns of ROWS rows of W and of all rows of X, with their scales. One warp copies stages ahead of the
// others: payloads through TMA, the scales of W, which are in the order of stages, as they are, and those of X word by
// word; the next warp turns these into fp32. Four warps multiply 64 rows of W by X, on the FP8 matrix units (wgmma), 32
// columns at a time: such a product takes one scale per row of W and of X, with which it is added up in fp32, while the
// next one is computed. Nothing is decoded.
//
// All stages of all tiles of ROWS rows of W, `work`, are divided among the blocks. Launches of one call share parts: one at a
// time.
//
// Compiled with ROWS (64, 128), STAGES, SPLIT (1, 2), TILES (of 8 rows of X: 1, 2, 4, 8), RESIDENT (blocks that an SM holds)
// and FP16=0. `w_scales` are bytes [tiles][steps][ROWS][4]. K is a multiple of 128. `parts` has TILES * 8 * ROWS elements
// per block, `turns` a word.
//
// Products of two scales must be in the range of fp32, 2^-149 to 2^127. The byte 255, NaN, becomes infinity.

constexpr int WARPS = ROWS / 16 * SPLIT, WORKERS = WARPS * 32, THREADS = WORKERS + 64, COLUMNS = TILES * 8;
constexpr int VALUES = TILES * 4, SUM_WORKERS = WORKERS / SPLIT, BLOCKS = 4 / SPLIT, PAIR = TILES > 1 ? 2 : 1;
constexpr int X_AT = ROWS * 128, WS_AT = X_AT + COLUMNS * 128, BYTES_AT = WS_AT + ROWS * 4;
constexpr int XS_AT = BYTES_AT + COLUMNS * 4, USED = XS_AT + COLUMNS * 16;
constexpr int STAGE = (USED + 1023) / 1024 * 1024;  // what TMA permutes in
constexpr int BARRIERS = STAGES * STAGE, SUMS = BARRIERS + 24 * STAGES;

extern __shared__ __align__(1024) char memory[];

// 2^(byte - 127) for byte `k` of a word.
__device__ __forceinline__ float scale_of(u32 word, int k) {
  const u32 exponent = permute(word, 0, 0x4440 | k) << 23;
  return __uint_as_float(exponent ? exponent : 1u << 22);
}

struct alignas(PAIR * 8) XScales {
  float of[PAIR * 2];
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    matmul_mx(const __grid_constant__ TensorMap w_map, const __grid_constant__ TensorMap x_map, const char* w_scales,
              const char* x_scales, u16* y, float* parts, u32* turns, int M, int N, const __grid_constant__ Work work) {
  const int thread = threadIdx.x, lane = thread % 32, warp = of_warp(thread / 32);
  const int steps = work.steps, first = work.first_of(blockIdx.x), last = work.first_of(blockIdx.x + 1);
  const u32 stages = shared_address(memory), full = stages + BARRIERS, empty = full + 8 * STAGES, bytes = empty + 8 * STAGES;
  const int first_tile = work.tile_of(first), last_tile = work.tile_of(last - 1);
  auto begin_of = [=](int tile) { return first > tile * steps ? first - tile * steps : 0; };
  auto end_of = [=](int tile) { return last < (tile + 1) * steps ? last - tile * steps : steps; };
  const u32 turn = turns[blockIdx.x];
  int slot = 0;
  u32 parity = 0;

  if (thread == 0) prefetch_map(&w_map), prefetch_map(&x_map);
  if (thread == WORKERS) {
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(full + 8 * i, 2);
      barrier_init(empty + 8 * i, WARPS);
      barrier_init(bytes + 8 * i, 32);
    }
    barriers_ready();
  }
  __syncthreads();

  if (warp == WARPS) {
    const u64 policy = read_once();
    for (int tile = last_tile; tile >= first_tile; --tile)
      for (int step = begin_of(tile); step < end_of(tile); ++step) {
        const u32 to = stages + slot * STAGE, ready = full + 8 * slot;
        barrier_wait(empty + 8 * slot, parity ^ 1);
        if (lane == 0) {
          barrier_expect(ready, ROWS * 132 + M * 128);
          copy_box(to, &w_map, step * 128, tile * ROWS, ready, policy);
          copy_box(to + X_AT, &x_map, step * 128, 0, ready);
          copy_bytes(to + WS_AT, w_scales + ((long long)tile * steps + step) * (ROWS * 4), ROWS * 4, ready, policy);
        }
#pragma unroll
        for (int m = lane; m < COLUMNS; m += 32)
          if (m < M) copy_word(to + BYTES_AT + m * 4, x_scales + ((long long)m * steps + step) * 4);
        arrive_when_copied(bytes + 8 * slot);
        if (++slot == STAGES) slot = 0, parity ^= 1;
        __syncwarp();  // no lane may fall behind by a phase of the barriers
      }
    all_copied();
    return;
  }

  if (warp > WARPS) {
    for (int at = first; at < last; ++at) {
      char* stage = memory + slot * STAGE;
      barrier_wait(bytes + 8 * slot, parity);
#pragma unroll
      for (int m = lane; m < COLUMNS; m += 32) {
        if (m >= M) break;
        const u32 word = *(const u32*)(stage + BYTES_AT + m * 4);
        // Those of a lane, two tiles together, next to those of the other lanes that load them at a time.
        float* to = (float*)(stage + XS_AT) + ((m / 8 / PAIR * 4 + m % 8 / 2) * PAIR + m / 8 % PAIR) * 2 + m % 2;
#pragma unroll
        for (int k = 0; k < 4; ++k) to[k * COLUMNS] = scale_of(word, k);
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(full + 8 * slot);
      if (++slot == STAGES) slot = 0, parity ^= 1;
    }
    return;
  }

  // Lane 4 g + t of a warp holds sums of rows g and g + 8 of its 16 rows of W, here `row` and `row` + 8, and of columns,
  // rows of X, 2 t and 2 t + 1 of each tile; with SPLIT 2 those of half of the columns of each stage.
  const int t = lane % 4, part_of_k = warp / (WARPS / SPLIT), row = warp % (WARPS / SPLIT) * 16 + lane / 4;
  // With more rows, parts that no block has left yet are too many bytes to read from memory.
  if (TILES <= 2 && begin_of(first_tile) && end_of(first_tile) == steps)
    prefetch_parts<COLUMNS * ROWS, WORKERS>(parts, work.block_of(first_tile * steps), thread);
  const int w_at = row / 64 * 8192 + part_of_k * 32 * BLOCKS, x_at = X_AT + part_of_k * 32 * BLOCKS;
  for (int tile = last_tile; tile >= first_tile; --tile) {
    float sums[TILES][4] = {};
    for (int step = begin_of(tile); step < end_of(tile); ++step) {
      barrier_wait(full + 8 * slot, parity);
      const char* stage = memory + slot * STAGE;
      const u32 w = stages + slot * STAGE + w_at, x = stages + slot * STAGE + x_at;
      const u32 above = *(const u32*)(stage + WS_AT + row * 4), below = *(const u32*)(stage + WS_AT + row * 4 + 32);
      float products[2][TILES][4];
      multiply_block(products[0], w, x);
#pragma unroll
      for (int k = 0; k < BLOCKS; ++k) {
        if (k + 1 < BLOCKS) multiply_block(products[(k + 1) % 2], w + 32 * (k + 1), x + 32 * (k + 1));
        const int block = part_of_k * BLOCKS + k;
        const float upper = scale_of(above, block), lower = scale_of(below, block);
        const XScales* x_scales = (const XScales*)(stage + XS_AT) + block * (COLUMNS / 2 / PAIR) + t;
        float scales[TILES][4];
#pragma unroll
        for (int n = 0; n < TILES; n += PAIR) {
          const XScales both = x_scales[n / PAIR * 4];
#pragma unroll
          for (int i = 0; i < PAIR * 4; ++i)
            scales[n + i / 4][i % 4] = both.of[i / 4 * 2 + i % 2] * (i % 4 < 2 ? upper : lower);
        }
        if (k + 1 < BLOCKS)
          multiplied<1>(products[k % 2]);
        else
          multiplied<0>(products[k % 2]);
#pragma unroll
        for (int i = 0; i < VALUES; ++i) sums[i / 4][i % 4] += products[k % 2][i / 4][i % 4] * scales[i / 4][i % 4];
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + 8 * slot);
      if (++slot == STAGES) slot = 0, parity ^= 1;
    }

    if (SPLIT == 2) {
      float* other = (float*)(memory + SUMS) + thread % SUM_WORKERS;
      meet<WORKING, WORKERS>();
      if (part_of_k)
#pragma unroll
        for (int i = 0; i < VALUES; ++i) other[i * SUM_WORKERS] = sums[i / 4][i % 4];
      meet<WORKING, WORKERS>();
      if (!part_of_k)
#pragma unroll
        for (int i = 0; i < VALUES; ++i) sums[i / 4][i % 4] += other[i * SUM_WORKERS];
    }
    auto part_of = [=](int block) { return (float4*)parts + (long long)block * (COLUMNS * ROWS / 4) + thread; };
    if (end_of(tile) < steps) {
      if (!part_of_k)
#pragma unroll
        for (int n = 0; n < TILES; ++n) leave(part_of(blockIdx.x) + n * SUM_WORKERS, sums[n], turn);
      continue;
    }
    if (part_of_k) continue;
    constexpr int TOGETHER = TILES < 4 ? 4 / TILES : 1;
    for (int b = begin_of(tile) ? work.block_of(tile * steps) : blockIdx.x; b < blockIdx.x; b += TOGETHER) {
      float left[TOGETHER * TILES][4] = {};
      take(left, [=](int j) {
        return b + j / TILES < blockIdx.x ? part_of(b + j / TILES) + j % TILES * SUM_WORKERS : nullptr;
      }, turn);
#pragma unroll
      for (int j = 0; j < TOGETHER * VALUES; ++j) sums[j / 4 % TILES][j % 4] += left[j / 4][j % 4];
    }
#pragma unroll
    for (int i = 0; i < VALUES; ++i) {
      const int m = i / 4 * 8 + 2 * t + i % 2, out = tile * ROWS + row + i % 4 / 2 * 8;
      if (m < M && out < N) y[(long long)m * N + out] = rounded(sums[i / 4][i % 4]);
    }
  }
  if (thread == 0) turns[blockIdx.x] = turn ^ 1;
}
