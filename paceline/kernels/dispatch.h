// Functions marked PACELINE_VECTORISED are compiled for several instruction sets; the loader picks one at program
// start. They give the same bits on each, because contraction to fused multiply-add is off and lanes are independent.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PACELINE_SANITIZED)
#define PACELINE_VECTORISED \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define PACELINE_VECTORISED  // sanitizers start after the loader has picked, and would crash in it
#endif
