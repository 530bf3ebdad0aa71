// Y[M,N] = X[M,K] W[N,K]^T on sm90, both in MX-FP8: e4m3 with a scale 2^(byte - 127) per 32 columns of a row; Y in bf16.
//
// Matrix units (wgmma) multiply 64 rows of A by a few rows of B. Up to 32 rows of X are B, and A is W, so that few rows are
// padding. More are A (X_IS_A), and B is W: then tiles of W can have as many rows as divide it evenly among the blocks.
//
// A stage is 128 columns of A and B, with scales. One warp copies stages ahead of the others: payloads through TMA, the
// scales of W, which are in the order of stages, as they are, and those of X, where it is B, word by word. The next warp turns
// those of B into fp32. Four warps multiply all columns, or (SPLIT 2) four a half and four the other, 32 at a time: such a
// product takes one scale per row of A and of B, with which it is added up in fp32, while the next one is computed. Nothing
// is decoded.
//
// All stages of all tiles of W, `work`, are divided among the blocks. Launches of one call share parts: one at a time.
//
// Compiled with X_IS_A (0, 1), STAGES, SPLIT (1, 2), TILES (of 8 rows of B), RESIDENT (blocks that an SM holds) and
// FP16=0. A tile has 64 rows of W, or with X_IS_A 8 TILES: ROWS. `w_scales` are bytes [tiles][steps][ROWS][4], `x_scales`
// [M][steps][4]. K is a multiple of 128. `parts` has TILES * 512 elements per block, `turns` a word.
//
// Products of two scales must be in the range of fp32, 2^-149 to 2^127. The byte 255, NaN, becomes infinity.

constexpr int WARPS = 4 * SPLIT, WORKERS = WARPS * 32, THREADS = WORKERS + 64, A_ROWS = 64, B_ROWS = TILES * 8;
constexpr int ROWS = X_IS_A ? B_ROWS : A_ROWS;  // of W in a tile
constexpr int VALUES = TILES * 4, BLOCKS = 4 / SPLIT, PAIR = TILES % 2 ? 1 : 2;
constexpr int B_AT = A_ROWS * 128, B_SCALES = B_AT + B_ROWS * 128, B_FLOATS = B_SCALES + B_ROWS * 4;
constexpr int A_SCALES = B_FLOATS + B_ROWS * 16, USED = A_SCALES + (X_IS_A ? 0 : A_ROWS * 4);
constexpr int W_AT = X_IS_A ? B_AT : 0, X_AT = X_IS_A ? 0 : B_AT, W_SCALES = X_IS_A ? B_SCALES : A_SCALES;
constexpr int STAGE = (USED + 1023) / 1024 * 1024;  // what TMA permutes in
constexpr int BARRIERS = STAGES * STAGE, SUMS = BARRIERS + 24 * STAGES;

extern __shared__ __align__(1024) char memory[];

// 2^(byte - 127) for byte `k` of a word.
__device__ __forceinline__ float scale_of(u32 word, int k) {
  return __uint_as_float(largest(permute(word, 0, 0x4440 | k) << 23, 1u << 22));
}

struct alignas(PAIR * 8) Scales {
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
  if (warp == WARPS) {
    if (lane == 0) {
      for (int i = 0; i < STAGES; ++i) {
        barrier_init(full + 8 * i, 2);
        barrier_init(empty + 8 * i, WARPS);
        barrier_init(bytes + 8 * i, X_IS_A ? 1 : 32);
      }
      barriers_ready();
    }
    __syncwarp();
    arrive<STARTED, THREADS>();
    const u64 policy = read_once();
    for (int tile = last_tile; tile >= first_tile; --tile)
      for (int step = begin_of(tile); step < end_of(tile); ++step) {
        const u32 to = stages + slot * STAGE, payloads = full + 8 * slot, scales = bytes + 8 * slot;
        barrier_wait(empty + 8 * slot, parity ^ 1);
        if (lane == 0) {
          barrier_expect(payloads, ROWS * (X_IS_A ? 128 : 132) + M * 128);
          if (X_IS_A) barrier_expect(scales, ROWS * 4);
          copy_box(to + W_AT, &w_map, step * 128, tile * ROWS, payloads, policy);
          copy_box(to + X_AT, &x_map, step * 128, 0, payloads);
          copy_bytes(to + W_SCALES, w_scales + ((long long)tile * steps + step) * (ROWS * 4), ROWS * 4,
                     X_IS_A ? scales : payloads, policy);
        }
        if (!X_IS_A) {
          if (lane < M) copy_word(to + B_SCALES + lane * 4, x_scales + ((long long)lane * steps + step) * 4);
          arrive_when_copied(scales);
        }
        if (++slot == STAGES) slot = 0, parity ^= 1;
        __syncwarp();  // no lane may fall behind by a phase of the barriers
      }
    all_copied();
    return;
  }

