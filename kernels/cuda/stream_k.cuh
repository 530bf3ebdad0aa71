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

// The lowest bit of a word of a part tells which launch it is of: launches take turns, 0 and 1. Who takes a part loads it until
// all of its words have come, so that no flag has to follow them, nor a fence to stand between. `turns` has a word for each
// block: the turn of its next launch. So launches that share parts must not overlap, and all blocks of each must end.
__device__ __forceinline__ float in_turn(float sum, u32 turn) { return __uint_as_float(__float_as_uint(sum) & ~1u | turn); }

__device__ __forceinline__ void leave(float4* at, const float (&sums)[4], u32 turn) {
  store_words(at, make_float4(in_turn(sums[0], turn), in_turn(sums[1], turn), in_turn(sums[2], turn), in_turn(sums[3], turn)));
}

// `bits`, with the lowest one set where a word is not of this turn.
__device__ __forceinline__ u32 differing(u32 bits, const float4& words, u32 turn) {
  const float each[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) bits = or_xor(bits, __float_as_uint(each[i]), turn);
  return bits;
}

// Adds what BLOCKS blocks have left from `first` on, those below this one, at part(block, 0) to part(block, COUNT - 1), where
// that is not null.
template <int BLOCKS, int COUNT, class Part>
__device__ __forceinline__ void take(float (&sums)[COUNT][4], int first, const Part& part, u32 turn) {
  float4 words[BLOCKS * COUNT];
  u32 others;
  do {
    others = 0;
#pragma unroll
    for (int i = 0; i < BLOCKS * COUNT; ++i) {
      const float none = __uint_as_float(turn);
      const float4* at = BLOCKS == 1 || first + i / COUNT < blockIdx.x ? part(first + i / COUNT, i % COUNT) : nullptr;
      words[i] = at ? load_words(at) : make_float4(none, none, none, none);
      others = differing(others, words[i], turn);
    }
  } while (__any_sync(0xffffffffu, others & 1));
#pragma unroll
  for (int i = 0; i < BLOCKS * COUNT; ++i)
    add(sums[i % COUNT],
        make_float4(in_turn(words[i].x, 0), in_turn(words[i].y, 0), in_turn(words[i].z, 0), in_turn(words[i].w, 0)));
}

// All from `block` on: the words of several are loaded before any is used. The last one may be left over.
template <int COUNT, class Part>
__device__ __forceinline__ void take_all(float (&sums)[COUNT][4], int block, const Part& part, u32 turn) {
  constexpr int TOGETHER = COUNT < 3 ? 4 : COUNT < 5 ? 2 : 1;
  for (; block + (TOGETHER > 1) < blockIdx.x; block += TOGETHER) take<TOGETHER>(sums, block, part, turn);
  if (TOGETHER > 1 && block < blockIdx.x) take<1>(sums, block, part, turn);
}

// The parts of blocks from `from` on: a word that is waited for is not to be fetched from memory first.
template <int WORDS, int THREADS>
__device__ __forceinline__ void prefetch_parts(const float* parts, int from, int thread) {
  for (int block = from; block < blockIdx.x; ++block)
    for (int i = thread * 32; i < WORDS; i += THREADS * 32) prefetch(parts + (u32)block * WORDS + i);
}
