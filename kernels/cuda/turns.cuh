// Blocks, one per SM, that take tiles of Y in turns: some threads fill stages, which two groups of four warps use.

constexpr int GROUP = 8, WORKERS = 256, THREADS = WORKERS + 128;

struct Tile {
  int m, n;
};

// Tile i of m_tiles x n_tiles, GROUP rows of tiles at a time, so that what blocks read together stays in the L2 cache.
__device__ __forceinline__ Tile tile_at(int i, int m_tiles, int n_tiles) {
  const int group = i / (GROUP * n_tiles), left = m_tiles - group * GROUP;
  const int rows = left < GROUP ? left : GROUP, within = i % (GROUP * n_tiles);
  return Tile{group * GROUP + within % rows, within / rows};
}

// Barriers of stages: `full` when the copies of so many threads have come, `empty` when every warp says so.
__device__ __forceinline__ void init_stages(u32 full, u32 empty, int copiers) {
  for (int i = 0; i < STAGES; ++i) {
    barrier_init(full + 8 * i, copiers);
    barrier_init(empty + 8 * i, WORKERS / 32);
  }
  barriers_ready();
}

__device__ __forceinline__ void meet_half(int half) { half ? meet<2, 128>() : meet<1, 128>(); }