  meet<STARTED, THREADS>();
  if (warp > WARPS) {
    for (int at = first; at < last; ++at) {
      char* stage = memory + slot * STAGE;
      barrier_wait(bytes + 8 * slot, parity);
#pragma unroll
      for (int b = lane; b < B_ROWS; b += 32) {
        if (!X_IS_A && b >= M) break;
        const u32 word = *(const u32*)(stage + B_SCALES + b * 4);
        // Those of a lane, two tiles together, next to those of the other lanes that load them at a time.
        float* to = (float*)(stage + B_FLOATS) + ((b / 8 / PAIR * 4 + b % 8 / 2) * PAIR + b / 8 % PAIR) * 2 + b % 2;
#pragma unroll
        for (int k = 0; k < 4; ++k) to[k * B_ROWS] = scale_of(word, k);
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(full + 8 * slot);
      if (++slot == STAGES) slot = 0, parity ^= 1;
    }
    return;
  }

  // Lane 4 g + t of a warp holds sums of rows g and g + 8 of its 16 rows of A, here `row` and `row` + 8, and of rows 2 t and
  // 2 t + 1 of each tile of B; with SPLIT 2 those of half of the columns of each stage.
  const int t = lane % 4, part_of_k = warp / 4, row = warp % 4 * 16 + lane / 4;
  const u64 first_a = rows_of_128_bytes(stages + part_of_k * 32 * BLOCKS);
  // Larger parts, which no block has left yet, are too many bytes to read from memory.
  if (TILES <= 2 && begin_of(first_tile) && end_of(first_tile) == steps)
    prefetch_parts<VALUES * 128, WORKERS>(parts, work.block_of(first_tile * steps), thread);
  for (int tile = last_tile; tile >= first_tile; --tile) {
    float sums[TILES][4] = {};
    const int begin = begin_of(tile), end = end_of(tile);
    // Of X as A, a lane has the scales of one of four steps, and of one of the four after them.
    auto words = [=](int step) {
      auto word = [=](int m) { return __ldg((const u32*)x_scales + min(m, M - 1) * steps + min(step + t, steps - 1)); };
      return make_uint2(word(row), word(row + 8));
    };
    uint2 next = X_IS_A ? words(begin) : make_uint2(0, 0);
    for (int from = begin, step = begin; from < end; from += 4) {
      const uint2 four = next;
      if (X_IS_A) next = words(from + 4);
      for (; step < min(from + 4, end); ++step) {
        const char* stage = memory + slot * STAGE;
        const u64 a = further(first_a, slot * STAGE), b = further(a, B_AT);
        barrier_wait(full + 8 * slot, parity);
        auto of_a = [=](u32 word, int r) {
          return X_IS_A ? __shfl_sync(0xffffffffu, word, lane / 4 * 4 + step - from) : *(const u32*)(stage + A_SCALES + r * 4);
        };
        const u32 above = of_a(four.x, row), below = of_a(four.y, row + 8);
        float products[2][TILES][4];
        Scales b_scales[2][TILES / PAIR];
        // Scales are loaded before the product begins: after it, loads wait until it has read its operands.
        auto multiply = [&](int k) {
          const Scales* at = (const Scales*)(stage + B_FLOATS) + (part_of_k * BLOCKS + k) * (B_ROWS / 2 / PAIR) + t;
#pragma unroll
          for (int n = 0; n < TILES / PAIR; ++n) b_scales[k % 2][n] = at[n * 4];
          multiply_block(products[k % 2], further(a, 32 * k), further(b, 32 * k));
        };
        multiply(0);
#pragma unroll
        for (int k = 0; k < BLOCKS; ++k) {
          if (k + 1 < BLOCKS) multiply(k + 1);
          const float upper = scale_of(above, part_of_k * BLOCKS + k), lower = scale_of(below, part_of_k * BLOCKS + k);
          auto scale = [&](int i) {
            return b_scales[k % 2][i / 4 / PAIR].of[i / 4 % PAIR * 2 + i % 2] * (i % 4 < 2 ? upper : lower);
          };
          if (k + 1 < BLOCKS)
            multiplied<1>(products[k % 2]);
          else
            multiplied<0>(products[k % 2]);
#pragma unroll
          for (int i = 0; i < VALUES; ++i) sums[i / 4][i % 4] += products[k % 2][i / 4][i % 4] * scale(i);
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + 8 * slot);
        if (++slot == STAGES) slot = 0, parity ^= 1;
      }
    }

    if (SPLIT == 2) {
      float* other = (float*)(memory + SUMS) + thread % 128;
      meet<WORKING, WORKERS>();
      if (part_of_k)
#pragma unroll
        for (int i = 0; i < VALUES; ++i) other[i * 128] = sums[i / 4][i % 4];
      meet<WORKING, WORKERS>();
      if (part_of_k) continue;
#pragma unroll
      for (int i = 0; i < VALUES; ++i) sums[i / 4][i % 4] += other[i * 128];
    }
    auto part = [=](int block, int n) { return (float4*)parts + (block * TILES + n) * 128 + thread; };
    if (end_of(tile) < steps) {
#pragma unroll
      for (int n = 0; n < TILES; ++n) leave(part(blockIdx.x, n), sums[n], turn);
      continue;
    }
    if (begin_of(tile)) take_all(sums, work.block_of(tile * steps), part, turn);
#pragma unroll
    for (int i = 0; i < VALUES; ++i) {
      const int of_a = row + i % 4 / 2 * 8, of_b = i / 4 * 8 + 2 * t + i % 2;
      const int m = X_IS_A ? of_a : of_b, n = tile * ROWS + (X_IS_A ? of_b : of_a);
      if (m < M && n < N) y[(long long)m * N + n] = rounded(sums[i / 4][i % 4]);
    }
  }
  if (thread == 0) turns[blockIdx.x] = turn ^ 1;
}
