// Y[M,N] = X[M,K] W[N,K]^T in bf16 on sm90, of operands in e4m3: a scale per 128 columns of a row of X, and per 128 x 128
// elements of W. Or GROUPED: rows of X come in groups, each with a matrix W of its own; `ends` has the row that each ends at,
// the last one M.
//
// A tile is 128 rows of X by 256 rows of W, a stage 128 columns of both, which share scales. One thread copies stages ahead of
// the others through TMA, which fills in zeros beyond the matrices. Two groups of four warps multiply 64 rows of X each by all
// of W, on the matrix units (wgmma), 64 rows of W at a time: while one such product runs, the one before is scaled and added to
// the sums. Y goes through shared memory and TMA, which leaves out what is beyond it; rows at the end of a group are stored by
// the warps, as other rows follow.
//
// Compiled with STAGES, GROUPED, FP16 for Y in fp16, and TILES = 8. N is a multiple of 8, K of 16. The scale of a row, or block of
// rows, and of a block of columns is at row * line + block * depth of its matrix; matrices W, and their scales, follow each other.

constexpr int ROWS = 128, COLUMNS = 256, DEPTH = 128, PIECES = 4;
constexpr int X_BYTES = ROWS * DEPTH, W_BYTES = COLUMNS * DEPTH, STAGE = X_BYTES + W_BYTES;
constexpr int BOX = 64 * 128, Y_AT = STAGES * STAGE, BARRIERS = Y_AT + 2 * PIECES * BOX;

static_assert(STAGES > 1, "a stage is released when the next one has come");

// A tile begins at a row and a column, of W within its matrix; the rows of Y that belong to it are before `end`.
struct Place {
  int row, end, column, matrix;
};

// The tiles of one group come after those of another: of `group`, which ends at the row `end`, those before `through`.
struct Tiles {
  const int* ends;
  int groups, N, group, end, through;

  __device__ __forceinline__ Tiles(const int* ends, int groups, int M, int N)
      : ends(ends), groups(groups), N(N), group(GROUPED ? -1 : 0), end(GROUPED ? 0 : M), through(GROUPED ? 0 : of_rows(M)) {}

  __device__ __forceinline__ int of_rows(int rows) const { return (rows + ROWS - 1) / ROWS * ((N + COLUMNS - 1) / COLUMNS); }

  // Goes on to the group of tile i; whether there is one.
  __device__ __forceinline__ bool reach(int i) {
    if (GROUPED)
      while (i >= through && group + 1 < groups) {
        const int first = end;
        end = __ldg(ends + ++group), through += of_rows(end - first);
      }
    return i < through;
  }

  // Of tile i, which has been reached last.
  __device__ __forceinline__ Place at(int i) const {
    const int first = GROUPED && group > 0 ? __ldg(ends + group - 1) : 0;
    const int within = GROUPED ? i - through + of_rows(end - first) : i;
    const Tile tile = tile_at(within, (end - first + ROWS - 1) / ROWS, (N + COLUMNS - 1) / COLUMNS);
    return Place{first + tile.m * ROWS, end, tile.n * COLUMNS, group};
  }
};

