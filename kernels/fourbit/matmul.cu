// Y[M,N] = X[M,K] W[N,K]^T (+ bias) on sm90: W in 4 bits, a scale per GROUP columns, X and Y in 16 bits.
//
// A stage is ROWS rows of W times 256 columns, that is 128 bytes of each row, their scales, and the same columns of X.
// One thread copies stages ahead of the others through TMA. Each other warp multiplies WARP_ROWS rows by a quarter of
// the columns. X is the B operand of mma.m16n8k16, so that M = 1 costs what M = 8 does. W is decoded by a table of 256
// pairs, one for each byte, which every bank of shared memory has a copy of: a warp reads 32 entries at a time without
// conflicts. Rows of the table begin every 256 bytes, so that one permutation of bytes makes an address; the other half
// of each row holds what the quarters add up to.
//
// Scales are multiplied by the decoded elements in 16 bits (SCALED_PAIRS), or by the product of each group in fp32. That
// is more exact, but takes up to TILES / 2 times as many instructions, and registers.
//
// All stages of all tiles of ROWS columns of Y, `work`, are divided among the blocks. Launches of one call share parts: one at
// a time.
//
// Compiled with ROWS (32, 64, 128), WARP_ROWS (multiple of 16, below ROWS), STAGES, TILES (of 8 rows of X), GROUP (16
// with E4M3, or from 32), FP16 (1: fp16, 0: bf16), SCALE, ZERO (1: a zero point per group) and SCALED_PAIRS (1 with E4M3).
// `s_tiles` are scales in the order of stages, [tiles][steps], a step per GROUP columns where GROUP exceeds 256. Each has
// the second-level scale of every row (NESTED only, fp32 [ROWS]), scales [ROWS][SCALES], and zero points (u8
// [ROWS][SCALES], in both nibbles). Nested scales are one of 256 `scale_values`, times that of their row, plus `offset`.
// `parts` has TILES * 8 * ROWS elements per block, `turns` a word.

enum { FP32, IN_16_BITS, E8M0, E4M3, NESTED };  // of SCALE

constexpr int WARPS = ROWS / WARP_ROWS * 4, WORKERS = WARPS * 32;
// Registers can be given up and taken by four warps together: the copying thread has four for itself.
constexpr int THREADS = WORKERS + 128, COPIER_REGISTERS = 40, REGISTERS = 65536 / THREADS / 8 * 8;
constexpr int WORKER_REGISTERS = (REGISTERS * THREADS - COPIER_REGISTERS * 128) / WORKERS / 8 * 8;
constexpr int BLOCKS = WARP_ROWS / 16, COLUMNS = TILES * 8;
constexpr int SCALES = GROUP < 256 ? 256 / GROUP : 1, STEPS_PER_SCALE = GROUP > 256 ? GROUP / 256 : 1;
constexpr int SCALE_BYTES = SCALE == FP32 ? 4 : SCALE == IN_16_BITS ? 2 : 1, OUTER_BYTES = SCALE == NESTED ? 4 * ROWS : 0;
constexpr int W_BYTES = ROWS * 128, X_BYTES = COLUMNS * 512;
constexpr int S_BYTES = OUTER_BYTES + ROWS * SCALES * (SCALE_BYTES + ZERO);
// A quarter of a stage is multiplied in one, or half by half: where halves have scales of their own, and where X takes
// too many registers.
constexpr int HALVES = GROUP == 32 || TILES > 4 ? 2 : 1;
constexpr int USED = W_BYTES + X_BYTES + S_BYTES, STAGE = (USED + 1023) / 1024 * 1024;  // what TMA permutes in
constexpr int TABLE = 256 * 256, BARRIERS = TABLE + STAGES * STAGE;
// Tiles of 8 columns that are added up at once: as many as fit in the free half of the table.
constexpr int AT_ONCE = TILES < 256 / ROWS ? TILES : 256 / ROWS;

struct Codes {
  u32 of[16];  // in 16 bits
};

extern __shared__ __align__(1024) char memory[];

__device__ __forceinline__ float* sum_at(int tile, int quarter, int row, int column) {
  const int i = ((tile * 4 + quarter) * ROWS + row) * 8 + column;
  return (float*)(memory + i / 32 * 256 + 128 + i % 32 * 4);
}

