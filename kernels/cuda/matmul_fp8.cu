// Y[M,N] = X[M,K] W[N,K]^T in 16 bits on sm90, of operands in FP8: a scale per 128 columns of a row of X, and per 128 x 128
// elements of W, or BY_ROW per 128 columns of a row of W, too. Or GROUPED: rows of X come in groups, each with a matrix W of its
// own; `ends` has the row that each ends at, the last one M.
//
// A tile is 128 rows of X by 256 rows of W, a stage 128 columns of both, which share scales. One thread copies stages ahead of
// the others through TMA, which fills in zeros beyond the matrices; three warps copy their scales, those of four stages at a
// time, as what a multiplying warp loads for later it waits for at once. Two groups of four warps multiply 64 rows of X each by all
// of W, on the matrix units (wgmma), 64 rows of W at a time: while one such product runs, the one before is scaled and added to
// the sums. Y goes through shared memory and TMA, which leaves out what is beyond it; rows at the end of a group are stored by
// the warps, as other rows follow.
//
// BY_ROW a tile is 256 rows of X by 128 rows of W, and each group multiplies all of X, 64 rows at a time, by 64 rows of W: with
// the other shape each lane would load 66 scales per stage, with this one 24, and shared memory is nearly always busy.
// The thread that copies stages copies their scales, too.
//
// Compiled with STAGES, GROUPED and BY_ROW (0 or 1, not both 1), FP16 for Y in fp16, A_E5M2 for X and B_E5M2 for W in e5m2
// instead of e4m3, and TILES = 8. N is a multiple of 8, K of 16.
// The scale of a row, or block of rows, and of a block of columns is at row * line + block * depth of its matrix; matrices W, and
// their scales, follow each other. For bulk copies, both have lines of 1 BY_ROW, depths and M in multiples of 4, and begin at a
// multiple of 16 bytes.

constexpr int ROWS = BY_ROW ? 256 : 128, COLUMNS = BY_ROW ? 128 : 256, DEPTH = 128, PIECES = 4;
constexpr int X_BYTES = ROWS * DEPTH, W_BYTES = COLUMNS * DEPTH, STAGE = X_BYTES + W_BYTES;
constexpr int BOX = 64 * 128, Y_AT = STAGES * STAGE, BARRIERS = Y_AT + 2 * PIECES * BOX, SCALES = BARRIERS + 16 * STAGES,
              COPIERS = 96, W_SCALES = ROWS, STAGE_SCALES = ROWS + COLUMNS / (BY_ROW ? 1 : 128),
              STARTS = SCALES + STAGES * STAGE_SCALES * 4;

static_assert(STAGES > 1, "a stage is released when the next one has come");
static_assert(!(GROUPED && BY_ROW), "scales of rows of W are those of one matrix");

// A tile begins at a row and a column, of W within its matrix; the rows of Y that belong to it are before `end`.
struct Place {
  int row, end, column, matrix;
};

// Where a group begins: its first tile and row. Tiles of one group come after those of another.
struct alignas(8) Start {
  int tile, row;
};

// Writes the starts of all groups, and the end of the last, to shared memory; for one warp.
__device__ __forceinline__ void find_starts(Start* starts, const int* ends, int groups, int n_tiles) {
  const int lane = threadIdx.x % 32;
  int tiles = 0;
  for (int from = 0; from < groups; from += 32) {
    const int group = from + lane;
    const int row = group > 0 && group < groups ? __ldg(ends + group - 1) : 0;
    int sum = group < groups ? (__ldg(ends + group) - row + ROWS - 1) / ROWS * n_tiles : 0;
    const int own = sum;
    for (int by = 1; by < 32; by *= 2) {
      const int before = __shfl_up_sync(0xffffffffu, sum, by);
      if (lane >= by) sum += before;
    }
    if (group < groups) starts[group] = Start{tiles + sum - own, row};
    tiles += __shfl_sync(0xffffffffu, sum, 31);
  }
  if (lane == 0) starts[groups] = Start{tiles, __ldg(ends + groups - 1)};
}