extern __shared__ __align__(1024) char memory[];

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_fp8(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,
               const __grid_constant__ TensorMap y_map, u16* y, const float* x_scales, const float* w_scales, int x_line,
               int x_depth, int w_line, int w_depth, const int* ends, int groups, int M, int N, int K) {
  const int thread = threadIdx.x, lane = thread % 32, warp = of_warp(thread / 32);
  const int steps = (K + DEPTH - 1) / DEPTH;
  const u32 stages = shared_address(memory), full = stages + BARRIERS, empty = full + 8 * STAGES;
  int slot = 0;
  u32 parity = 0;
  Tiles tiles(ends, groups, M, N);
  if (!tiles.reach(blockIdx.x)) return;

  if (thread == WORKERS) init_stages(full, empty);
  __syncthreads();

  if (warp >= WORKERS / 32) {
    give_up_registers<24>();
    if (thread == WORKERS)
      for (int i = blockIdx.x; tiles.reach(i); i += gridDim.x) {
        const Place tile = tiles.at(i);
        for (int step = 0; step < steps; ++step) {
          const u32 to = stages + slot * STAGE, ready = full + 8 * slot;
          barrier_wait(empty + 8 * slot, parity ^ 1);
          barrier_expect(ready, STAGE);
          copy_box(to, &x_map, step * DEPTH, tile.row, ready);
          copy_box(to + X_BYTES, &w_map, step * DEPTH, tile.matrix * N + tile.column, ready);
          if (++slot == STAGES) slot = 0, parity ^= 1;
        }
      }
    return;
  }

  // Lane 4 g + t of a warp has rows g and g + 8 of its 16 rows of X, here `row` and `row` + 8.
  take_registers<240>();
  const int g = lane / 4, t = lane % 4, half = warp / 4, row = warp * 16 + g;
  const bool stores = thread % 128 == 0;
  char* const own_y = memory + Y_AT + half * PIECES * BOX;

  // Scales are loaded a step ahead, beyond the end of a tile, too: two rows of X, and two blocks of W.
  struct Scales {
    float x[2], w[2];
  };
  const float *x_at[2], *w_at[2];
  auto point_at = [&](const Place tile) {
    const int last_block = (N - 1) / 128;
    for (int j = 0; j < 2; ++j) {
      const int m = tile.row + row + 8 * j, n = tile.column / 128 + j;
      x_at[j] = x_scales + (long long)(m < M ? m : M - 1) * x_line;
      w_at[j] = w_scales + (tile.matrix * (last_block + 1LL) + (n < last_block ? n : last_block)) * w_line;
    }
  };
  auto next_scales = [&] {
    Scales found;
    for (int j = 0; j < 2; ++j) {
      found.x[j] = __ldg(x_at[j]), found.w[j] = __ldg(w_at[j]);
      x_at[j] += x_depth, w_at[j] += w_depth;
    }
    return found;
  };

  float part[2][8][4] = {}, sums[PIECES][8][4];
  point_at(tiles.at(blockIdx.x));
  Scales next = next_scales();
  for (int i = blockIdx.x; tiles.reach(i); i += gridDim.x) {
    float first = 0, second = 0;  // what scales the product before: nothing at first
    int before = slot;
#pragma unroll
    for (int at = 0; at < 128; ++at) sums[at / 32][at / 4 % 8][at % 4] = 0;
#pragma unroll
    for (int at = 0; at < 32; ++at) part[1][at / 4][at % 4] = 0;
    auto promote = [&](const float (&done)[8][4], int piece) {
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[piece][n][j] += done[n][j] * (j < 2 ? first : second);
    };
    auto finish = [&](float (&done)[8][4], int piece) {
      multiplied<0>(done);
      if (lane == 0) barrier_arrive(empty + 8 * before);
      promote(done, piece);
    };
    for (int step = 0;;) {
      const Scales now = next;
      if (step + 1 == steps) {
        Tiles later = tiles;
        point_at(later.reach(i + gridDim.x) ? later.at(i + gridDim.x) : tiles.at(i));
      }
      next = next_scales();
      barrier_wait(full + 8 * slot, parity);
      auto run = [&](float (&begun)[8][4], float (&done)[8][4], int piece) {
        const u32 at = stages + slot * STAGE;
        multiply_stage(begun, at + half * 64 * DEPTH, at + X_BYTES + piece * 64 * DEPTH);
        multiplied<1>(done);
        if (piece == 0 && step > 0 && lane == 0) barrier_arrive(empty + 8 * before);
        promote(done, (piece + PIECES - 1) % PIECES);
        first = now.x[0] * now.w[piece / 2], second = now.x[1] * now.w[piece / 2];
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
        finish(part[1], 3);
        break;
      }
    }

    // A box of 64 columns at a time, which has room once that of the tile before has been read.
    const Place tile = tiles.at(i);
    const int first_row = tile.row + half * 64;
    const bool whole = !GROUPED || tile.end == M || tile.end >= first_row + 64;
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
      char* const box = own_y + piece * BOX;
      if (stores) whole ? boxes_stored<PIECES - 1>() : boxes_stored<0>();
      meet_half(half);
      char* const to = box + (warp % 4 * 16 + g) * 128 + 4 * t;
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          *(u32*)(to + j * 1024 + (n ^ g) * 16) = rounded_pair(sums[piece][n][2 * j], sums[piece][n][2 * j + 1]);
      written_for_copies();
      meet_half(half);
      const int column = tile.column + piece * 64;
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