__device__ __forceinline__ u32 pair(u32 word, int byte, u32 bank) { return look_up(permute(word, bank, 0x5504 | byte << 4)); }

// A scale as it is stored; `outer` is that of its row where scales are nested, whose 256 values are `values`.
__device__ __forceinline__ float scale_at(const char* at, const float* outer, const float* values, float offset) {
  if (SCALE == FP32) return *(const float*)at;
  if (SCALE == IN_16_BITS) return widened(*(const u16*)at);
  const u32 byte = *(const u8*)at;
  return SCALE == E8M0 ? __uint_as_float(byte ? byte << 23 : 1u << 22) : __ldg(values + byte) * *outer + offset;
}

// An e4m3 whose sign is 0, in both halves, times 2^-120 (bf16) or 2^-8 (fp16), for which the table makes up. Products with
// an e2m1 are exact.
__device__ __forceinline__ u32 e4m3_pair(const char* at) { return *(const u8*)at * (FP16 ? 0x00800080u : 0x00100010u); }

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_4bit(const __grid_constant__ TensorMap w_map, const __grid_constant__ TensorMap x_map, const char* s_tiles,
                const __grid_constant__ Codes codes, const u16* bias, u16* y, float* parts, u32* turns, int M, int N,
                const __grid_constant__ Work work, float factor, const float* scale_values, float offset) {
  const int thread = threadIdx.x, lane = thread % 32, warp = of_warp(thread / 32);
  const int steps = work.steps, first = work.first_of(blockIdx.x), last = work.first_of(blockIdx.x + 1);
  auto begin_of = [=](int tile) { return first > tile * steps ? first - tile * steps : 0; };
  auto end_of = [=](int tile) { return last < (tile + 1) * steps ? last - tile * steps : steps; };
  int tile = work.tile_of(last - 1), step = begin_of(tile);
  const u32 stages = shared_address(memory + TABLE), full = shared_address(memory + BARRIERS), empty = full + 8 * STAGES;
  if (shared_address(memory) != MEMORY) __trap();
  int slot = 0;
  u32 parity = 0;

  if (warp >= WARPS) {
    give_up_registers<COPIER_REGISTERS>();
    if (warp == WARPS + 1 && lane == 0) prefetch_map(&w_map), prefetch_map(&x_map);
    if (warp == WARPS + 2 && begin_of(work.tile_of(first)) && end_of(work.tile_of(first)) == steps)
      prefetch_parts<COLUMNS * ROWS, 32>(parts, work.block_of(work.tile_of(first) * steps), lane);
    if (warp > WARPS) return;
    if (lane == 0) {
      for (int i = 0; i < STAGES; ++i) {
        barrier_init(full + 8 * i, 1);
        barrier_init(empty + 8 * i, WARPS);
      }
      barriers_ready();
    }
    __syncwarp();
    arrive<STARTED, WORKERS + 32>();
    const u64 policy = read_once();
    const int scale_steps = steps / STEPS_PER_SCALE;  // K is a multiple of GROUP
#pragma unroll 1
    for (int left = last - first; left; --left) {
      const u32 to = stages + slot * STAGE, ready = full + 8 * slot;
      barrier_wait(empty + 8 * slot, parity ^ 1);
      if (lane == 0) {
        const char* scales = s_tiles + ((long long)tile * scale_steps + step / STEPS_PER_SCALE) * S_BYTES;
        barrier_expect(ready, W_BYTES + M * 512 + S_BYTES);
        copy_box(to, &w_map, step * 128, tile * ROWS, ready, policy);
        copy_bytes(to + W_BYTES + X_BYTES, scales, S_BYTES, ready, policy);
        copy_box(to + W_BYTES, &x_map, 0, 0, step * 4, ready);
      }
      if (++step == end_of(tile)) --tile, step = begin_of(tile);
      if (++slot == STAGES) slot = 0, parity ^= 1;
      __syncwarp();  // no lane may fall behind by a phase of the barriers
    }
    return;
  }

  take_registers<WORKER_REGISTERS>();
  const u32 turn = turns[blockIdx.x];
  for (int i = thread; i < 256 * 8; i += WORKERS) {
    const u32 value = codes.of[i / 128] | codes.of[i / 8 % 16] << 16;
    *(uint4*)(memory + (i / 8) * 256 + (i % 8) * 16) = make_uint4(value, value, value, value);
  }
  meet<STARTED, WORKERS + 32>();

  // Lane 4 g + t holds rows g and g + 8 of A, here `row` and `row` + 8, and column g of B, here row `x_row` of X: 16 of the
  // quarter's columns, next to each other, or 8 in each half. Lanes that read together read rows that TMA has permuted
  // differently: 16-byte pieces of each row, by an exclusive or with the row's number modulo 8.
  const int g = lane / 4, t = lane % 4, quarter = warp % 4, swizzle = (g % 4) * 2 + g / 4;
  const int row = warp / 4 * WARP_ROWS + swizzle, x_row = HALVES == 1 ? g : g / 2 + g % 2 * 4;
  const int w_piece = 2 * quarter + (HALVES == 1 ? t / 2 : 0), x_piece = HALVES == 1 ? 2 * t : t;
  const int at_w = row * 128 + (w_piece ^ swizzle) * 16 + (HALVES == 1 ? 8 * (t % 2) : 4 * t);
  const int x_line = quarter * M + x_row, at_x = x_line * 128 + (x_piece ^ x_line % 8) * 16;
  const bool loads_x = TILES > 1 || x_row < M;  // columns of B without a row of X may have anything
  const int group = row * SCALES + quarter * SCALES / 4 + (GROUP == 16 ? t / HALVES : 0);
  const char* at_outer = memory + TABLE + W_BYTES + X_BYTES + row * 4;
  const char* at_s = memory + TABLE + W_BYTES + X_BYTES + OUTER_BYTES + group * SCALE_BYTES;
  const char* at_zero = memory + TABLE + W_BYTES + X_BYTES + OUTER_BYTES + ROWS * SCALES * SCALE_BYTES + group;
  const u32 bank = lane * 4;

  for (; tile >= work.tile_of(first); --tile) {
    const int end = end_of(tile);
    float sums[BLOCKS][TILES][4] = {};
    for (int step = begin_of(tile); step < end; ++step) {
      barrier_wait(full + 8 * slot, parity);
      const int stage = slot * STAGE;
#pragma unroll
      for (int half = 0; half < HALVES; ++half) {
        u32 x[TILES][8 / HALVES] = {};
#pragma unroll
        for (int n = 0; n < TILES; ++n) {
          const char* from = memory + TABLE + W_BYTES + stage + n * 1024;
#pragma unroll
          for (int j = 0; j < 2 / HALVES; ++j)
            if (loads_x) *(uint4*)&x[n][4 * j] = *(const uint4*)(from + (at_x ^ (half * 64 + j * 16)));
        }
#pragma unroll
        for (int i = 0; i < BLOCKS; ++i) {
          auto words = [&](int from) {
            const char* at = memory + TABLE + stage + from + (at_w ^ half * 16);
            return HALVES == 1 ? *(const uint2*)at : make_uint2(*(const u32*)at, 0);
          };
          const uint2 upper = words(i * 2048), lower = words(i * 2048 + 1024);
          const int above_group = i * 16 * SCALES + half * SCALES / 8, below_group = above_group + 8 * SCALES;
          auto scale = [&](int further, int rows) {
            const float* outer = (const float*)(at_outer + stage + rows * 4);
            return scale_at(at_s + stage + further * SCALE_BYTES, outer, scale_values, offset);
          };
          auto zero_pair = [&](int further) { return ZERO ? pair(*(const u8*)(at_zero + stage + further), 0, bank) : 0; };
          auto scale_pair = [&](int further, int rows) {
            if (SCALE == E4M3) return e4m3_pair(at_s + stage + further);
            return SCALED_PAIRS ? rounded_pair(scale(further, rows)) : 0;
          };
          const u32 above_zero = zero_pair(above_group), below_zero = zero_pair(below_group);
          const u32 above_scale = scale_pair(above_group, i * 16), below_scale = scale_pair(below_group, i * 16 + 8);
          auto decoded = [&](u32 word, int byte, u32 zero, u32 scale) {
            u32 value = pair(word, byte, bank);
            if (ZERO) value = subtract_pairs(value, zero);
            return SCALED_PAIRS ? multiply_pairs(value, scale) : value;
          };
          float product[TILES][4] = {};
          auto& into = SCALED_PAIRS ? sums[i] : product;
#pragma unroll
          for (int p = 0; p < 4 / HALVES; ++p) {  // which columns mma takes for which is free
            const u32 above = p < 2 ? upper.x : upper.y, below = p < 2 ? lower.x : lower.y;
            const int byte = p % 2 * 2;
            const u32 a[4] = {decoded(above, byte, above_zero, above_scale),
                              decoded(below, byte, below_zero, below_scale),
                              decoded(above, byte + 1, above_zero, above_scale),
                              decoded(below, byte + 1, below_zero, below_scale)};
#pragma unroll
            for (int n = 0; n < TILES; ++n) multiply(into[n], a, x[n][2 * p], x[n][2 * p + 1], into[n]);
          }
          if (SCALED_PAIRS) continue;
          const float upper_scale = scale(above_group, i * 16), lower_scale = scale(below_group, i * 16 + 8);
#pragma unroll
          for (int n = 0; n < TILES; ++n) {
            sums[i][n][0] += product[n][0] * upper_scale;
            sums[i][n][1] += product[n][1] * upper_scale;
            sums[i][n][2] += product[n][2] * lower_scale;
            sums[i][n][3] += product[n][3] * lower_scale;
          }
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + 8 * slot);
      if (++slot == STAGES) slot = 0, parity ^= 1;
    }

    const bool ends = end == steps, again = last > (tile + 1) * steps;  // after another tile
    const int from = ends && begin_of(tile) ? work.block_of(tile * steps) : blockIdx.x;  // the first with a part of this tile
#pragma unroll
    for (int n = 0; n < TILES; n += AT_ONCE) {
      constexpr int EACH = (AT_ONCE * ROWS * 2 + WORKERS - 1) / WORKERS;
      const int count_of = (TILES - n < AT_ONCE ? TILES - n : AT_ONCE) * ROWS * 2;
      if (n || again) meet<WORKING, WORKERS>();
#pragma unroll
      for (int i = 0; i < AT_ONCE * BLOCKS && n + i / BLOCKS < TILES; ++i) {
        const float(&from)[4] = sums[i % BLOCKS][n + i / BLOCKS];
        *(float2*)sum_at(i / BLOCKS, quarter, row + i % BLOCKS * 16, 2 * t) = make_float2(from[0], from[1]);
        *(float2*)sum_at(i / BLOCKS, quarter, row + i % BLOCKS * 16 + 8, 2 * t) = make_float2(from[2], from[3]);
      }
      // Each thread adds up 4 columns of a row: lanes read what is next to each other.
      auto part = [=](int block, int i) {
        return (float4*)parts + (u32)block * (COLUMNS * ROWS / 4) + n * ROWS * 2 + i;
      };
      auto x_row = [=](int i, int j) {
        return (n + i / (2 * ROWS)) * 8 + (HALVES == 1 ? i % 2 * 4 + j : i % 2 * 2 + j / 2 + j % 2 * 4);
      };
      float value[EACH][4] = {};
      take_all(value, from, [=](int block, int k) {
        const int i = thread + k * WORKERS;
        return i < count_of && x_row(i, 0) < M ? part(block, i) : nullptr;
      }, turn);
      meet<WORKING, WORKERS>();
#pragma unroll
      for (int i = thread, k = 0; k < EACH; i += WORKERS, ++k) {
        const int r = i / 2 % ROWS, out = tile * ROWS + r;
        if (i >= count_of || x_row(i, 0) >= M) continue;
#pragma unroll
        for (int j = 0; j < 4; ++j) add(value[k], *(const float4*)sum_at(i / (2 * ROWS), j, r, i % 2 * 4));
        if (!ends) leave(part(blockIdx.x, i), value[k], turn);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (ends && out < N && x_row(i, j) < M)
            y[(long long)x_row(i, j) * N + out] = rounded(value[k][j] * factor + (bias ? widened(bias[out]) : 0.f));
      }
    }
  }
  if (thread == 0) turns[blockIdx.x] = turn ^ 1;
}