extern __shared__ __align__(1024) char memory[];

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_fp8(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,
               const __grid_constant__ TensorMap y_map, u16* y, const float* x_scales, const float* w_scales, int x_line,
               int x_depth, int w_line, int w_depth, const int* ends, int groups, int M, int N, int K) {
  const int thread = threadIdx.x, lane = thread % 32, warp = of_warp(thread / 32);
  const int m_tiles = (M + ROWS - 1) / ROWS, n_tiles = (N + COLUMNS - 1) / COLUMNS, steps = (K + DEPTH - 1) / DEPTH;
  const u32 stages = shared_address(memory), full = stages + BARRIERS, empty = full + 8 * STAGES;
  int slot = 0;
  u32 parity = 0;

  const Start* const starts = (const Start*)(memory + STARTS);
  if (thread == WORKERS) init_stages(full, empty, BY_ROW ? 1 : 1 + COPIERS);
  if (GROUPED && warp == 0) find_starts((Start*)(memory + STARTS), ends, groups, n_tiles);
  __syncthreads();

  const int all = GROUPED ? of_warp(starts[groups].tile) : m_tiles * n_tiles;
  int half_of_groups = 1;
  while (2 * half_of_groups < groups) half_of_groups *= 2;
  auto place_of = [=](int i) {
    if (!GROUPED) {
      const Tile tile = tile_at(i, m_tiles, n_tiles);
      return Place{tile.m * ROWS, M, tile.n * COLUMNS, 0};
    }
    int group = 0;  // the last one that does not begin after i
    for (int by = half_of_groups; by; by /= 2)
      if (group + by < groups && starts[group + by].tile <= i) group += by;
    const Start start = starts[group], next = starts[group + 1];
    const Tile tile = tile_at(i - start.tile, (next.row - start.row + ROWS - 1) / ROWS, n_tiles);
    return Place{start.row + tile.m * ROWS, next.row, tile.n * COLUMNS, group};
  };

  if (warp >= WORKERS / 32) {
    give_up_registers<40>();
    if (thread == WORKERS)
      for (int i = blockIdx.x; i < all; i += gridDim.x) {
        const Place tile = place_of(i);
        const int x_bytes = 4 * (M - tile.row < ROWS ? M - tile.row : ROWS),
                  w_bytes = 4 * (N - tile.column < COLUMNS ? N - tile.column : COLUMNS);
        for (int step = 0; step < steps; ++step) {
          const u32 to = stages + slot * STAGE, ready = full + 8 * slot;
          barrier_wait(empty + 8 * slot, parity ^ 1);
          barrier_expect(ready, STAGE + (BY_ROW ? x_bytes + w_bytes : 0));
          copy_box(to, &x_map, step * DEPTH, tile.row, ready);
          copy_box(to + X_BYTES, &w_map, step * DEPTH, tile.matrix * N + tile.column, ready);
          if (BY_ROW) {
            const u32 scales = stages + SCALES + slot * STAGE_SCALES * 4;
            copy_bytes(scales, x_scales + (long long)step * x_depth + tile.row, x_bytes, ready);
            copy_bytes(scales + W_SCALES * 4, w_scales + (long long)step * w_depth + tile.column, w_bytes, ready);
          }
          if (++slot == STAGES) slot = 0, parity ^= 1;
        }
      }
    if (!BY_ROW && warp > WORKERS / 32)
      for (int i = blockIdx.x; i < all; i += gridDim.x) {
        const Place tile = place_of(i);
        const int last_block = (N - 1) / 128, own = thread - WORKERS - 32;
        auto line = [=](int j) { return own + j * COPIERS; };  // rows of X, then blocks of rows of W; some have one
        const float* from[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int m = tile.row + line(j), n = tile.column / 128 + line(j) - ROWS;
          from[j] = line(j) < ROWS ? x_scales + (long long)(m < M ? m : M - 1) * x_line
                                   : w_scales + (tile.matrix * (last_block + 1LL) + (n < last_block ? n : last_block)) * w_line;
        }
#pragma unroll 1
        for (int step = 0; step < steps; step += 4) {
          float4 values[2];
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            if (line(j) >= STAGE_SCALES) continue;
            const int depth = line(j) < ROWS ? x_depth : w_depth;
            if (depth == 1 && steps % 4 == 0 && (u64)from[j] % 16 == 0)
              values[j] = __ldg((const float4*)from[j]), from[j] += 4;
            else
#pragma unroll
              for (int k = 0; k < 4; ++k, from[j] += depth)
                if (step + k < steps) (&values[j].x)[k] = __ldg(from[j]);
          }
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            if (step + k == steps) break;
            barrier_wait(empty + 8 * slot, parity ^ 1);
            float* const to = (float*)(memory + SCALES) + slot * STAGE_SCALES;
#pragma unroll
            for (int j = 0; j < 2; ++j)
              if (line(j) < STAGE_SCALES) to[line(j)] = (&values[j].x)[k];
            barrier_arrive(full + 8 * slot);
            if (++slot == STAGES) slot = 0, parity ^= 1;
          }
        }
      }
    return;
  }

  // Of a product, lane 4 g + t of a warp has rows g and g + 8 of the warp's 16, `row` and `row` + 8 of 64, and of every 8 columns
  // 2 t and 2 t + 1.
  take_registers<232>();
  const int g = lane / 4, t = lane % 4, half = warp / 4, row = warp % 4 * 16 + g;
  auto x_part = [=](int piece) { return 64 * (BY_ROW ? piece : half); };
  auto w_part = [=](int piece) { return 64 * (BY_ROW ? half : piece); };
  const bool stores = thread % 128 == 0;
  char* const own_y = memory + Y_AT + half * PIECES * BOX;

  float part[2][8][4] = {}, sums[PIECES][8][4];
  for (int i = blockIdx.x; i < all; i += gridDim.x) {
    Place tile;
    float first = 0, second = 0;  // what scales the product before, here its rows: nothing at first
    float2 column_scales[8];      // and its columns
    int before = slot;
#pragma unroll
    for (int at = 0; at < 128; ++at) sums[at / 32][at / 4 % 8][at % 4] = 0;
#pragma unroll
    for (int at = 0; at < 32; ++at) part[1][at / 4][at % 4] = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) column_scales[n] = make_float2(1, 1);
    auto promote = [&](const float (&done)[8][4], int piece) {
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sums[piece][n][j] += done[n][j] * (j < 2 ? first : second) * (j % 2 ? column_scales[n].y : column_scales[n].x);
    };
    auto finish = [&](float (&done)[8][4], int piece) {
      multiplied<0>(done);
      if (lane == 0) barrier_arrive(empty + 8 * before);
      promote(done, piece);
    };
    for (int step = 0;;) {
      const u32 at = stages + slot * STAGE;
      const float* const scales = (const float*)(memory + SCALES) + slot * STAGE_SCALES;
      barrier_wait(full + 8 * slot, parity);
      float upper, lower, w[2];
      if (!BY_ROW) {
        const float* const row_scales = scales + x_part(0) + row;
        upper = row_scales[0], lower = row_scales[8], w[0] = scales[W_SCALES], w[1] = scales[W_SCALES + 1];
        __syncwarp();  // all lanes have read them before one of them releases the stage
      }
      auto load_column_scales = [&](int from) {
        const float* const own = scales + W_SCALES + w_part(0) + 2 * t;
#pragma unroll
        for (int n = from; n < from + 4; ++n) column_scales[n] = *(const float2*)(own + 8 * n);
      };
      auto run = [&](float (&begun)[8][4], float (&done)[8][4], int piece) {
        multiply_stage(begun, at + x_part(piece) * DEPTH, at + X_BYTES + w_part(piece) * DEPTH);
        if (BY_ROW && piece == 1) load_column_scales(4);  // for the product before, which still runs
        multiplied<1>(done);
        if (piece == 0 && step > 0 && lane == 0) barrier_arrive(empty + 8 * before);
        promote(done, (piece + PIECES - 1) % PIECES);
        if (!BY_ROW)
          first = upper * w[piece / 2], second = lower * w[piece / 2];
        else {
          const float* const row_scales = scales + x_part(piece) + row;
          first = row_scales[0], second = row_scales[8];
          if (piece == 0) load_column_scales(0);
          if (piece == PIECES - 1) __syncwarp();  // all lanes have read all scales of the stage
        }
      };
      run(part[0], part[1], 0);
      if (steps < 0) {  // never, but without this way out the assembler waits for each product (C7514)
        finish(part[0], 0);
        break;
      }
      run(part[1], part[0], 1);
      run(part[0], part[1], 2);
      run(part[1], part[0], 3);
      before = slot;
      if (++slot == STAGES) slot = 0, parity ^= 1;
      if (++step == steps) {
        tile = place_of(i);  // while the last product runs
        finish(part[1], 3);
        break;
      }
    }

    // A box of 64 columns at a time, which has room once that of the tile before has been read.
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
      const int first_row = tile.row + x_part(piece), column = tile.column + w_part(piece);
      const bool whole = !GROUPED || tile.end == M || tile.end >= first_row + 64;
      char* const box = own_y + piece * BOX;
      if (stores) whole ? boxes_stored<PIECES - 1>() : boxes_stored<0>();
      meet_half(half);
      char* const to = box + row * 128 + 4 * t;
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          *(u32*)(to + j * 1024 + (n ^ g) * 16) = rounded_pair(sums[piece][n][2 * j], sums[piece][n][2 * j + 1]);
      written_for_copies();
      meet_half(half);
      if (whole) {
        if (stores) store_box(&y_map, column, first_row, shared_address(box));
      } else
        for (int at = thread % 128; at < BOX / 16; at += 128) {
          const int m = at / 8, n = at % 8;
          if (first_row + m < tile.end && column + 8 * n < N)
            *(uint4*)(y + (long long)(first_row + m) * N + column + 8 * n) = *(const uint4*)(box + m * 128 + (n ^ m % 8) * 16);
        }
    }
  }
  if (stores) boxes_stored<0>();
}
