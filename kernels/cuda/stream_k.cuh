// Stream-K: the steps of all tiles divided evenly among the blocks.
//
// A block works from its last tile to its first. A part of a tile whose end it does not have comes first, and is left to
// the block that has it; a tile that blocks of lower index began comes last, and the parts that they have left are added. So a
// block seldom waits, and only for those of lower index, which the hardware starts before it (CUDA does not promise that).

// Steps are numbered through all tiles. Quotients are products with 2^31 / divisor, rounded up: `Work` in stream_k.py.
struct Work {
  int steps;       // of a tile
  int each, more;  // all steps / blocks, and the rest
  u32 per_step, per_block;

  // block * all / blocks
  __device__ __forceinline__ int first_of(int block) const { return block * each + __umulhi(2 * block * more, per_block); }
  __device__ __forceinline__ int tile_of(int step) const { return __umulhi(2 * step, per_step); }
  __device__ __forceinline__ int block_of(int step) const {
    return ((u32)(step + 1) * gridDim.x - 1) / (u32)(gridDim.x * each + more);
  }
};
